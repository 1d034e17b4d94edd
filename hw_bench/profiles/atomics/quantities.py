"""From a profile to what the estimators of the atomic unit's utilization need, with the provenance of each
number."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.atomics import required_counters
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU
from smlab.hw_bench.profiles.ncu.pivot import Choice, Floats, Pivot, launch_groups
from smlab.hw_bench.profiles.profile import Profile

NO_ATOMICS = "no shared-memory atomics"

_INST, _CYCLE, _COUNT = ("inst",), ("cycle",), ("", "wavefront", "request", "inst")
_REQUIRED = {  # quantity: the counter to name where it is missing, of ncu and of nvprof
    "jobs": (required_counters.JOBS, "shared_atom"),
    "cas_jobs": (required_counters.CAS, "shared_atom_cas"),
    "elapsed_cycles": (required_counters.ELAPSED, "elapsed_cycles_sm"),
    "mean_active_warps": (required_counters.WARPS, "active_warps"),
}


@dataclass(frozen=True)
class SkippedKernel:
    """A launch of which nothing can or need be estimated, and why."""

    kernel: str
    launch: int
    reason: str


@dataclass(frozen=True, eq=False)
class AtomicQuantities:
    """One row for each launch, or for each SM of a launch where the profile tells them apart; all arrays
    (rows,).

    ``sm`` is the SM's index or `WHOLE_GPU`, and ``sms`` the SMs that the row adds up: 1, or all of the GPU.
    Summed over them: ``jobs`` and ``cas_jobs`` (warp-instructions), ``wavefronts`` (passes over the banks),
    ``thread_operations``; the last two are NaN where unknown, never both. For each SM (the mean):
    ``elapsed_cycles`` from the kernel's start to its end, ``active_cycles`` with at least one warp,
    ``mean_active_warps`` over the active cycles; ``peak_warps``, the most that an SM has at a time, NaN where
    unknown. ``derivation`` says in words where each quantity comes from; ``row`` is the file's row of the
    launch.
    """

    kernel: NDArray[np.object_]
    launch: NDArray[np.int64]
    sm: NDArray[np.int64]
    sms: Floats
    jobs: Floats
    cas_jobs: Floats
    wavefronts: Floats
    thread_operations: Floats
    elapsed_cycles: Floats
    active_cycles: Floats
    mean_active_warps: Floats
    peak_warps: Floats
    derivation: NDArray[np.object_]
    row: NDArray[np.int64]
    skipped: tuple[SkippedKernel, ...] = ()

    def __len__(self) -> int:
        return len(self.jobs)


def atomic_quantities(
    profile: Profile, gpu: Gpu | None = None, *, max_warps: int | None = None, keep_idle: bool = False
) -> AtomicQuantities:
    """The quantities of every launch in ``profile``; ``gpu`` tells its SMs and warps where the profile does
    not, ``max_warps`` the warps that an SM can hold where neither does.

    Launches with no shared atomics are listed under ``skipped``, or with ``keep_idle`` are rows with 0 jobs;
    those that lack a counter which others have are listed. `SmlabError` if no launch has all that is needed,
    and for values that cannot be.
    """
    max_warps = gpu.integer("sm.max_warps") if gpu is not None else max_warps
    table = profile.table
    if not len(table):
        raise SmlabError.at(profile.path, "no counter in it", expected="the counters of at least one kernel")
    groups = launch_groups(profile)
    is_whole = table.sm == WHOLE_GPU
    counts_jobs = np.isin(table.counter.astype(str), ("shared_atom", "shared_atom_cas"))
    by_sm = np.isin(groups, groups[~is_whole & counts_jobs])
    whole = Pivot(profile, groups, is_whole & ~by_sm)
    each = Pivot(profile, groups, ~is_whole & by_sm)
    totals = Pivot(profile, groups, is_whole & by_sm)
    parts = [_whole(whole, gpu, max_warps, keep_idle)] if len(whole) else []
    if len(each):
        parts.append(_each_sm(each, totals, gpu, max_warps, keep_idle))
    if not parts:
        place = f"{profile.path}: no launch has a counter of the atomic unit"
        raise SmlabError(_missing(profile, gpu, place, "jobs", per_sm=True))
    missing = [m for _, _, lacking in parts for m in lacking]
    rows = _joined([r for r, _, _ in parts], tuple(s for _, left, _ in parts for s in left))
    if missing and not len(rows):
        raise SmlabError(missing[0])
    return rows


def _joined(parts: list[AtomicQuantities], skipped: tuple[SkippedKernel, ...]) -> AtomicQuantities:
    names = [f.name for f in fields(AtomicQuantities) if f.name != "skipped"]
    arrays = {n: np.concatenate([getattr(p, n) for p in parts]) for n in names}
    order = np.argsort(arrays["row"], kind="stable")
    return AtomicQuantities(**{n: a[order] for n, a in arrays.items()}, skipped=skipped)


Found = tuple[AtomicQuantities, list[SkippedKernel], list[str]]


def _whole(pivot: Pivot, gpu: Gpu | None, max_warps: int | None, keep_idle: bool) -> Found:
    """Of launches whose counters are of the whole GPU."""
    get = pivot.get
    counted = ("device__attribute_multiprocessor_count", "launch__sm_count")
    sms = _machine(pivot, gpu.integer("gpu.sms") if gpu is not None else None, *counted)
    room = _machine(pivot, max_warps, "device__attribute_max_warps_per_multiprocessor")
    plain, alu, cas = (
        get(n, _INST) for n in (required_counters.JOBS, required_counters.ALU, required_counters.CAS)
    )
    sass = Choice(pivot, *((n, get(n, _INST)) for n in required_counters.JOBS_SASS)).value
    fao_nv, cas_nv = get("shared_atom", _INST), get("shared_atom_cas", _INST)
    first = [("executed", plain), ("sass", sass)]
    capability = pivot.profile.device.compute_capability or (gpu.compute_capability if gpu else None)
    if required_counters.prefers_sass(capability):
        first.reverse()
    jobs = Choice(pivot, *first, ("alu + cas", alu + cas), ("shared_atom + shared_atom_cas", fao_nv + cas_nv))
    scaled = (jobs.source == jobs.labels.index("sass")) & (plain > 0) & ~np.isnan(cas)
    with np.errstate(divide="ignore", invalid="ignore"):
        cas_scaled = np.where(scaled, cas * (sass / plain), np.nan)
    cas_jobs = Choice(
        pivot,
        ("executed x sass / all executed", cas_scaled),
        ("executed", cas),
        ("jobs - alu", np.where(alu <= jobs.value, jobs.value - alu, np.nan)),
        ("shared_atom_cas", cas_nv),
    )
    lanes = Choice(
        pivot,
        (required_counters.LANES, get(required_counters.LANES, ("", "thread", "inst", "ratio"))),
        (
            "thread_inst_executed / inst_executed",
            _ratio(get("thread_inst_executed", _INST), get("inst_executed", _INST)),
        ),
    ).value
    passes = get(required_counters.WAVEFRONTS, _COUNT)
    conflicts = get(required_counters.CONFLICTS, _COUNT)
    elapsed = Choice(
        pivot,
        *(
            (n, get(n, _CYCLE))
            for n in (required_counters.ELAPSED, "sm__cycles_elapsed.avg", "smsp__cycles_elapsed.max")
        ),
        *(
            (n, get(n, _CYCLE))
            for n in ("smsp__cycles_elapsed.avg", "gpc__cycles_elapsed.max", "Elapsed Cycles")
        ),
        ("elapsed_cycles_sm / SMs", get("elapsed_cycles_sm", _CYCLE) / sms),
        (
            "gpu__time_duration.sum x sm__cycles_elapsed.avg.per_second",
            get("gpu__time_duration.sum", ("second",))
            * get("sm__cycles_elapsed.avg.per_second", ("cycle/second",)),
        ),
        ("active_cycles / SMs", get("active_cycles", _CYCLE) / sms),
    )
    active = Choice(
        pivot,
        (required_counters.ACTIVE, get(required_counters.ACTIVE, _CYCLE)),
        ("sm__cycles_active.sum / SMs", get("sm__cycles_active.sum", _CYCLE) / sms),
        ("SM Active Cycles", get("SM Active Cycles", _CYCLE)),
        ("active_cycles / SMs", get("active_cycles", _CYCLE) / sms),
        ("elapsed cycles", elapsed.value),
    )
    warps = Choice(
        pivot,
        (required_counters.WARPS, get(required_counters.WARPS, ("warp", "warp/cycle", ""))),
        (
            f"{required_counters.WARPS_PERCENT} x {_ROOM}",
            get(required_counters.WARPS_PERCENT, ("%",)) / 100 * room,
        ),
        ("Achieved Active Warps Per SM", get("Achieved Active Warps Per SM", ("warp",))),
        (
            "active_warps / active_cycles",
            _ratio(get("active_warps", ("warp",)), get("active_cycles", _CYCLE)),
        ),
        (f"achieved_occupancy x {_ROOM}", _occupancy(pivot) * room),
    )
    choices = {
        "jobs": jobs,
        "cas_jobs": cas_jobs,
        "wavefronts": Choice(pivot, ("executed", passes), ("jobs + bank conflicts", jobs.value + conflicts)),
        "thread_operations": Choice(
            pivot,
            ("executed", get(required_counters.THREADS, _INST)),
            ("jobs x mean active lanes", jobs.value * lanes),
        ),
        "elapsed_cycles": elapsed,
        "active_cycles": active,
        "mean_active_warps": warps,
        "peak_warps": _peak(pivot, sms, room),
    }
    return _checked(pivot, choices, sms, gpu, (jobs.value == 0) & (not keep_idle))


def _each_sm(pivot: Pivot, totals: Pivot, gpu: Gpu | None, max_warps: int | None, keep_idle: bool) -> Found:
    """Of launches whose jobs are counted on each SM; ``totals`` holds the rows of the whole GPU of the
    same launches."""
    get = pivot.get
    room = _machine(pivot, max_warps)
    fao, cas = get("shared_atom", _INST), get("shared_atom_cas", _INST)
    jobs = Choice(pivot, ("shared_atom + shared_atom_cas", fao + cas))
    active_cycles = get("active_cycles", _CYCLE)
    elapsed = Choice(
        pivot, ("elapsed_cycles_sm", get("elapsed_cycles_sm", _CYCLE)), ("active_cycles", active_cycles)
    )
    warps = Choice(
        pivot,
        (f"achieved_occupancy x {_ROOM}", _occupancy(pivot) * room),
        ("active_warps / active_cycles", _ratio(get("active_warps", ("warp",)), active_cycles)),
    )
    all_jobs = np.zeros(int(pivot.group.max()) + 1)
    np.add.at(all_jobs, pivot.group, np.nan_to_num(jobs.value))
    share = _ratio(jobs.value, all_jobs[pivot.group])

    def of_total(name: str, units: tuple[str, ...]) -> Floats:
        """A counter of the whole GPU, an equal part for each of the launch's jobs."""
        by_group = np.full(len(all_jobs), np.nan)
        if len(totals):
            inside = totals.group < len(all_jobs)
            by_group[totals.group[inside]] = totals.get(name, units)[inside]
        return by_group[pivot.group] * share

    peak = np.full(len(pivot), np.nan)
    if len(totals):
        by_group = np.full(max(len(all_jobs), int(totals.group.max()) + 1), np.nan)
        by_group[totals.group] = _peak(
            totals, np.full(len(totals), np.nan), np.full(len(totals), np.nan)
        ).value
        peak = by_group[pivot.group]
    lanes = _ratio(get("thread_inst_executed", _INST), get("inst_executed", _INST))
    choices = {
        "jobs": jobs,
        "cas_jobs": Choice(pivot, ("shared_atom_cas", cas)),
        "wavefronts": Choice(
            pivot,
            ("the whole GPU's, shared by jobs", of_total(required_counters.WAVEFRONTS, _COUNT)),
            (
                "jobs + the whole GPU's bank conflicts, shared by jobs",
                jobs.value + of_total(required_counters.CONFLICTS, _COUNT),
            ),
        ),
        "thread_operations": Choice(
            pivot,
            ("the whole GPU's, shared by jobs", of_total(required_counters.THREADS, _INST)),
            ("jobs x thread_inst_executed / inst_executed", jobs.value * lanes),
        ),
        "elapsed_cycles": elapsed,
        "active_cycles": Choice(pivot, ("active_cycles", active_cycles), ("elapsed cycles", elapsed.value)),
        "mean_active_warps": warps,
        "peak_warps": Choice(pivot, ("the whole GPU's", peak)),
    }
    none = (all_jobs[pivot.group] == 0) & ~jobs.missing & (not keep_idle)
    return _checked(pivot, choices, np.ones(len(pivot)), gpu, none)


