"""Which configurations to simulate longer, and when to stop.

All configurations are screened by a cheap sample: one SM, one sample. Those that may be among the first, as
far as the errors of the sample tell, are simulated on more SMs, and so on (successive halving: Jamieson and
Talwalkar 2016; racing: Maron and Moore 1994). How far a sample is off is learned from those that were run by
two samples: they read the same data and the same parts of the grid, so what both get wrong drops out (common
random numbers). Some configurations drawn by seed go along, so that the spread is known of others than the
first, which are chosen for being low.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sources import digest_of, package_folder
from smlab.validation.power_limit import SOURCES
from smlab.validation.tuning.simulated import AskedConfiguration, Sample, SimulatedTime, simulate_all
from smlab.validation.tuning.space import TuningSpace
from smlab.validation.work.interface import Workers
from smlab.validation.work.runner import Task, completed, open_workers
from smlab.validation.work.store import Entry, Store

LADDER: Final = (Sample(1, 1), Sample(2, 3), Sample(4, 3), Sample(8, 3))
"""Samples, each of which takes some times as long as the one before."""
PILOTS: Final = 12
"""Configurations drawn by seed that are simulated by every sample."""
PRIOR_SPREAD: Final = 0.05
PRIOR_WEIGHT: Final = 4
"""The spread of a screened time around a longer one, in logarithms, and as how many configurations it counts.
By 48 configurations of KTT's convolution on an RTX 2080 Ti, 1 SM once against 2 SMs three times: 0.047."""
DEVIATIONS: Final = 2.0
"""Standard deviations between two configurations that count as told apart."""
CHUNK: Final = 6
"""Configurations that a worker is given at a time: what a killed process loses, at most."""
STORE: Final = "times.sqlite"

SETTLED, LONGEST, SPENT = "settled", "longest sample", "budget"
"""Why a search ends: the first ones are told apart, the last sample was reached, the budget is used."""

Progress = Callable[["SearchProgress"], None]


@dataclass(frozen=True)
class SearchOptions:
    """``top`` is how many first ones are wanted in order, ``budget_cpu_s`` processor time to use at most,
    ``draw`` how many configurations are drawn by ``seed`` from the space (None for all)."""

    top: int = 10
    budget_cpu_s: float | None = None
    draw: int | None = None
    seed: int = 0
    jobs: int | None = None
    dask: str | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        if self.budget_cpu_s is not None and not self.budget_cpu_s > 0:
            raise SmlabError.at("--budget-cpu-s", "no time", self.budget_cpu_s, "seconds above 0")


@dataclass(frozen=True)
class SearchProgress:
    """Where a search is: the ``sample``, ``done`` of ``total`` configurations by it, processor time so far,
    and the first one of those known, by its number."""

    sample: Sample
    done: int
    total: int
    cpu_s: float
    best: int | None
    best_s: float | None


@dataclass(frozen=True, eq=False)
class SearchResult:
    """``groups`` are configurations of equal code and launch, by key. ``times`` are those of each sample, by
    key. ``ratio`` and ``spread`` say, for each sample but the first, what its times are over those of the
    sample before (geometric mean) and how far they scatter, in logarithms. ``ended`` is one of `SETTLED`,
    `LONGEST` and `SPENT`; ``open`` are the keys that cannot be told from the first one."""

    groups: Mapping[str, list[int]]
    times: tuple[Mapping[str, SimulatedTime], ...]
    ratio: tuple[float, ...]
    spread: tuple[float, ...]
    ended: str
    open: tuple[str, ...]
    cpu_s: float
    drawn: int


class SearchInterrupted(KeyboardInterrupt):
    """Ctrl-C: what was done is kept. ``done`` of ``total`` configurations were screened."""

    def __init__(self, done: int, total: int) -> None:
        super().__init__()
        self.done, self.total = done, total


def search(
    space: TuningSpace, gpu: Gpu, folder: Path, options: SearchOptions, progress: Progress | None = None
) -> SearchResult:
    """Screen a space and simulate its best longer; times are kept in ``folder`` as they come.

    Raises:
        SmlabError: a folder with another search, or of another space with ``resume``; what no configuration
        can do, if it is the same for all.
        SearchInterrupted: Ctrl-C; what was finished stays.
    """
    groups = _drawn(space, options)
    with Store(folder / STORE) as store:
        if store.count and not options.resume:
            raise SmlabError(
                f"{store.path}: holds an earlier search: continue it with --resume, or use another --out"
            )
        identity = _identity(space, gpu)
        store.begin(identity, "space, GPU or version of smlab", resume=options.resume)
        run = _Search(space, gpu, groups, options, store, identity, progress)
        try:
            with open_workers(options.jobs, dask=options.dask) as workers:
                return run.whole(workers)
        except KeyboardInterrupt:
            raise SearchInterrupted(len(run.times[0]), len(groups)) from None


