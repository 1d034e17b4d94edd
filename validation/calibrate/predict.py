"""Simulated times of cases, as a function of the constants that a calibration fits.

All times come from the compiled simulator's table (`smlab.sim.compiled.service_tables`), with three closed
forms that follow from ``sim/SEMANTICS.md``, Section 6, and are tested against single simulations:

- a stream that nobody waits for keeps its slowest stage busy: a pipe of the unit, the data stage or an
  address unit;
- a burst issues its last operation when the queues before it have room (`burst`);
- the shared-memory pipe is a unit of the same kind as the atomic unit, with interval = passes x interval of
  a pass.

An operation's time depends on its pattern through its passes alone. While fitting, times between whole
latencies (the simulator rounds them) are interpolated, so that a derivative exists. Times that a clock
around one operation tells contain the *frame*.

The burst is worked out operation by operation: each warp issues its operations at a distance that its
code gives. A sub-core's queue, its address unit, the arbiter, the data stage and the unit's own queue
then let through what they can; an operation is issued when its sub-core has room. Times here are not
whole cycles, so that they change smoothly with the constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim.compiled.service_tables import batch_cycles, looped_cycles
from smlab.sim.machine import TICKS_PER_CYCLE, AtomicTiming, Machine, ceil_cycles, machine_from, to_ticks
from smlab.validation.calibrate.cases import Cases, Floats, Ints


class BurstPath(NamedTuple):
    """The constants that a burst depends on beside its unit's interval, in cycles and entries."""

    sub_cores: int
    pipes: int
    front: float
    address: float
    request: float
    stage_pass: float
    stage_jobs: int
    stage_entries: int
    issue: float


def last_issue(
    path: BurstPath,
    warps: Ints,
    operations: Ints,
    passes: Ints,
    interval: Floats,
    sub_core: float,
    unit: float,
) -> Floats:
    """Cycles from the first to the last issue of ``operations`` of each of ``warps`` warps.

    ``sub_core`` and ``unit`` are the entries of a sub-core's queue and of the unit; between whole numbers the
    times are interpolated.
    """
    found = np.zeros(len(warps))
    for more_here, here in _shares(sub_core):
        for more_there, there in _shares(unit):
            share = here * there
            if share > 0:
                found += share * _all(path, warps, operations, passes, interval, more_here, more_there)
    return found


def _shares(entries: float) -> tuple[tuple[int, float], tuple[int, float]]:
    below = max(1, int(np.floor(entries)))
    part = min(max(entries - below, 0.0), 1.0)
    return (below, 1 - part), (below + 1, part)


@numba.njit(cache=True)  # type: ignore[misc, untyped-decorator, unused-ignore]
def _all(
    path: BurstPath, warps: Ints, operations: Ints, passes: Ints, interval: Floats, room: int, unit: int
) -> Floats:
    sub_cores, pipes = path.sub_cores, path.pipes
    found = np.zeros(warps.size)
    for case in range(warps.size):
        n, k, service = warps[case], operations[case], interval[case]
        most = (n + sub_cores - 1) // sub_cores * k
        issued = np.zeros((sub_cores, most))
        taken = np.zeros((sub_cores, most))
        ends = np.zeros((pipes, n * k))
        held = np.zeros(pipes, dtype=np.int64)
        at = np.zeros(sub_cores, dtype=np.int64)
        ready = np.zeros(sub_cores)
        passing, passed, begun = np.zeros(sub_cores), np.zeros(n * k), 0.0
        stage, later, request, last, turn = 0.0, 0.0, 0.0, 0.0, 0
        occupied = path.stage_jobs * passes[case] * path.stage_pass
        for number in range(n * k):
            chosen, when = -1, np.inf
            for step in range(sub_cores):
                s = (turn + step) % sub_cores
                mine = (n - s + sub_cores - 1) // sub_cores
                j = at[s]
                if j >= mine * k:
                    continue
                ready[s] = _ready(path, issued, taken, s, j, mine, room)
                pipe = s % pipes
                possible = max(ready[s], request)
                if path.stage_entries == 0:
                    possible = max(possible, stage, passing[s])
                elif number >= path.stage_entries:
                    possible = max(possible, passed[number - path.stage_entries])
                if held[pipe] >= unit:
                    possible = max(possible, ends[pipe, held[pipe] - unit])
                if possible < when:
                    chosen, when = s, possible
            j = at[chosen]
            taken[chosen, j] = when
            last = max(last, issued[chosen, j])
            request = when + path.request
            begun = max(when, begun, stage, passing[chosen]) if path.stage_entries > 0 else when
            stage = passing[chosen] = passed[number] = begun + occupied
            if path.stage_jobs > 1:
                stage, later = min(stage, later), max(stage, later)
            pipe = chosen % pipes
            before = ends[pipe, held[pipe] - 1] if held[pipe] else 0.0
            ends[pipe, held[pipe]] = max(begun, before) + service
            held[pipe] += 1
            at[chosen] += 1
            turn = (chosen + 1) % sub_cores
        found[case] = last
    return found


