"""The compiled engine: the semantics of SEMANTICS.md in Numba, event for event what the reference does, and
fast.

`layout` says how the state lies in memory, `issue` is the innermost loop, `warps` what happens to a warp
between its issues, `memory` L1 to DRAM, `gpu` how SMs advance together; `prepare`, `engine` and `collect` are
the Python around them, `sweep` runs many small kernels for service tables, `jit` holds what is to be known
about Numba. `smlab.sim.object_code` makes machine code of them.
"""

from smlab.sim.compiled.engine import run

__all__ = ["run"]
