"""CUDA benchmarks that prove by their own machine code what they time. See `contract` and `registry`.

Importing this package needs neither a GPU nor CUDA packages; compiling needs the extra ``smlab[cuda12]``.
"""