@numba.njit(cache=True)  # type: ignore[misc, untyped-decorator, unused-ignore]
def _ready(path: BurstPath, issued: Floats, taken: Floats, s: int, j: int, mine: int, room: int) -> float:
    """When operation ``j`` of sub-core ``s`` can be taken, for all that its sub-core can tell."""
    begin = 0.0
    if j > 0:
        begin = issued[s, j - 1] + 1
    if j >= mine:
        begin = max(begin, issued[s, j - mine] + path.issue)
    if j >= room:
        begin = max(begin, taken[s, j - room] + 1)
    issued[s, j] = begin
    ready: float = begin + path.front
    if j > 0:
        ready = max(ready, taken[s, j - 1] + path.address)
    return ready


FRAME: Final = "frame_cycles"
"""What reading the clock takes, around nothing."""
ISSUE_FRAME: Final = "issue_frame_cycles"
"""As `FRAME`, of a clock that waits for no result."""
LINK: Final = "link_cycles"
"""What lies between an operation's result and the next operation, in the looped form."""
CAS_LINK: Final = "cas_link_cycles"
"""As `LINK`, between compare-and-swaps, whose code is another."""
MEASURING: Final = (FRAME, ISSUE_FRAME, LINK, CAS_LINK)
"""Constants of the measurement, fitted with the others and not of a description."""
QUEUE: Final = "mio.queue_entries"
UNIT_QUEUE: Final = "atomic.queue_entries"
ISSUE_INTERVAL: Final = 4.0
"""Cycles between two operations of a warp in a burst: the assembler's stall count on each architecture."""
SHARED_PASS: Final = "shared.interval_cycles_per_pass"
SHARED_LATENCY: Final = "shared.load_latency_cycles"
BASE, PASS, LATENCY = "base_interval_cycles", "pass_interval_cycles", "latency_cycles"

_LATE: Final = 100_000
"""A latency by which one kind of operation is sure to be the last, in cycles."""

Values = Mapping[str, float]


def key(op: str, part: str) -> str:
    return f"atomic.{op}.{part}"


def followed(gpu: Gpu, cases: Cases) -> NDArray[np.bool_]:
    """Which of ``cases`` the closed forms follow closely enough for a fit, shape ``(cases,)``.

    Not the bursts of more warps than pipes that do not load them evenly. Which of two sub-cores the arbiter
    lets in, and so which issues last, hangs on parts of a cycle there: `burst` may be a quarter off.
    """
    pipes = machine_from(gpu).atomic_pipes
    uneven = (cases.form == "burst") & (cases.warps > pipes) & (cases.warps % pipes > 0)
    return np.asarray(~uneven)


def link_of(op: str) -> str:
    return CAS_LINK if op == "cas" else LINK


def rounding(values: Values, op: str) -> float:
    """By how much an operation's latency is above that of ``smooth`` predictions with the same times."""
    one_pass = values[key(op, BASE)] + values[key(op, PASS)]
    return math.ceil(one_pass) - one_pass - 0.5


@dataclass(frozen=True, eq=False)
class Group:
    """Cases that one call of the simulator's table gives: their places, and the names of what their times
    depend on."""

    at: Ints
    depends: frozenset[str]
    run: Callable[[Values, bool], Floats]