def _drawn(space: TuningSpace, options: SearchOptions) -> dict[str, list[int]]:
    """The groups that are searched, in an order drawn by seed: what a budget cuts off is no part of its own.
    The group of the configuration that others are compared with is the first."""
    groups = space.distinct()
    own = next(key for key, members in groups.items() if space.first in members)
    order = np.random.default_rng(options.seed)
    if options.draw is not None and options.draw < len(space):
        chosen = set(order.permutation(len(space))[: options.draw].tolist()) | {space.first}
        groups = {k: kept for k, members in groups.items() if (kept := [m for m in members if m in chosen])}
    keys = list(groups)
    shuffled = [keys[n] for n in order.permutation(len(keys)).tolist() if keys[n] != own]
    return {key: groups[key] for key in (own, *shuffled)}


def _identity(space: TuningSpace, gpu: Gpu) -> str:
    """What all times of a space on a GPU depend on."""
    rooms = [package_folder(name) for name in ("smlab.sim", "smlab.hw_bench.sass")]
    files = (*SOURCES, Path(__file__).with_name("simulated.py"))
    parts = (digest_of(*rooms, *files), space.kernel.identity(), gpu.identity)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@dataclass
class _Search:
    space: TuningSpace
    gpu: Gpu
    groups: dict[str, list[int]]
    options: SearchOptions
    store: Store
    identity: str
    progress: Progress | None
    times: list[dict[str, SimulatedTime]] = field(default_factory=lambda: [{}])
    ratio: list[float] = field(default_factory=list)
    spread: list[float] = field(default_factory=list)
    cpu_s: float = 0.0
    spent: bool = False

    def whole(self, workers: Workers) -> SearchResult:
        ladder = self._ladder()
        self._run(workers, ladder[0], list(self.groups))
        ended = SPENT if self.spent else LONGEST
        pilots = self._pilots()
        for number, sample in enumerate(ladder[1:], start=1):
            if self.spent or not self._fine(0):
                break
            self.times.append({})
            if all(self.times[number - 1][key].whole for key in self._may_be_first(number)):
                self.times.pop()
                ended = SETTLED
                break
            # The pilots and the first ones say how far the sample before is off; the others come after.
            best = self._ordered(number - 1)[: self.options.top]
            self._run(workers, sample, list(dict.fromkeys([*best, *pilots])))
            self._learn(number)
            self._run(workers, sample, self._may_be_first(number))
            self._learn(number)
            ended = SPENT if self.spent else SETTLED if self._settled(number) else LONGEST
            if ended == SETTLED:
                break
        return SearchResult(
            self.groups,
            tuple(self.times),
            tuple(self.ratio),
            tuple(self.spread),
            ended,
            self._open(),
            self.cpu_s,
            sum(map(len, self.groups.values())),
        )

    def _ladder(self) -> list[Sample]:
        """The samples that this GPU has SMs for."""
        return [sample for sample in LADDER if sample.sms <= self.gpu.integer("gpu.sms")]

    def _pilots(self) -> list[str]:
        """The configuration that others are compared with, and some drawn by seed: the groups' order is."""
        return self._fine(0)[: PILOTS + 1]

    def _fine(self, number: int) -> list[str]:
        """Those with a time, in the order of the groups."""
        found = self.times[number]
        return [key for key in self.groups if key in found and not found[key].error]

    def _ordered(self, number: int) -> list[str]:
        return sorted(self._fine(number), key=lambda key: self.times[number][key].seconds)

    def _learn(self, number: int) -> None:
        """What the times of a sample are over those of the one before."""
        before, now = self.times[number - 1], self.times[number]
        both = [key for key in self._fine(number) if key in before and not before[key].whole]
        logs = {key: math.log(now[key].seconds / before[key].seconds) for key in both}
        del self.ratio[number - 1 :], self.spread[number - 1 :]
        if not logs:
            self.ratio.append(1.0)
            self.spread.append(self._prior(number))
            return
        # Those that were chosen for being low come out higher by the next sample; the pilots were not chosen.
        pilots = [logs[key] for key in self._pilots() if key in logs]
        mean = float(np.mean(pilots or list(logs.values())))
        squares = (
            float(np.square(np.array(list(logs.values())) - mean).sum())
            + PRIOR_WEIGHT * self._prior(number) ** 2
        )
        self.ratio.append(math.exp(mean))
        self.spread.append(math.sqrt(squares / (len(logs) - 1 + PRIOR_WEIGHT)))

    def _prior(self, number: int) -> float:
        """A sample of several times the SMs is off by half as much."""
        return PRIOR_SPREAD * 0.5 ** (number - 1)

    def _may_be_first(self, number: int) -> list[str]:
        """Those that the sample before leaves a chance to be among the first ones; best first."""
        before = self.times[number - 1]
        ordered = self._ordered(number - 1)
        last = ordered[min(self.options.top, len(ordered)) - 1]
        spread = self.spread[number - 1] if len(self.spread) >= number else self._prior(number)
        limit = before[last].seconds * math.exp(DEVIATIONS * math.sqrt(2) * spread)
        return [key for key in ordered if before[key].seconds <= limit]

    def _near(self, number: int, place: int) -> list[str]:
        """Those that a sample cannot tell from the one at a place of its order."""
        ordered = self._ordered(number)
        if not ordered:
            return []
        now = self.times[number]
        spread = self.spread[number - 1] if number else PRIOR_SPREAD
        if all(time.whole for time in now.values() if not time.error):
            spread = 0.0
        limit = now[ordered[place]].seconds * math.exp(DEVIATIONS * math.sqrt(2) * spread)
        return [key for key in ordered if now[key].seconds <= limit]

    def _settled(self, number: int) -> bool:
        """Whether the first one is told from all others, and the first ones together from the rest."""
        ordered, top = self._ordered(number), self.options.top
        return len(self._near(number, 0)) == 1 and (
            len(ordered) <= top or len(self._near(number, top - 1)) == top
        )

    def _open(self) -> tuple[str, ...]:
        numbers = [n for n in range(len(self.times)) if self._fine(n)]
        return tuple(self._near(numbers[-1], 0)) if numbers else ()

    def _run(self, workers: Workers, sample: Sample, keys: Sequence[str]) -> None:
        """Simulate what is not known yet, until the budget is used."""
        number = len(self.times) - 1
        found = self.times[number]
        if number:  # a whole grid has no longer sample
            before = self.times[number - 1]
            found.update({key: before[key] for key in keys if key in before and before[key].whole})
        hashes = {key: self._hash(key, sample) for key in keys if key not in found}
        stored = self.store.get(list(hashes.values()))
        for key in hashes:
            if (entry := stored.get(hashes[key])) is not None:
                found[key] = _time_of(entry)
                self.cpu_s += found[key].cpu_s
        missing = [key for key in hashes if key not in found]
        total = len(found) + len(missing)
        self._tell(sample, total)
        for task, times in completed(workers, self._tasks(sample, missing)):
            chunk = list(zip(task.key, times, strict=True))
            self.store.add(self._entry(hashes[key], key, sample, one) for key, one in chunk)
            for key, one in chunk:
                found[key] = one
                self.cpu_s += one.cpu_s
            self._tell(sample, total)

    def _tasks(self, sample: Sample, keys: Sequence[str]) -> Iterator[Task[list[str]]]:
        kernel, gpu = self.space.kernel, self.gpu
        # The longer a sample takes, the fewer a worker has in hand.
        size = max(1, CHUNK // (sample.sms * sample.samples))
        for at in range(0, len(keys), size):
            if self.options.budget_cpu_s is not None and self.cpu_s >= self.options.budget_cpu_s:
                self.spent = True
                return
            chunk = list(keys[at : at + size])
            members = [self.groups[key][0] for key in chunk]
            asked = [AskedConfiguration(self.space.settings(m), self.space.tables_of(m)) for m in members]
            yield Task(chunk, simulate_all, (kernel, gpu, asked, sample, self.identity))

    def _hash(self, key: str, sample: Sample) -> bytes:
        return hashlib.sha256(f"{key} {sample}".encode()).digest()

    def _entry(self, stored: bytes, key: str, sample: Sample, one: SimulatedTime) -> Entry:
        asked = {"settings": self.space.label(self.groups[key][0]), "sample": str(sample)}
        result = {k: v for k, v in asdict(one).items() if k != "error"}
        if one.error:
            result |= dict.fromkeys(("seconds", "low", "high"))
        return Entry(stored, asked, result, one.error)

    def _tell(self, sample: Sample, total: int) -> None:
        if self.progress is None:
            return
        number = len(self.times) - 1
        found = self.times[number]
        best = min(self._fine(number), key=lambda key: found[key].seconds, default=None)
        told = (None, None) if best is None else (self.groups[best][0], found[best].seconds)
        self.progress(SearchProgress(sample, len(found), total, self.cpu_s, *told))


def _time_of(entry: Entry) -> SimulatedTime:
    values: dict[str, Any] = {k: float("nan") if v is None else v for k, v in entry.result.items()}
    try:
        return SimulatedTime(**values, error=entry.error)
    except TypeError as error:
        raise SmlabError(f"a stored time is nothing that smlab made: {error}") from error
