"""Why a kernel takes longer on one GPU than on another: the ratio of its times, split into terms that add up.

The time of a kernel is modelled on GPUs *between* the two (`intermediate_gpus`): what its resources need
there, the tail of its grid, the warps that fit, the latencies that these must hide (balanced job bounds,
`smlab.models.projection.residency`). The logarithm of the modelled ratio is then divided among the groups of
constants by Shapley's value: each group's term is the mean, over all orders in which the groups could be
exchanged, of what its own exchange changes. These terms add up to the model's ratio exactly, whatever the
order, and no cause is favoured by being taken first. What is left of the measured ratio is *unexplained* and
stands as a term of its own.

SMs count twice, as two causes: `sms`, what their number would bring to a grid that fills them evenly, and
`tail`, what the blocks of this grid make of it (the SM with the most blocks ends last). For `sms` alone the
grid grows with the number of SMs, for `tail` alone it changes by the opposite factor.

Counters of the target, where there are some, add what is not hardware: `code`, other instruction counts;
registers go to `occupancy` (told without counters too), traffic behind L1 and L2 to these. Without counters
of the source its kernels are taken to be bound by their SMs, and the terms say no more than the launch does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.models.portability.intermediate_gpus import GROUPS, RATES, IntermediateGpus, scaled, uncertainty
from smlab.models.projection.parallelism import resident_blocks
from smlab.models.projection.residency import carried_by_residency, target_dram_bytes
from smlab.models.roofline.ceilings import Ceilings, ceilings

Floats = NDArray[np.float64]

CAUSES: Final = (*list(GROUPS)[:2], "tail", *list(GROUPS)[2:], "code")
"""The terms in the order in which they are shown; ``unexplained`` stands beside them."""

SMS: Final = ("sms", "tail")
"""Together the effect of another number of SMs on the grid at hand."""

EXACT: Final = 6
"""Up to so many causes all subsets are taken; with more, `ORDERS` orders of them."""

ORDERS: Final = 12
"""Orders, each with its reverse: what a pair of causes does together is then halved between the two."""

STEP: Final = 0.05
"""Relative step of the derivatives by which constants' uncertainties become those of terms."""

MODEL_ERROR: Final = 0.07
"""Standard error of the model's logarithm of a ratio where all constants are known: the spread of what was
left unexplained on simulated pairs (docs/findings/porting.md)."""

TERM_SHARE: Final = 0.15
TERM_FLOOR: Final = 0.02
"""Standard error of a term where all constants are known, by the model's form: a share of the term, and a
part that does not hang on it. On 200 simulated pairs (seed 4018), by which they were chosen, the 90 %
intervals of small and of large terms then hold; other pairs judge them."""

LEVEL: Final = 0.9
"""Of all intervals."""

NOTHING: Final = 0.03
"""Logarithm of a factor that no one has to explain."""

Time = Callable[[frozenset[str]], Floats]


@dataclass(frozen=True, eq=False)
class Causes:
    """Terms of the logarithm of the ratio of times (target over source), a row a kernel.

    ``terms``, ``low`` and ``high`` are of shape ``(kernels, causes)`` in the order of `CAUSES`; ``log_ratio``
    and ``unexplained`` with its ends are ``(kernels,)``. Terms and ``unexplained`` add up to ``log_ratio``.
    ``level`` is that of all intervals. ``counted`` marks the kernels with counters of the source.
    """

    log_ratio: Floats
    terms: Floats
    low: Floats
    high: Floats
    unexplained: Floats
    unexplained_low: Floats
    unexplained_high: Floats
    level: float
    counted: NDArray[np.bool_]

    @property
    def modelled(self) -> Floats:
        """The logarithm of the ratio by the model alone."""
        return np.asarray(self.terms.sum(axis=1))

    def ranked(self, row: int) -> list[tuple[str, float]]:
        """The causes of a kernel by the size of their terms, largest first; SMs and tail count together."""
        values = dict(zip(CAUSES, self.terms[row].tolist(), strict=True))
        sms_and_tail = sum(values.pop(name) for name in SMS)
        values["sms and tail"] = sms_and_tail
        return sorted(values.items(), key=lambda item: -abs(item[1]))

    def dominant(self, row: int) -> str:
        """The largest cause of a kernel; "unexplained" where that is larger than all of them, "nothing" where
        none is above `NOTHING`."""
        name, value = self.ranked(row)[0]
        if max(abs(value), abs(self.unexplained[row])) < NOTHING:
            return "nothing"
        return name if abs(value) >= abs(self.unexplained[row]) else "unexplained"


