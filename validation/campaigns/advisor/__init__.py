"""The advisor held against exact truth: kernels of ours as machine code on the simulated GPU.

`kernels` holds the kernels and the changes that a program can make to them, `simulate` runs them (with
jitter, under any policy, with one producer made free), `stall_truth` tells from a recorded run whom each
warp waited for. `blame`, `producer_gains` and `speedups` judge the advisor's blame, its ranking and its
estimates. ``python -m smlab.validation.campaigns.advisor`` runs it all and writes `results.json`.

Simulated truth tests the advisor, not the hardware: both know scoreboards by the same rules.
"""
