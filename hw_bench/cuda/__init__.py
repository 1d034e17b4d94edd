"""CUDA benchmarks that prove by their own machine code what they time.

`kernels` holds what runs on the GPU, `registry` lists it, `contract` checks its machine code, `measuring`
launches it and writes data sets; each imports only what stands before it, and `toolkit` says what is here.

Importing this package needs neither a GPU nor CUDA packages; compiling needs the extra ``smlab[cuda12]``.
"""
