"""Kernels of published Triton libraries, as their authors call and time them."""