def _peak(pivot: Pivot, sms: Floats, room: Floats) -> Choice:
    """The most warps of an SM at a time: what the launch allows, or what the grid has for each SM if that
    is less."""
    get = pivot.get
    allowed = Choice(
        pivot,
        (required_counters.PEAK_WARPS, get(required_counters.PEAK_WARPS, ("warp", "warp/cycle", ""))),
        (
            f"{required_counters.PEAK_WARPS_PERCENT} x {_ROOM}",
            get(required_counters.PEAK_WARPS_PERCENT, ("%",)) / 100 * room,
        ),
    ).value
    blocks, threads = get(required_counters.GRID, ("", "block")), get(required_counters.BLOCK, ("", "thread"))
    grid = np.ceil(blocks / sms) * np.ceil(threads / 32)
    return Choice(
        pivot, ("the launch's, at most the grid's", np.minimum(allowed, grid)), ("the launch's", allowed)
    )


def _ratio(above: Floats, below: Floats) -> Floats:
    """above / below; 0 / 0 is 0, as on an SM that did nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((above == 0) & (below == 0), 0.0, above / below)


def _occupancy(pivot: Pivot) -> Floats:
    """``achieved_occupancy`` (0 .. 1), whether given as a ratio or in %."""
    ratio = np.where(pivot.unit_is("achieved_occupancy", "%"), 0.01, 1.0)
    values = pivot.get("achieved_occupancy", ("ratio", "%", "")) * ratio
    if (over := np.flatnonzero(values > 1)).size:
        place = pivot.where(int(over[0]), "achieved_occupancy")
        raise SmlabError.at(
            place, "achieved_occupancy is no share of the warps", float(values[over[0]]), "0 .. 1"
        )
    return values


_ROOM = "warps that an SM can hold"


def _machine(pivot: Pivot, known: int | None, *counters: str) -> Floats:
    """A constant of the GPU (entities,): as the profile tells it (it may be a part of one), else ``known``,
    else NaN."""
    values = Choice(pivot, *((n, pivot.get(n, ("", "SM", "warp"))) for n in counters)).value
    return np.where(values > 0, values, np.nan if known is None else float(known))


def _checked(
    pivot: Pivot, choices: dict[str, Choice], sms: Floats, gpu: Gpu | None, without: NDArray[np.bool_]
) -> Found:
    """The rows that have all that is needed; the other launches, with the reason; and the messages of what
    is missing."""
    lacking = {name: choices[name].missing for name in _REQUIRED}
    lacking["e"] = choices["wavefronts"].missing & choices["thread_operations"].missing
    lacking["SMs"] = np.isnan(sms)
    short_of = ~without & np.logical_or.reduce(list(lacking.values()))
    per_sm = bool((pivot.sm != WHOLE_GPU).any())
    skipped: dict[tuple[str, int], SkippedKernel] = {}
    missing: list[str] = []
    for i in np.flatnonzero(without).tolist():
        key = (str(pivot.kernel[i]), int(pivot.launch[i]))
        if key not in skipped:
            skipped[key] = SkippedKernel(*key, NO_ATOMICS)
    dropped = np.unique(pivot.group[short_of])
    for i in np.flatnonzero(short_of).tolist():
        key = (str(pivot.kernel[i]), int(pivot.launch[i]))
        if key not in skipped:
            quantity = next(q for q, absent in lacking.items() if absent[i])
            problem = _missing(
                pivot.profile, gpu, f"{pivot.where(i)}: {pivot.called(i)}", quantity, per_sm=per_sm
            )
            missing.append(problem)
            skipped[key] = SkippedKernel(*key, problem)
    keep = np.flatnonzero(~without & ~np.isin(pivot.group, dropped))
    _refuse_impossible(pivot, choices, keep)
    rows = AtomicQuantities(
        kernel=pivot.kernel[keep],
        launch=pivot.launch[keep],
        sm=pivot.sm[keep],
        sms=sms[keep],
        jobs=choices["jobs"].value[keep],
        cas_jobs=choices["cas_jobs"].value[keep],
        wavefronts=choices["wavefronts"].value[keep],
        thread_operations=choices["thread_operations"].value[keep],
        elapsed_cycles=choices["elapsed_cycles"].value[keep],
        active_cycles=choices["active_cycles"].value[keep],
        mean_active_warps=choices["mean_active_warps"].value[keep],
        peak_warps=choices["peak_warps"].value[keep],
        derivation=_derivations(choices, keep),
        row=pivot.profile.rows[pivot.first[keep]],
    )
    return rows, list(skipped.values()), missing


def _missing(profile: Profile, gpu: Gpu | None, place: str, quantity: str, *, per_sm: bool) -> str:
    if quantity == "SMs":
        return (
            f"{place}: the profile does not tell how many SMs the GPU has (expected --gpu, such as --gpu "
            f"a100-40)"
        )
    capability = gpu.compute_capability if gpu else profile.device.compute_capability or "7.0"
    nvprof = profile.tool == "nvprof" and required_counters.capability_number(capability) <= 72
    ncu = required_counters.how_for(
        capability if required_counters.capability_number(capability) >= 70 else "7.0"
    )
    pair = (required_counters.WAVEFRONTS, "thread_inst_executed") if quantity == "e" else _REQUIRED[quantity]
    command = required_counters.how_for(capability, "nvprof").command if nvprof else ncu.command
    counter = pair[1] if nvprof or (per_sm and profile.tool == "smlab") else pair[0]
    return f"{place}: counter {counter!r} is missing (collect it with: {command})"


def _refuse_impossible(pivot: Pivot, choices: dict[str, Choice], keep: NDArray[np.intp]) -> None:
    """`SmlabError` for numbers that contradict each other."""
    value = {name: c.value[keep] for name, c in choices.items()}
    busy = value["jobs"] > 0
    counted = busy | (pivot.sm[keep] == WHOLE_GPU)  # an SM that had nothing to do may have no cycles
    checks = (
        (busy & (value["active_cycles"] == 0), "jobs without cycles", "active_cycles", "active_cycles"),
        (
            counted & (value["elapsed_cycles"] == 0),
            "an elapsed time of zero cycles",
            "elapsed_cycles",
            required_counters.ELAPSED,
        ),
        (value["cas_jobs"] > value["jobs"], "CAS jobs exceed jobs", "cas_jobs", required_counters.CAS),
        (
            busy & (value["mean_active_warps"] == 0),
            "jobs without active warps",
            "mean_active_warps",
            required_counters.WARPS,
        ),
    )
    for wrong, what, name, counter in checks:
        if wrong.any():
            j = int(np.flatnonzero(wrong)[0])
            i = int(keep[j])
            expected = f"at most {value['jobs'][j]:g}" if name == "cas_jobs" else "more than 0"
            where = pivot.where(i, counter, *_SOURCES.get(name, ()))
            raise SmlabError.at(f"{where}: {pivot.called(i)}", what, float(value[name][j]), expected)


_SOURCES = {
    "elapsed_cycles": ("elapsed_cycles_sm", "active_cycles"),
    "active_cycles": (required_counters.ACTIVE,),
    "cas_jobs": ("shared_atom_cas",),
    "mean_active_warps": ("active_warps", "achieved_occupancy"),
}


def _derivations(choices: dict[str, Choice], keep: NDArray[np.intp]) -> NDArray[np.object_]:
    """In words, what each quantity of each row is taken from."""
    sources = np.stack([c.source[keep] for c in choices.values()], axis=1)
    different, inverse = np.unique(sources, axis=0, return_inverse=True)
    texts = np.empty(len(different), dtype=object)
    for i, row in enumerate(different.tolist()):
        parts = [
            f"{name}: {choice.labels[source] if source >= 0 else 'unknown'}"
            for (name, choice), source in zip(choices.items(), row, strict=True)
        ]
        texts[i] = "; ".join(parts)
    return texts[inverse.reshape(-1)]