def causes(
    work: KernelWork,
    source: Gpu,
    target: Gpu,
    log_ratio: ArrayLike | None = None,
    log_error: ArrayLike = 0.0,
    *,
    target_work: KernelWork | None = None,
    by_code: ArrayLike = False,
) -> Causes:
    """Split the ratios of the kernels of ``work``, measured on ``source``, to their times on ``target``.

    ``log_ratio`` ``(kernels,)`` is the logarithm of the measured ratio, with the half width ``log_error`` of
    its interval of level `LEVEL`; None takes the model's own, and nothing is unexplained. ``target_work`` is
    what the kernels were counted to do on the target. For those in the mask ``by_code`` it follows from their
    code and the source's counters. Their other traffic behind L1 and L2 (spills) is then that of the code.

    Raises:
        SmlabError: unequal numbers of kernels; a launch that is not known or does not fit one of the GPUs.
    """
    if target_work is not None and len(target_work) != len(work):
        raise SmlabError.at("target_work", "other kernels", len(target_work), f"{len(work)} kernels")
    counted = np.asarray(_counted(work))
    work = _as_bound_by_sms(work, source, ~counted)
    there = None
    if target_work is not None:
        as_launched = _with_registers(work, target_work, (source, target))
        there = _where(counted & _counted(target_work), target_work, as_launched)
    source, target = _at_clock(source, work), _at_clock(target, target_work)
    work = replace(work, clock_hz=np.full(len(work), np.nan))
    coded = np.broadcast_to(np.asarray(by_code, dtype=bool), counted.shape)
    model = _Model(work, there, IntermediateGpus(source, target), coded)
    terms, spread = _shapley(model.active(), model.log_time, len(work))
    form = np.hypot(TERM_SHARE * terms, TERM_FLOOR * np.isin(CAUSES, model.active()))
    sigma = np.sqrt(model.sigmas() ** 2 + spread**2 + form**2)
    modelled = terms.sum(axis=1)
    measured = modelled if log_ratio is None else np.asarray(log_ratio, dtype=np.float64)
    error = np.broadcast_to(np.asarray(log_error, dtype=np.float64), measured.shape)
    wide = float(special.ndtri(0.5 + LEVEL / 2))
    left = measured - modelled
    # The causes' own errors are taken for independent; so is the model's form.
    width = np.sqrt(error**2 + wide**2 * (model.sigmas() ** 2).sum(axis=1) + (wide * MODEL_ERROR) ** 2)
    return Causes(
        log_ratio=measured,
        terms=terms,
        low=terms - wide * sigma,
        high=terms + wide * sigma,
        unexplained=left,
        unexplained_low=left - width,
        unexplained_high=left + width,
        level=LEVEL,
        counted=counted,
    )