class Predictor:
    """Simulated times of ``cases`` on ``gpu`` with some constants replaced."""

    def __init__(self, gpu: Gpu, cases: Cases) -> None:
        self._machine = machine_from(gpu)
        self.cases = cases
        self.groups = self._groups()

    def cycles(self, values: Values, *, smooth: bool = False) -> Floats:
        """Times in cycles, shape ``(cases,)``; ``smooth`` interpolates between whole latencies."""
        times = np.empty(len(self.cases))
        for group in self.groups:
            times[group.at] = group.run(values, smooth)
        return times

    def derivatives(self, values: Values, steps: Values, least: Values) -> Floats:
        """Differences of the logarithm of the times, shape ``(cases, steps)``, in the order of ``steps``.

        Central ones, except where a step down would go below the ``least`` value of a constant.
        """
        found = np.zeros((len(self.cases), len(steps)))
        for column, (name, step) in enumerate(steps.items()):
            below = max(values[name] - step, least[name])
            up, down = {**values, name: values[name] + step}, {**values, name: below}
            for group in self.groups:
                if name in group.depends:
                    ratio = np.log(group.run(up, True)) - np.log(group.run(down, True))
                    found[group.at, column] = ratio / (values[name] + step - below)
        return found

    def _groups(self) -> list[Group]:
        """As few as can be: a call of the table costs more than its points do."""
        cases, groups = self.cases, []
        unit = np.where(np.isin(cases.operation, ("load", "store")), "shared", "add")
        counting = cases.operation == "popc-inc"
        unit = np.where(counting, np.where(cases.cas_warps > 0, "popc_inc+cas", "popc_inc"), unit)
        names = np.char.add(np.char.add(unit, "/"), cases.form)
        for name in np.unique(names):
            at = np.flatnonzero(names == name)
            operation, form = str(name).split("/")
            groups.append(self._group(operation, form, cases.select(at), at))
        return groups

    def _group(self, unit: str, form: str, cases: Cases, at: Ints) -> Group:
        if form == "frame":
            # A search may look below 0, where a time has no logarithm.
            return Group(at, frozenset({FRAME}), lambda v, smooth: np.full(len(cases), max(0.1, v[FRAME])))
        if unit == "shared":
            depends = {SHARED_PASS} if form == "stream" else {SHARED_LATENCY}
            depends |= {"batch": {SHARED_PASS, FRAME}, "looped": {SHARED_PASS, LINK}}.get(form, set())
            return Group(at, frozenset(depends), self._shared(form, cases))
        op = unit.removesuffix("+cas")
        used = [op, "cas"] if cases.cas_warps.any() else [op]
        depends = {key(o, part) for o in used for part in (BASE, PASS)}
        if form == "burst":
            depends |= {QUEUE, UNIT_QUEUE, ISSUE_FRAME}
            return Group(at, frozenset(depends), lambda v, smooth: self._burst(cases, op, v))
        if form == "stream":
            return Group(at, frozenset(depends), lambda v, smooth: self._stream(cases, op, v))
        depends |= {key(o, LATENCY) for o in used}
        depends |= {FRAME} if form == "batch" else {link_of(o) for o in used}
        run = self._batch(cases, op, used) if form == "batch" else self._looped(cases, op, used)
        return Group(at, frozenset(depends), run)

    def _batch(self, cases: Cases, op: str, used: list[str]) -> Callable[[Values, bool], Floats]:
        # Counting merges the lanes on a word: alone, it is simulated as an addition of as many passes.
        alone = op == "popc_inc" and "cas" not in used
        place = {op: "add"} if alone else {}
        lanes = cases.passes if op == "add" or alone else cases.cas_passes

        different, which = _different(cases.warps, lanes, cases.cas_warps)

        @lru_cache(maxsize=32)
        def ends(*timings: tuple[float, float]) -> dict[str, Floats]:
            """When the last service of each kind ends. All are issued at once, so latencies change nothing
            of the order."""
            found = {}
            for last in used:
                late = {o: _LATE if o == last else 1 for o in used}
                machine = self._with(used, timings, late, place)
                times = batch_cycles(machine, _named(op, place), *different)
                found[last] = np.asarray(times, dtype=np.float64)[which] - _LATE
            return found

        def run(values: Values, smooth: bool) -> Floats:
            found = ends(*((values[key(o, BASE)], values[key(o, PASS)]) for o in used))
            last = []
            for o in used:
                # Without a result, what is seen is the load behind it.
                after = self._after(values, o, smooth) if key(o, LATENCY) in values else 0.0
                last.append(found[o] + (after if smooth else np.maximum(1, np.floor(after + 0.5))))
            times: Floats = values[FRAME] + np.maximum.reduce(last)
            return times

        return run

    def _looped(self, cases: Cases, op: str, used: list[str]) -> Callable[[Values, bool], Floats]:
        n, lanes, c = cases.warps, cases.cas_passes, cases.cas_warps
        # Loops end with the kind whose warps go round slowest, as if alone: with few in the unit, that is not
        # the mean of both.
        mixed = (c > 0) & (c < n)
        parts = ((n, c), (np.where(mixed, c, n), c), (np.where(mixed, n - c, n), np.where(mixed, 0, c)))
        different, which = _different(*np.concatenate([(k, lanes, swaps) for k, swaps in parts], axis=1))

        @lru_cache(maxsize=32)
        def rounds(whole: tuple[int, ...], timings: tuple[tuple[float, float], ...]) -> Floats:
            """Derivatives ask for the same whole latencies again and again."""
            machine = self._with(used, timings, dict(zip(used, whole, strict=True)), {})
            times = looped_cycles(machine, _named(op, {}), *different)[which]
            return np.asarray(times.reshape(3, -1).max(axis=0))

        def run(values: Values, smooth: bool) -> Floats:
            timings = tuple((values[key(o, BASE)], values[key(o, PASS)]) for o in used)

            def simulated(whole: Mapping[str, int]) -> Floats:
                return rounds(tuple(whole[o] for o in used), timings)

            # In a closed loop, what a warp does between two operations is a delay like the latency.
            think = {o: self._after(values, o, smooth) + values[link_of(o)] for o in used}
            return _interpolated(think, simulated, smooth)

        return run

    def _after(self, values: Values, op: str, smooth: bool) -> float:
        """What of an operation's latency lies behind its service (`AtomicTiming.latency_cycles`). The whole
        cycles of one pass jump, which no least squares follow: ``smooth`` has their mean (`rounding`)."""
        one_pass = values[key(op, BASE)] + values[key(op, PASS)]
        service = one_pass + 0.5 if smooth else math.ceil(one_pass)
        return max(1.0, values[key(op, LATENCY)] - self._machine.front_cycles - service)

    def _stream(self, cases: Cases, op: str, values: Values) -> Floats:
        """A round of the slowest of the unit's pipes, the data stage and the address units.

        Warps alone on their sub-cores take turns. Where a sub-core has several warps of a kind,
        its queue holds runs of one kind, longer than what the queues even out: each kind is then bound by its
        own slowest stage.
        """
        swap = [values[key("cas", part)] if cases.cas_warps.any() else 0.0 for part in (BASE, PASS)]
        kinds = (
            (
                0 * cases.warps,
                cases.cas_warps,
                swap[0] + cases.cas_passes * swap[1],
                cases.cas_passes * self._machine.cas_stage_ticks / self._machine.atomic_stage_ticks,
            ),
            (
                cases.cas_warps,
                cases.warps,
                values[key(op, BASE)] + cases.passes * values[key(op, PASS)],
                cases.passes,
            ),
        )
        stages = [self._stages(*kind) for kind in kinds]
        one_by_one = sum(np.max(stage, axis=0) for stage in stages)
        few = np.maximum(cases.cas_warps, cases.warps - cases.cas_warps) <= self._machine.schedulers
        return np.asarray(np.where(few, np.max(stages[0] + stages[1], axis=0), one_by_one))

    def _stages(self, first: Ints, last: Ints, interval: Floats, passes: Ints | Floats) -> Floats:
        """What the warps from ``first`` to before ``last`` take of each pipe of the unit, of the data stage
        and of each sub-core's way to it, with one operation each. Warps are dealt to the sub-cores in turn,
        and sub-cores to the pipes."""
        m = self._machine

        def shared_out(places: int) -> list[Ints]:
            before = [[(n - k + places - 1) // places for n in (first, last)] for k in range(places)]
            return [after - until for until, after in before]

        pipes = [count * interval for count in shared_out(m.atomic_pipes)]
        stage = passes * m.atomic_stage_ticks / TICKS_PER_CYCLE
        data = (last - first) * stage
        each = np.maximum(m.atomic_address_ticks / TICKS_PER_CYCLE, m.stage_jobs * stage)
        address = [count * each for count in shared_out(m.schedulers)]
        return np.array([*pipes, data, *address], dtype=np.float64)

    def _address_round(self, cases: Cases, ticks: int) -> Floats:
        """What the address unit of the fullest sub-core takes for one operation of each warp."""
        return np.asarray(self._fullest(cases) * ticks / TICKS_PER_CYCLE)

    def _fullest(self, cases: Cases) -> Ints:
        """Warps of the fullest sub-core."""
        return np.asarray(-(-cases.warps // self._machine.schedulers))

    def _stage_round(self, cases: Cases, each: float) -> Floats:
        """A round of accesses without a result: through data stage, arbiter and address units."""
        stage = cases.warps * np.maximum(cases.passes * each, self._machine.request_interval_cycles)
        alone = self._machine.stage_jobs * cases.passes * each * self._fullest(cases)
        address = self._address_round(cases, self._machine.address_ticks)
        return np.asarray(np.maximum.reduce([stage, alone, address]))

    def _burst(self, cases: Cases, op: str, values: Values) -> Floats:
        """The last issue, and the clock behind it."""
        m = self._machine
        path = BurstPath(
            sub_cores=m.schedulers,
            pipes=m.atomic_pipes,
            front=m.front_cycles,
            address=m.atomic_address_ticks / TICKS_PER_CYCLE,
            request=m.request_interval_cycles,
            stage_pass=m.atomic_stage_ticks / TICKS_PER_CYCLE,
            stage_jobs=m.stage_jobs,
            stage_entries=m.stage_entries,
            issue=ISSUE_INTERVAL,
        )
        interval = values[key(op, BASE)] + cases.passes * values[key(op, PASS)]
        times = last_issue(
            path, cases.warps, cases.iterations, cases.passes, interval, values[QUEUE], values[UNIT_QUEUE]
        )
        return np.asarray(values[ISSUE_FRAME] + times)

    def _with(
        self,
        used: list[str],
        timings: tuple[tuple[float, float], ...],
        latencies: Mapping[str, int],
        place: Mapping[str, str],
    ) -> Machine:
        """The machine with other timings of some operations; ``place`` puts one in another's place.

        A search may look where one pass takes less than a cycle, which the simulator refuses: a cycle then.
        """
        atomics = dict(self._machine.atomics)
        for op, (base, each) in zip(used, timings, strict=True):
            ticks = max(to_ticks(base), TICKS_PER_CYCLE - to_ticks(each))
            atomics[place.get(op, op)] = AtomicTiming(ticks, to_ticks(each), latencies[op])
        return replace(self._machine, atomics=atomics)

    def _shared(self, form: str, cases: Cases) -> Callable[[Values, bool], Floats]:
        def run(values: Values, smooth: bool) -> Floats:
            each, latency = values[SHARED_PASS], values[SHARED_LATENCY]
            if form == "chain":
                return np.full(len(cases), latency if smooth else _whole(latency))
            if form == "stream":
                return self._stage_round(cases, each)

            def simulated(whole: Mapping[str, int]) -> Floats:
                # Loads pass the data stage alone; an atomic without a base takes as long behind it, on a pipe
                # of its sub-core where the stage has several jobs. A pass of a conflict may delay a load by
                # more than the stage takes for it.
                ticks = to_ticks(each)
                machine = replace(
                    self._machine,
                    atomic_pipes=1 if self._machine.stage_jobs == 1 else self._machine.schedulers,
                    atomic_round_gap_cycles=0,
                    atomic_address_ticks=self._machine.address_ticks,
                    shared_pass_ticks=ticks,
                )
                table = batch_cycles if form == "batch" else looped_cycles
                times = np.zeros(len(cases))
                later = max(0, machine.shared_pass_latency_ticks - ticks)
                for passes in np.unique(cases.passes):
                    mine = cases.passes == passes
                    delayed = whole["load"] + ceil_cycles(int(passes - 1) * later)
                    atomics = {**machine.atomics, "add": AtomicTiming(0, ticks, delayed)}
                    own = cases.warps[mine], cases.passes[mine], cases.cas_warps[mine]
                    times[mine] = table(replace(machine, atomics=atomics), "add", *own)
                return times

            think = values[LINK] if form == "looped" else 0.0
            # The description's latency contains the one pass of a load without conflict, in whole cycles.
            after = max(1.0, latency - self._machine.front_cycles - math.ceil(each) + think)
            times = _interpolated({"load": after}, simulated, smooth)
            return times + values[FRAME] if form == "batch" else times

        return run


def _different(*columns: Ints) -> tuple[Ints, Ints]:
    """The points that differ, in columns, and which each case is: several kernels measure the same."""
    rows, which = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    return rows.T, which.reshape(-1)


def _named(op: str, place: Mapping[str, str]) -> str:
    return place.get(op, op).replace("_", "-")


def _whole(latency: float) -> int:
    return max(1, math.floor(latency + 0.5))


def _interpolated(
    latencies: Values, simulated: Callable[[Mapping[str, int]], Floats], smooth: bool
) -> Floats:
    """Between whole latencies, linear in each; or at the nearest ones, as the simulator rounds."""
    if not smooth:
        return simulated({op: _whole(value) for op, value in latencies.items()})
    below = {op: max(1, math.floor(value)) for op, value in latencies.items()}
    base = simulated(below)
    times = base.copy()
    for op, value in latencies.items():
        part = value - below[op]
        if part > 1e-9:
            times += part * (simulated({**below, op: below[op] + 1}) - base)
    return times
