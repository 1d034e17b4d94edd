"""The kernels of GPA's own benchmark: what its authors measured, what the simulator and the advisor say."""
