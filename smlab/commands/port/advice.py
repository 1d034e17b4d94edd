"""``smlab port --advise``: what would make each kernel faster on the target, and on what evidence.

Where a file holds other configurations of a kernel that were measured on both, a measurement is the evidence;
else a pair of simulated runs of the kernel's proxy, which its counters make.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.datasets.tuning import TuningTimes, label_of
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.models.portability.advice import changes_from
from smlab.validation.paired_advice.paired_advice import PairedAdvice, Seen, advise

Floats = NDArray[np.float64]

MOST_MEASURED: Final = 3
"""One-parameter changes of a configuration that are named, the best ones."""

WORTH: Final = 0.01
_ATOMICS: Final = re.compile(r"op_(?:shared_|global_|generic_)?(?:atom|red)|shared_atom", re.ASCII)


@dataclass(frozen=True)
class PortAdvice:
    """Advice on one kernel, at one configuration, from the platform ``target``; changes are relative (below
    0: faster), None where there is no number."""

    target: str
    kernel: str
    config: str
    change: str
    text: str
    target_change: float | None
    source_change: float | None
    evidence: str
    fidelity: float | None = None


@dataclass(frozen=True, eq=False)
class AdvisedPair:
    """The kernels of a pair of platforms: ``rows`` of ``times`` are matched, with ``steady_s`` (matched, 2)
    on both and ``work`` on the source. ``measured``: the target's times were."""

    times: TuningTimes
    rows: Sequence[int]
    steady_s: Floats
    work: KernelWork
    gpus: tuple[Gpu, Gpu]
    measured: bool


def advice_of(
    target: str, pair: AdvisedPair, progress: Callable[[int, int], None] | None = None
) -> list[PortAdvice]:
    """Advice on every kernel of a pair of platforms: on the configuration that is the fastest on the
    source."""
    times, rows, steady_s = pair.times, pair.rows, pair.steady_s
    kernels: dict[str, list[int]] = {}
    for at, row in enumerate(rows):
        kernels.setdefault(str(times.kernel[row]), []).append(at)
    found: list[PortAdvice] = []
    for done, (kernel, members) in enumerate(kernels.items(), start=1):
        best = members[int(np.argmin(steady_s[members, 0]))]
        config = label_of(times.parameters, times.config[rows[best]])
        if pair.measured and len(members) > 1:
            found += _measured(target, times, kernel, [rows[at] for at in members], steady_s[members])
        found += [
            PortAdvice(
                *(target, kernel, config, one.change, one.text, one.target_change, one.source_change),
                one.evidence,
                one.fidelity,
            )
            for one in _paired(times, rows[best], pair.work, best, pair.gpus)
        ]
        if progress is not None:
            progress(done, len(kernels))
    order = {kernel: number for number, kernel in enumerate(kernels)}

    def place(one: PortAdvice) -> tuple[int, bool, float]:
        return order[one.kernel], one.target_change is None, one.target_change or 0.0

    return sorted(found, key=place)


def _measured(
    target: str, times: TuningTimes, kernel: str, rows: Sequence[int], steady_s: Floats
) -> Iterator[PortAdvice]:
    """The best changes of one parameter, from the configuration that is the fastest on the source, that were
    measured on the target."""
    configs = [times.config[row] for row in rows]
    start = int(np.argmin(steady_s[:, 0]))
    changes = changes_from(configs, start)
    gains = [(float(steady_s[other, 1] / steady_s[start, 1] - 1), other, column) for other, column in changes]
    for change, other, column in sorted(gains)[:MOST_MEASURED]:
        if change < -WORTH:
            name = times.parameters[column]
            yield PortAdvice(
                target=target,
                kernel=kernel,
                config=label_of(times.parameters, configs[start]),
                change=name,
                text=f"{name}: {configs[start][column]} to {configs[other][column]}",
                target_change=change,
                source_change=float(steady_s[other, 0] / steady_s[start, 0] - 1),
                evidence="measured",
            )


def _paired(
    times: TuningTimes, row: int, work: KernelWork, at: int, gpus: tuple[Gpu, Gpu]
) -> list[PairedAdvice]:
    if not np.nan_to_num(work.instructions[at]) > 0:
        text = "no counters of the kernel: ncu on the source tells what a proxy needs"
        return [PairedAdvice(str(times.kernel[row]), "any change", text, None, None, None)]
    try:
        return advise(work, at, *gpus, _seen(times, row))
    except SmlabError as error:
        return [PairedAdvice(str(times.kernel[row]), "any change", str(error), None, None, None)]


def _seen(times: TuningTimes, row: int) -> frozenset[Seen]:
    """What the counters of a row show that a proxy cannot have."""
    if times.counters is None:
        return frozenset()
    mine = times.counters.launch == row
    names = times.counters.counter[mine].astype(str)
    atomics = np.array([bool(_ATOMICS.search(name)) for name in names], dtype=bool)
    return frozenset({"atomics"} if (times.counters.value[mine][atomics] > 0).any() else ())


def advice_rows(advice: Sequence[PortAdvice]) -> list[dict[str, Any]]:
    """The rows of ``advice`` in the JSON document."""
    return [vars(one) for one in advice]
