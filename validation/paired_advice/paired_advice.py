"""What would make a kernel faster on the new GPU: changes, each a pair of simulated runs on both GPUs.

The kernel is its proxy (`proxies`), with and without one change, nothing else being different. What the
change brings on the new GPU orders the advice; what it does on the old one stands beside it. Changes that
counters cannot simulate are named as such, without a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.models.projection.parallelism import resident_blocks
from smlab.validation.paired_advice.proxies import WAVES, ProxyKernel, fitted_proxy, seconds_on

CONFLICTS: Final = 1.05
"""Passes of a shared access from which on padding is looked at."""

MUCH: Final = 0.05
"""The share of a warp's instructions from which on a kind of access is worth moving."""

WORTH: Final = 0.01
"""Gains below that, relative, are no advice."""

REDUX: Final = 80
"""The first architecture that reduces over a warp in one instruction."""


Seen = Literal["shuffles", "atomics"]


@dataclass(frozen=True)
class PairedAdvice:
    """One change of a kernel. ``target_change`` and ``source_change`` are relative changes of its time (below
    0: faster), None where it is ``not simulable``. ``fidelity`` is the proxy's simulated time on the
    source over the measured one."""

    kernel: str
    change: str
    text: str
    target_change: float | None
    source_change: float | None
    fidelity: float | None

    @property
    def evidence(self) -> str:
        return "not simulable" if self.target_change is None else "paired simulation"


@dataclass(frozen=True)
class TriedChange:
    """A kind of change, what to do in words, and the kernel with it."""

    kind: str
    text: str
    changed: ProxyKernel


def advise(
    work: KernelWork, row: int, source: Gpu, target: Gpu, seen: frozenset[Seen] = frozenset()
) -> list[PairedAdvice]:
    """Changes of a kernel that was counted on ``source``, the largest gain on ``target`` first. ``seen`` is
    what its code or its counters show that a proxy cannot have.

    Raises:
        SmlabError: a kernel whose launch or instructions are not known, or that does not fit a GPU.
    """
    base = fitted_proxy(work, row, source)
    tried = [
        _of_atomics(one, base) if "atomics" in seen else one
        for one in changes(base, target)
        if _fits(one.changed, source) and _fits(one.changed, target)
    ]
    here, there = (seconds_on(gpu, base, *(one.changed for one in tried)) for gpu in (source, target))
    fidelity = here[0] / float(work.seconds[row])
    found = [
        PairedAdvice(base.name, one.kind, one.text, after / there[0] - 1, before / here[0] - 1, fidelity)
        for one, before, after in zip(tried, here[1:], there[1:], strict=True)
        if after / there[0] - 1 < -WORTH
    ]
    kinds = {one.change for one in found}
    unsaid = [
        PairedAdvice(base.name, kind, text, None, None, None)
        for kind, text in _unsaid(seen, target)
        if kind not in kinds
    ]
    return sorted(found, key=lambda one: one.target_change or 0.0) + unsaid


def _of_atomics(one: TriedChange, base: ProxyKernel) -> TriedChange:
    """With atomics among the accesses, passes beyond the first are as likely theirs as bank conflicts'."""
    if one.kind != "padding":
        return one
    text = (
        f"an access to shared memory takes {base.mix.ways:.1f} passes: where lanes of a warp add to one "
        "word, add them up first (one atomic a word); where they meet on a bank, pad"
    )
    return TriedChange("aggregation", text, one.changed)


def changes(base: ProxyKernel, target: Gpu) -> Iterator[TriedChange]:
    """Every change that a proxy can show, whatever it brings."""
    for maker in (_grid, _block, _padding, _staging, _unstaging):
        yield from maker(base, target)


