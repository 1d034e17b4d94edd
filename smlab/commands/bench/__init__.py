"""``smlab bench``: the CUDA benchmarks."""
