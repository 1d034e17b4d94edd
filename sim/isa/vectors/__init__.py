"""The same meanings compiled: 32 lanes at a time, in LLVM and Numba."""
