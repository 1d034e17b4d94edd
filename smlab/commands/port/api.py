"""``smlab.port``: the same kernels on several GPUs, compared; or on one, and projected to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from smlab.commands.arguments import a_gpu, a_path, check_keywords
from smlab.commands.port.advice import AdvisedPair, PortAdvice, advice_of
from smlab.commands.port.causes import Explained, at_clock, checked_expect, explain, gpu_of, with_launch_of
from smlab.commands.port.code import PortCode, Progress, with_code
from smlab.commands.port.renamed import labels_with_renamed
from smlab.commands.port.result import PortResult
from smlab.commands.port.sampled import stalled_kernels
from smlab.hw_bench.datasets.timed_kernels import read_timed_kernels
from smlab.hw_bench.datasets.timed_work import work_of_times
from smlab.hw_bench.datasets.tuning import TuningTimes, label_of
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.inputs import resolved
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.models.portability.causes import causes
from smlab.models.portability.launch_series import INITIAL_LAUNCHES, MIN_LAUNCHES
from smlab.models.portability.matching import Matches, check_units, match
from smlab.models.portability.metric import application_efficiency, of_set, portability
from smlab.models.portability.ratios import Ratios, ratios
from smlab.models.roofline.ceilings import ceilings

Floats = NDArray[np.float64]


class PortKeywords(TypedDict, total=False):
    """Keywords of `port` and `port_modelled` that ask for more work."""

    code: PortCode | None
    advise: bool
    progress: Progress | None
    pairs: str | Path | None


def port(
    files: Mapping[str, str | Path],
    *,
    gpus: Mapping[str, str | Path | Gpu] | None = None,
    clocks_hz: Mapping[str, float] | None = None,
    expect: str = "same",
    samples: Mapping[str, str | Path] | None = None,
    **more: Unpack[PortKeywords],
) -> PortResult:
    """Compare the kernels that all files hold; ``files`` maps a name for each GPU to its times.

    A file is whatever `read_timed_kernels` reads. The first is the source, the others are held against it.

    Args:
        files: a name for each GPU and its file.
        gpus: descriptions by those names, where neither the name nor the file tells which GPU it is.
        clocks_hz: SM clocks by those names, where somebody saw them and the files do not tell.
        expect: what ratio verdicts are held against: ``same`` (1), ``peak`` (of the FP32 peaks), ``roofline``
            (of each kernel's closest roofs) or ``project`` (of the modelled times).
        code: machine code of the kernels, for causes: the target's registers, and what it executes.
        samples: files of samples by instruction, by the names of ``files``: where code stalls is compared.
        advise: look for changes that make kernels faster on each target.
        pairs: a file with the columns ``source`` and ``target``: kernels that are one under two names. Other
            kernels of traces and profiles without a partner are paired by what speaks for it.
        progress: told how many of how many steps of what takes long are done.

    Raises:
        SmlabError: an unreadable file, nothing in common, times in different units, one GPU given twice.
    """
    check_keywords("port", more, PortKeywords)
    code, advise, progress = more.get("code"), more.get("advise", False), more.get("progress")
    if not isinstance(files, Mapping):
        raise SmlabError.at("files", f"a {type(files).__name__} is not a mapping", files, "{name: path}")
    expected = checked_expect(expect)
    paths = {name: a_path(name, path) for name, path in files.items()}
    seen: dict[Path, str] = {}
    for name, path in paths.items():
        if resolved(path) in seen:
            raise SmlabError.at(
                name, "the same file as " + seen[resolved(path)], str(path), "another GPU's file"
            )
        seen[resolved(path)] = name
    given = {name: a_gpu(f"gpus[{name!r}]", gpu) for name, gpu in (gpus or {}).items()}
    for name in (*given, *(clocks_hz or {})):
        if name not in paths:
            raise SmlabError.at("gpus", "no file of that name", name, ", ".join(paths))
    times = {name: read_timed_kernels(path) for name, path in paths.items()}
    asked = more.get("pairs")
    labels, renamed = labels_with_renamed(
        _labels(times), times, None if asked is None else a_path("pairs", asked)
    )
    found = match(labels)
    steady = np.column_stack([_steady(t, found.rows[:, column]) for column, t in enumerate(times.values())])
    names = tuple(times)
    described = [
        at_clock(name, gpu_of(name, t, given), (clocks_hz or {}).get(name)) for name, t in times.items()
    ]
    pairs: dict[str, tuple[NDArray[np.int64], Ratios] | None] = {}
    explained: dict[str, Explained] = {}
    advice: list[PortAdvice] = []
    notes = _notes(times, found)
    notes += [f"{name}: simulated, not measured" for name, t in times.items() if t.exact]
    notes += [
        f"{name}: no description of this GPU, so no causes (smlab gpus lists them; --gpu {name}=GPU)"
        for name, gpu in zip(names, described, strict=True)
        if gpu is None
    ]
    for column, name in enumerate(names[1:], start=1):
        check_units((names[0], name), (steady[:, 0], steady[:, column]))
        exact = times[names[0]].exact and times[name].exact
        pairs[name] = None if exact else _pair(times[names[0]], times[name], found.rows[:, [0, column]])
        here, there = described[0], described[column]
        codes = None
        if code and here is not None and there is not None:
            rows = found.rows[:, 0].tolist()
            codes = code.of(times[names[0]], rows, (names[0], name), (here, there), progress)
        explained[name] = explain(
            (times[names[0]], times[name]),
            found.rows[:, [0, column]],
            steady[:, [0, column]],
            (here, there),
            pairs[name],
            expected,
            codes,
        )
        if advise and here is not None and there is not None:
            work = work_of_times(times[names[0]], found.rows[:, 0], steady[:, 0], here)
            rows = found.rows[:, 0].tolist()
            known = AdvisedPair(times[names[0]], rows, steady[:, [0, column]], work, (here, there), True)
            advice += advice_of(name, known, progress)
    kernels, best = _best_of_kernels(times[names[0]], found, steady)
    counted = _of_their_roof(tuple(times.values()), found, steady, described, set(kernels))
    return PortResult(
        platforms=names,
        times=tuple(times.values()),
        matches=found,
        steady_s=steady,
        pairs=pairs,
        explained=explained,
        kernels=(*kernels, *counted),
        portability=of_set([*best, *counted.values()], len(names)),
        notes=tuple(notes),
        advice=tuple(advice) if advise else None,
        stalled=stalled_kernels(samples or {}, names),
        renamed=renamed,
        of_roof=tuple(counted),
    )


def port_modelled(
    file: str | Path, source: str | Path | Gpu, target: str | Path | Gpu, **more: Unpack[PortKeywords]
) -> PortResult:
    """The kernels of one file, measured on ``source``, with their modelled times on ``target``; ``code``
    and ``advise`` as of `port`.

    Raises: SmlabError: an unreadable file, an unknown GPU, or a file that tells of no kernel what it does.
    """
    check_keywords("port_modelled", more, PortKeywords)
    code, advise, progress = more.get("code"), more.get("advise", False), more.get("progress")
    path, here, there = a_path("file", file), a_gpu("source", source), a_gpu("target", target)
    if here.constants == there.constants:
        raise SmlabError.at("--to", "the same GPU as --from", there.name, "another GPU")
    times = read_timed_kernels(path)
    labels = _labels({here.name: times})[here.name]
    all_rows = np.arange(len(times))
    steady = _steady(times, all_rows)
    work = work_of_times(times, all_rows, steady, here)
    told = np.flatnonzero(~np.isnan(work.blocks) | (np.nan_to_num(work.instructions) > 0))
    if not len(told):
        raise SmlabError.at(
            str(path), "tells neither launches nor counters", expected="a profile of ncu, or nsys's trace"
        )
    work = work.take(told)
    target_work = None
    if code:
        codes = code.of(times, told.tolist(), (here.name, there.name), (here, there), progress)
        unknown = KernelWork.of(work.kernel.tolist(), work.seconds, launch=work.launch)
        target_work = with_launch_of(with_code(unknown, work, codes, there), work)
    found = causes(work, here, there, target_work=target_work, by_code=bool(code))
    seconds = steady[told] * np.exp(found.modelled)
    matches = Matches(
        labels=tuple(labels[row] for row in told.tolist()),
        rows=np.column_stack([told, told]),
        unmatched={
            here.name: tuple(labels[row] for row in range(len(times)) if row not in set(told.tolist()))
        },
    )
    both = np.column_stack([steady[told], seconds])
    advice = None
    if advise:
        known = AdvisedPair(times, told.tolist(), both, work, (here, there), False)
        advice = tuple(advice_of(there.name, known, progress))
    kernels, best = _best_of_kernels(times, matches, both)
    notes = [f"{there.name} is modelled, not measured"]
    if not found.counted.all():
        notes.append(
            f"{int((~found.counted).sum()):,} of {len(told):,} without counters: taken as bound by their SMs"
        )
    return PortResult(
        platforms=(here.name, there.name),
        times=(times, replace(times, device=there.title, exact=False)),
        matches=matches,
        steady_s=both,
        pairs={there.name: None},
        explained={there.name: Explained(np.arange(len(told)), found, np.ones(len(told)))},
        kernels=kernels,
        portability=of_set(list(best), 2),
        notes=tuple(notes),
        modelled=True,
        advice=advice,
    )


def _labels(times: Mapping[str, TuningTimes]) -> dict[str, list[str]]:
    """What rows are matched by: kernel and configuration, or the configuration alone where each file is of
    one kernel (tuners name it or not)."""
    if all(len(set(t.kernel.tolist())) == 1 for t in times.values()):
        return {name: [label_of(t.parameters, c) for c in t.config] for name, t in times.items()}
    return {name: t.labels() for name, t in times.items()}


def _steady(times: TuningTimes, rows: NDArray[np.int64]) -> Floats:
    """The median of each row's launches but the first, where there are more."""
    runs = [times.runs[row] for row in rows]
    return np.array([np.median(r[INITIAL_LAUNCHES:] if len(r) > INITIAL_LAUNCHES else r) for r in runs])


def _pair(
    source: TuningTimes, target: TuningTimes, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Ratios] | None:
    """The configurations with launches enough on both, cut to the numbers of launches that most of them
    have."""
    counts = np.array([[len(source.runs[a]), len(target.runs[b])] for a, b in rows])
    enough = (counts >= MIN_LAUNCHES).all(axis=1)
    if not enough.any():
        return None
    lengths = [int(np.median(counts[enough, side])) for side in (0, 1)]
    chosen = np.flatnonzero(enough & (counts >= lengths).all(axis=1))
    if not len(chosen):
        return None
    first = np.array([source.runs[a][: lengths[0]] for a in rows[chosen, 0]])
    second = np.array([target.runs[b][: lengths[1]] for b in rows[chosen, 1]])
    return chosen, ratios(first, second)


def _best_of_kernels(source: TuningTimes, found: Matches, steady: Floats) -> tuple[tuple[str, ...], Floats]:
    """Each kernel's efficiency on each platform with one configuration for all: the one whose worst
    efficiency is the best (application efficiency, against the kernel's own fastest configuration there).
    Kernels of one configuration are left out: it would be its own measure."""
    kernel = np.array([str(source.kernel[row]) for row in found.rows[:, 0]], dtype=object)
    names = tuple(n for n in dict.fromkeys(kernel.tolist()) if np.count_nonzero(kernel == n) > 1)
    best = np.empty((len(names), steady.shape[1]))
    for at, name in enumerate(names):
        efficiencies = application_efficiency(steady[kernel == name])
        best[at] = efficiencies[np.argmax(portability(efficiencies).metric)]
    return names, best


def _of_their_roof(
    times: Sequence[TuningTimes],
    found: Matches,
    steady: Floats,
    described: Sequence[Gpu | None],
    known: set[str],
) -> dict[str, Floats]:
    """The share of its closest roof that each kernel of one configuration reaches on each platform
    (architectural efficiency), by name; of those that all platforms have counted."""
    gpus = [gpu for gpu in described if gpu is not None]
    if len(gpus) < len(times) or any(t.counters is None for t in times):
        return {}
    shares = []
    for column, (t, gpu) in enumerate(zip(times, gpus, strict=True)):
        work = work_of_times(t, found.rows[:, column], steady[:, column], gpu)
        with np.errstate(invalid="ignore"):
            share = np.where(
                np.nan_to_num(work.instructions) > 0, ceilings(work, gpu).bound_s / work.seconds, np.nan
            )
        shares.append(np.minimum(share, 1.0))
    told: dict[str, Floats] = {}
    for row, values in enumerate(np.column_stack(shares)):
        name = str(times[0].kernel[found.rows[row, 0]])
        if name not in known and np.isfinite(values).all() and (values > 0).all():
            told[name] = values
    return told


def _notes(times: Mapping[str, TuningTimes], found: Matches) -> list[str]:
    notes = []
    for name, t in times.items():
        missing, failed = len(found.unmatched[name]), len(t.failed)
        if missing:
            notes.append(
                f"{name}: {missing:,} configurations are in no other file, or not in all, such as "
                f"{found.unmatched[name][0]}"
            )
        if failed:
            notes.append(f"{name}: {failed:,} configurations did not run, such as {': '.join(t.failed[0])}")
    counts = {
        name: {len(t.runs[row]) for row in found.rows[:, c]} for c, (name, t) in enumerate(times.items())
    }
    if len({frozenset(c) for c in counts.values()}) > 1:
        shown = ", ".join(f"{name} {min(c)} to {max(c)}" for name, c in counts.items())
        notes.append(f"the numbers of launches differ: {shown}")
    return notes
