"""The simulator as second judge of the roofline: simulated kernels whose every count is exact, on two
simulated GPUs.

`kernels` draws the kernels by regime, `simulate` runs them and reads their counters as a profiler's,
`held_intervals` compares projections with what the simulator did.
"""
