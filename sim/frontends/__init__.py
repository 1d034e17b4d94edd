"""Front ends: from a kernel as people have it (a file, a function of Python) to machine code and a launch.

`protocol` says what each is given and gives; `registry` lists them. Each of the others is one front end. What
it needs beyond smlab (Triton, CuPy, a compiler) is imported when it is used.
"""
