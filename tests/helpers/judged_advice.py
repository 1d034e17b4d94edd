"""Does paired advice hold? Simulated kernels know: each change is made to the kernel itself, too.

The adviser is given what a profile would tell: the kernel's counters on the old GPU, and descriptions of
both that are off by 5 %. What a change truly does is a pair of runs of the kernel on the new GPU as it
is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from gpu_pairs import draw_kernel, draw_pair
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim.address_patterns import Strided
from smlab.sim.workloads.workload import Instruction, Kernel, Loop
from smlab.validation.campaigns.projection.kernels import DrawnKernel
from smlab.validation.campaigns.projection.simulate import run
from smlab.validation.paired_advice.paired_advice import TriedChange, changes
from smlab.validation.paired_advice.proxies import fitted_proxy, seconds_on

SEED: Final = 6018
CLEAR: Final = 0.03
"""True changes of less are neither gains nor losses."""

KINDS: Final = ("grid", "block size", "padding")
"""Changes that can be made to a drawn kernel."""

ATTEMPTS: Final = 20


@dataclass(frozen=True)
class JudgedChange:
    """One change of one kernel: relative changes of its time on the new GPU, foreseen and true; ``copied`` is
    what it truly does on the old one."""

    regime: str
    kind: str
    foreseen: float
    true: float
    copied: float


def judge_advice(number: int, seed: int = SEED) -> list[JudgedChange]:
    """Every change of kernel ``number`` that a proxy shows and that can be made to it."""
    pair = draw_pair(number, seed)
    for attempt in range(ATTEMPTS):
        drawn = draw_kernel(number, attempt, seed, pair)
        if drawn is not None:
            break
    else:
        return []
    work = run([drawn], [pair.source], "compiled").work[0]
    base = fitted_proxy(work, 0, pair.described_source)
    found = []
    for change in changes(base, pair.described_target):
        if change.kind not in KINDS:
            continue
        try:
            foreseen = seconds_on(pair.described_target, base, change.changed)
            copied, true = (_true_change(drawn, change, gpu) for gpu in (pair.source, pair.target))
        except SmlabError:
            continue  # a block that one of the GPUs cannot hold
        found.append(JudgedChange(drawn.regime, change.kind, foreseen[1] / foreseen[0] - 1, true, copied))
    return found


def _true_change(drawn: DrawnKernel, change: TriedChange, gpu: Gpu) -> float:
    """The relative change of the time for the same work: loops turn whole times, so that a grid divided anew
    does a few per cent more or less."""
    both = [drawn, replace(drawn, kernel=changed_kernel(drawn.kernel, change))]
    each = run(both, [gpu], "compiled").work[0].seconds / [_executed(one.kernel) for one in both]
    return float(each[1] / each[0] - 1)


def _executed(kernel: Kernel) -> int:
    """Warp-instructions of a grid of one program."""
    of_a_warp = sum(times for _, times in kernel.programs[0].instructions())
    return of_a_warp * kernel.blocks * kernel.warps_per_block


def changed_kernel(kernel: Kernel, change: TriedChange) -> Kernel:
    """A drawn kernel, of one loop, with a change made to it."""
    (program,) = kernel.programs
    (loop,) = program.body
    assert isinstance(loop, Loop)
    to = change.changed
    if change.kind == "padding":
        body = tuple(_padded(one) for one in loop.body if isinstance(one, Instruction))
        programs = (replace(program, body=(replace(loop, body=body),)),)
        return replace(kernel, programs=programs, shared_bytes_per_block=to.shared_bytes)
    if change.kind == "grid":
        count = max(1, round(loop.count * kernel.blocks / to.blocks))
        return replace(
            kernel, programs=(replace(program, body=(replace(loop, count=count),)),), blocks=to.blocks
        )
    return replace(kernel, roles=((0,) * to.warps,), blocks=to.blocks, shared_bytes_per_block=to.shared_bytes)


def _padded(one: Instruction) -> Instruction:
    return replace(one, shared=Strided(1)) if one.op.startswith("shared") else one
