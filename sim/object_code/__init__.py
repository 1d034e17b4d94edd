"""The compiled functions as objects (ELF, Mach-O): which there are, how one is built, kept and loaded.

An object holds all functions of some modules that Python calls (`smlab.sim.compiled.jit.entry`). `objects`
lists them and says which files are compiled in. `building` makes one by Numba and LLVM, for this processor or
for another one. `loading` finds one: made ahead in the installation, else kept in the user's cache, else it
has a child process build it.
"""