class _Model:
    """Modelled times of kernels on hybrids; subsets of `CAUSES` are evaluated once."""

    def __init__(
        self,
        work: KernelWork,
        there: KernelWork | None,
        intermediate_gpus: IntermediateGpus,
        by_code: NDArray[np.bool_],
    ) -> None:
        self.work, self.there, self.intermediate_gpus, self.by_code = work, there, intermediate_gpus, by_code
        self.here = self._ceilings(work, intermediate_gpus.gpu(frozenset()), None)
        self._known: dict[frozenset[str], Floats] = {}

    def active(self) -> tuple[str, ...]:
        """The causes that can change a time here."""
        active = set(self.intermediate_gpus.differing())
        if "sms" in active:
            active.add("tail")
        if self.there is not None:
            active |= {"code", "occupancy", "l2", "shared"}
        return tuple(name for name in CAUSES if name in active)

    def log_time(self, causes: frozenset[str]) -> Floats:
        """Logarithm of the modelled time with ``causes`` exchanged, (kernels,)."""
        if causes not in self._known:
            self._known[causes] = self._log_time(causes, self.intermediate_gpus.gpu(causes))
        return self._known[causes]

    def sigmas(self) -> Floats:
        """Standard errors of the terms from those of the constants, (kernels, causes)."""
        everything = frozenset(self.active())
        sigmas = np.zeros((len(self.work), len(CAUSES)))
        for name, rates in RATES.items():
            if name not in everything:
                continue
            variance = np.zeros(len(self.work))
            for keys in rates:
                u = math.hypot(
                    *(
                        uncertainty(g, keys)
                        for g in (self.intermediate_gpus.source, self.intermediate_gpus.target)
                    )
                )
                if u == 0:
                    continue
                slopes = [
                    self._log_time(at, scaled(self.intermediate_gpus.gpu(at), keys, 1 + STEP))
                    - self.log_time(at)
                    for at in (everything, frozenset[str]())
                ]
                variance += (np.abs(slopes).max(axis=0) / math.log1p(STEP) * u) ** 2
            sigmas[:, CAUSES.index(name)] = np.sqrt(variance)
        return sigmas

    def _log_time(self, causes: frozenset[str], gpu: Gpu) -> Floats:
        work = self._work(causes, gpu)
        far = self._ceilings(work, gpu, self.here)
        clocks = float(self.intermediate_gpus.source.number("clock.sm_hz")) / float(gpu.number("clock.sm_hz"))
        start = _fixed_s(self.intermediate_gpus.source, self.here)
        spent = np.maximum(self.work.seconds - start, 0.05 * self.work.seconds)
        residency = carried_by_residency(self.here, far, spent, np.full(len(work), clocks))
        seconds = np.where(residency.known, residency.seconds, spent)
        if not np.isfinite(seconds).all():
            row = int(np.flatnonzero(~np.isfinite(seconds))[0])
            raise SmlabError.at(f"kernel {work.kernel[row]}", "no time can be modelled", gpu.name)
        return np.asarray(np.log(seconds + _fixed_s(gpu, far)))

    def _work(self, causes: frozenset[str], gpu: Gpu) -> KernelWork:
        """What the kernels do on a hybrid: the grid of the causes, the counts of the code of one side."""
        work, there = self.work, self.there
        if there is not None:
            names: list[str] = []
            if "code" in causes:
                names += ["add", "mul", "fma", "tensor_flops", "instructions", "thread_instructions"]
                names += ["alu_instructions", "xu_instructions", "memory_requests", "l1_bytes"]
                names += ["shared_bytes", "shared_wavefronts", "shared_ideal_wavefronts"]
            if "occupancy" in causes:
                names += ["registers_per_thread", "shared_bytes_per_block"]
            values: dict[str, Any] = {n: _known(getattr(there, n), getattr(work, n)) for n in names}
            for name, cause in (("l2_bytes", "shared"), ("dram_bytes", "l2")):
                changed = np.where(self.by_code, "code" in causes, cause in causes)
                current = getattr(work, name)
                values[name] = np.where(changed, _known(getattr(there, name), current), current)
            work = replace(work, **values)
        if "l2" in causes and (there is None or np.isnan(there.dram_bytes).all()):
            work = replace(work, dram_bytes=target_dram_bytes(work, self.intermediate_gpus.source, gpu))
        sms = [g.integer("gpu.sms") for g in (self.intermediate_gpus.source, self.intermediate_gpus.target)]
        if ("sms" in causes) == ("tail" in causes) or sms[0] == sms[1]:
            return work
        # Rounded up, a grid never gets past the multiple of the SMs that it had not passed.
        grown = sms[1] / sms[0] if "sms" in causes else sms[0] / sms[1]
        return replace(work, blocks=np.ceil(work.blocks * grown - 1e-9))

    def _ceilings(self, work: KernelWork, gpu: Gpu, here: Ceilings | None) -> Ceilings:
        return ceilings(work, gpu, "sustained", seen=None if here is None else here.seen)


def _fixed_s(gpu: Gpu, there: Ceilings) -> Floats:
    """Seconds that do not depend on what the kernel does: its launch, and the places of blocks changing
    hands."""
    launch = float(gpu.number("launch.overhead_s")) if gpu.has("launch.overhead_s") else 0.0
    rounds = np.maximum(np.ceil(there.grid.waves) - 1, 0)
    each = float(gpu.number("sm.block_launch_cycles")) / float(gpu.number("clock.sm_hz"))
    return np.asarray(launch + rounds * each)