def _grid(base: ProxyKernel, target: Gpu) -> Iterator[TriedChange]:
    sms = target.integer("gpu.sms")
    room = int(_resident(base, target)) * sms
    for unit in dict.fromkeys((room, sms)):
        if not unit or base.blocks > WAVES * room:
            continue
        blocks = max(1, round(base.blocks / unit)) * unit
        if blocks == base.blocks:
            continue
        what = f"{unit // sms} blocks on each of {sms} SMs" if unit > sms else f"{sms} SMs"
        text = f"{blocks:,} blocks instead of {base.blocks:,} (a multiple of {what}), the work divided anew"
        yield TriedChange(
            "grid", text, replace(base, blocks=blocks, instructions=base.instructions * base.blocks / blocks)
        )


def _block(base: ProxyKernel, target: Gpu) -> Iterator[TriedChange]:
    for factor, possible in ((2.0, base.blocks % 2 == 0), (0.5, base.warps % 2 == 0)):
        warps, blocks = int(base.warps * factor), int(base.blocks / factor)
        if possible and warps <= target.integer("sm.max_threads_per_block") // 32:
            shared = int(base.shared_bytes * factor)
            text = f"{32 * warps} threads a block instead of {32 * base.warps}, the grid as large in all"
            yield TriedChange(
                "block size", text, replace(base, warps=warps, blocks=blocks, shared_bytes=shared)
            )


def _padding(base: ProxyKernel, target: Gpu) -> Iterator[TriedChange]:
    if base.mix.ways >= CONFLICTS:
        text = f"pad shared memory: an access takes {base.mix.ways:.1f} passes, 1 without bank conflicts"
        mix = replace(base.mix, ways=1.0)
        yield TriedChange("padding", text, replace(base, mix=mix, shared_bytes=base.shared_bytes * 33 // 32))


def _staging(base: ProxyKernel, target: Gpu) -> Iterator[TriedChange]:
    """Loads that L1 holds, through shared memory instead."""
    mix = base.mix
    cached = mix.loads * (1 - mix.from_dram - mix.from_l2)
    if cached < MUCH:
        return
    left = mix.loads - cached
    moved = replace(
        mix,
        loads=left,
        shared=mix.shared + cached,
        from_dram=mix.from_dram * mix.loads / left if left > MUCH / 10 else 0.0,
        from_l2=mix.from_l2 * mix.loads / left if left > MUCH / 10 else 0.0,
        ways=(mix.ways * mix.shared + cached) / (mix.shared + cached),
    )
    text = f"stage in shared memory what L1 holds ({100 * cached:.0f} % of the instructions load it)"
    yield TriedChange("shared memory", text, replace(base, mix=moved))


def _unstaging(base: ProxyKernel, target: Gpu) -> Iterator[TriedChange]:
    """Shared memory left out, its contents read through L1."""
    mix = base.mix
    if mix.shared < MUCH:
        return
    loads = mix.loads + mix.shared
    moved = replace(
        mix,
        loads=loads,
        shared=0.0,
        from_dram=mix.from_dram * mix.loads / loads,
        from_l2=mix.from_l2 * mix.loads / loads,
        ways=1.0,
    )
    text = "read through L1 what is staged in shared memory, which holds no block back then"
    yield TriedChange("L1 cache", text, replace(base, mix=moved, shared_bytes=0))


def _unsaid(seen: frozenset[Seen], target: Gpu) -> Iterator[tuple[str, str]]:
    """Changes that are worth a look and that no proxy can show."""
    if "shuffles" in seen and _number(target) >= REDUX:
        yield (
            "reductions",
            "where shuffles add up integers over a warp, one instruction does it (__reduce_add_sync)",
        )
    if "atomics" in seen:
        yield "aggregation", "where lanes of a warp add to one word, add them up first: one atomic a word"


def _number(gpu: Gpu) -> int:
    return int(gpu.sm_architecture.removeprefix("sm_"))


def _resident(one: ProxyKernel, gpu: Gpu) -> int:
    return int(resident_blocks(gpu, 32 * one.warps, one.registers, one.shared_bytes))


def _fits(one: ProxyKernel, gpu: Gpu) -> bool:
    try:
        return _resident(one, gpu) > 0
    except SmlabError:
        return False
