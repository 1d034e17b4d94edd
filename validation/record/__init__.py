"""The record of measured kernels, simulated and judged: how far a simulated time is from the real one."""