def _shapley(active: tuple[str, ...], log_time: Time, kernels: int) -> tuple[Floats, Floats]:
    """Shapley's value of each of `CAUSES`, (kernels, causes), and its standard deviation over the orders."""
    values, squares = np.zeros((2, kernels, len(CAUSES)))
    count = 0
    for order in _orders(active):
        count += 1
        before, taken = log_time(frozenset()), frozenset[str]()
        for name in order:
            taken |= {name}
            after = log_time(taken)
            column = CAUSES.index(name)
            values[:, column] += after - before
            squares[:, column] += (after - before) ** 2
            before = after
    mean = values / max(count, 1)
    spread = np.sqrt(np.maximum(squares / max(count, 1) - mean**2, 0.0))
    return mean, spread


def _orders(active: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    """All orders of few causes; of more, a fixed draw of orders, each with its reverse."""
    if len(active) <= EXACT:
        yield from itertools.permutations(active)
        return
    rng = np.random.default_rng(len(active))
    for _ in range(ORDERS):
        order = tuple(active[i] for i in rng.permutation(len(active)))
        yield order
        yield order[::-1]


def _counted(work: KernelWork) -> NDArray[np.bool_]:
    """Whether a kernel's resources were counted at all."""
    moved = np.nan_to_num(work.level_bytes).sum(axis=1) + np.nan_to_num(work.shared_wavefronts)
    return np.asarray((np.nan_to_num(work.instructions) > 0) | (moved > 0))


def _with_registers(work: KernelWork, there: KernelWork, gpus: tuple[Gpu, Gpu]) -> KernelWork:
    """The kernels with the registers and shared memory that they have on the target, where these are known on
    both and leave them fit to run on both."""
    names = "registers_per_thread", "shared_bytes_per_block"
    known = [~np.isnan(getattr(work, n)) & ~np.isnan(getattr(there, n)) for n in names]
    values_there = [
        np.where(k, getattr(there, n), getattr(work, n)) for k, n in zip(known, names, strict=True)
    ]
    threads = np.where(work.threads_per_block > 0, work.threads_per_block, 1)
    each = [resident_blocks(gpu, threads, *map(np.nan_to_num, values_there)) > 0 for gpu in gpus]
    fits = np.logical_and(*each)
    values: dict[str, Any] = {
        n: np.where(fits, t, getattr(work, n)) for n, t in zip(names, values_there, strict=True)
    }
    return work.with_values(**values)


def _as_bound_by_sms(work: KernelWork, gpu: Gpu, which: NDArray[np.bool_]) -> KernelWork:
    """Kernels of unknown launch as grids that fill any GPU evenly, and those of a mask as if their SMs had
    issued without pause: all that a launch alone allows."""
    unknown = np.isnan(work.blocks) | np.isnan(work.threads_per_block)
    work = replace(
        work,
        blocks=np.where(unknown, EVEN_BLOCKS, work.blocks),
        threads_per_block=np.where(unknown, float(gpu.number("sm.warp_lanes")), work.threads_per_block),
        instructions=np.where(which, 1.0, work.instructions),
    )
    if not which.any():
        return work
    roofs = ceilings(work, gpu, "sustained")
    on_fullest = roofs.bounds_s.max(axis=1) * roofs.grid.busy_sms / roofs.grid.spread
    return replace(work, instructions=np.where(which, work.seconds / on_fullest, work.instructions))


EVEN_BLOCKS: Final = 1e9
"""A grid that leaves no tail on any GPU."""


def _at_clock(gpu: Gpu, work: KernelWork | None) -> Gpu:
    """The GPU at the clock that its kernels ran at, where they tell."""
    if work is None or np.isnan(work.clock_hz).all():
        return gpu
    clock = float(np.nanmedian(work.clock_hz))
    constants = dict(gpu.constants)
    constants["clock.sm_hz"] = replace(
        constants["clock.sm_hz"], value=clock, kind="measured", low=None, high=None
    )
    return replace(gpu, constants=constants)


def _where(which: NDArray[np.bool_], chosen: KernelWork, other: KernelWork) -> KernelWork:
    def pick(name: str) -> Any:
        a, b = getattr(chosen, name), getattr(other, name)
        return np.where(which if a.ndim == 1 else which[:, None], a, b)

    return KernelWork(**{name: pick(name) for name in KernelWork.__dataclass_fields__})


def _known(values: Floats, otherwise: Floats) -> Floats:
    return np.where(np.isnan(values), otherwise, values)
