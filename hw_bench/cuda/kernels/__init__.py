"""The CUDA benchmarks' kernels, and the inline assembly that they are made of."""
