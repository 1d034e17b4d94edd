"""A reading of the evidence that no description carries, to judge what is told without it.

Eight warps on an atomic unit of one pipe, kept for base + N passes, take as long as on one of two pipes that
are each kept for twice that: operations interleave, as they do on a B300, and the joint fit to all published
measurements of V100 and A100 (`smlab.validation.calibrate.joint`) gives both the same error. They differ
where few warps do atomics of many lanes: one alone takes up to 1.6 times as long. The intervals are made for
the readings that descriptions carry; whether they hold on this machine, which they have never seen, says
whether these are enough.
"""

from __future__ import annotations

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu

OPERATIONS = ("add", "cas", "popc_inc")
PARTS = ("base_interval_cycles", "pass_interval_cycles")


def on_two_pipes(gpu: Gpu) -> Gpu:
    """``gpu`` with a second pipe in its atomic unit, and all that keeps a pipe twice as long; `SmlabError`
    if it has a second one already."""
    pipes = gpu.integer("atomic.pipes") if gpu.has("atomic.pipes") else 1
    if pipes != 1:
        raise SmlabError.at(f"{gpu.name}: atomic.pipes", "has a second pipe already", pipes, "1")
    keys = [f"atomic.{op}.{part}" for op in OPERATIONS for part in PARTS]
    values: dict[str, float | int | str] = {key: 2 * gpu.number(key) for key in keys if gpu.has(key)}
    return gpu.with_values(
        {**values, "atomic.pipes": 2}, source="assumed: two interleaved pipes in place of one"
    )
