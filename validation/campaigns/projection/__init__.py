"""The simulator as second judge of the roofline: simulated kernels whose every count is exact, on two
simulated GPUs.

`gpus` makes the GPUs, `kernels` draws the kernels by regime, `simulate` runs them and reads their
counters as a profiler's, `judge` compares ceilings and projections with what the simulator did,
`published` holds the errors of Van Lanker et al.
"""
