"""The benchmark judged: what `shared-atomics` measures of a GPU whose T(n, e, c) is known exactly.

``smlab bench run shared-atomics --on-simulator --gpu G`` runs its machine code on a simulated GPU. Its
times are held against the exact ones of the same description, which come from operations without any code
around them. What is left is the benchmark's own measuring error: reading the clock, the loop, the path
before the unit. Batches without a result, which a calibration leaves out since it does not know when the
load behind them returns, are held against the same operations and load executed alone. A float's addition
is a loop that other warps send round again, so it has no exact time and is not judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.cuda.kernels.shared_atomics import WORDS
from smlab.hw_bench.cuda.measuring.dataset import find_table, read_table
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim import Instruction, Kernel, Program, Record, simulate
from smlab.sim.address_patterns import Grouped
from smlab.sim.instructions import Unit
from smlab.validation.calibrate.cases import WHERE, Cases
from smlab.validation.calibrate.dataset import WITHOUT_RESULT, read_set, starts_at_once
from smlab.validation.calibrate.fit import atomic_parameters
from smlab.validation.calibrate.predict import CAS_LINK, FRAME, ISSUE_FRAME, LINK, MEASURING, Predictor

Floats = NDArray[np.float64]
BLOCK_WARPS: Final = 32
"""Warps of the largest block."""


@dataclass(frozen=True)
class FormErrors:
    """Errors of one form's times, in percent of the exact ones: ``bias`` is signed and a median, the others
    are of the absolute error. ``worst`` says where."""

    form: str
    n: int
    bias: float
    median: float
    p95: float
    worst: str


def measured_frame(cases: Cases, gpu: Gpu, values: Mapping[str, float]) -> dict[str, float]:
    """What the benchmark itself adds: the clock around nothing, which was measured, and by one warp, where
    nothing else is unknown, the links of its chains and the clock behind a burst.

    Raises:
        SmlabError: a data set without the kernel that does nothing.
    """
    frames = cases.select(cases.form == "frame")
    if not len(frames):
        raise SmlabError("the set has no kernel without an operation: none/batch")
    found = {FRAME: float(np.median(frames.cycles)), ISSUE_FRAME: 0.0, LINK: 0.0, CAS_LINK: 0.0}
    bare = cases.cycles - Predictor(gpu, cases).cycles({**values, **found})
    alone = cases.warps == 1
    for name, those in (
        (ISSUE_FRAME, alone & (cases.form == "burst")),
        (LINK, alone & (cases.form == "looped") & (cases.cas_warps == 0)),
        (CAS_LINK, alone & (cases.form == "looped") & (cases.cas_warps > 0)),
    ):
        if those.any():
            found[name] = float(np.median(bare[those]))
    return found


def measuring_errors(folder: Path, gpu: Gpu) -> list[FormErrors]:
    """Of every form in a data set that was made on the simulated ``gpu``; ``all`` is the last.

    Raises:
        SmlabError: a set of something else.
    """
    found = read_set(folder)
    if "SIMULATED" not in found.about:
        raise SmlabError.at(str(folder), "was not made by bench run --on-simulator", found.name())
    values = {p.name: float(gpu.number(p.name)) for p in atomic_parameters(gpu) if p.name not in MEASURING}
    values |= measured_frame(found.atomics, gpu, values)
    cases = found.atomics.select(found.atomics.form != "frame")
    exact = Predictor(gpu, cases).cycles(values)
    closed = closed_batches(folder)
    if len(closed):
        cases = Cases.join([cases, closed])
        exact = np.concatenate([exact, closed_cycles(closed, gpu) + values[FRAME]])
    error = 100 * (cases.cycles / exact - 1)
    beside = np.where(cases.cas_warps == cases.warps, " as compare-and-swap", " beside compare-and-swap")
    beside = np.where(cases.cas_warps == 0, "", beside)
    names = np.char.add(np.char.add(cases.operation.astype("U24"), " "), cases.form)
    names = np.char.add(names, beside)
    rows = [_errors(name, cases, error, names == name) for name in sorted(set(names.tolist()))]
    forms = sorted(set(cases.form.tolist()))
    rows += [_errors(f"every {form}", cases, error, cases.form == form) for form in forms]
    return [*rows, _errors("all", cases, error, np.ones(len(cases), dtype=bool))]


def closed_batches(folder: Path) -> Cases:
    """Batches of operations without a result, each behind it a load of its word, whose warps start
    together."""
    path = find_table(folder, "shared-atomics")
    assert path is not None, "read_set has read it"
    table = read_table(path)
    rows = (table["form"] == "batch") & np.isin(table["operation"], WITHOUT_RESULT) & starts_at_once(table)
    where = np.array([table[name][rows].astype(np.int64) for name in WHERE])
    return Cases.build(table["operation"][rows].tolist(), "closed", where, table["cycles_median"][rows], 1.0)


def closed_cycles(cases: Cases, gpu: Gpu) -> Floats:
    """From the first issue of an operation to the last load's result, with no code around them."""
    counting = float(gpu.compute_capability) >= 8
    found = []
    for at, operation in enumerate(cases.operation.tolist()):
        op = "atomic-popc-inc" if operation == "popc-inc" and counting else "atomic-add"
        names = ("lanes", "same_word", "same_bank", "warps", "cas_warps")
        lanes, same_word, same_bank, n, c = (int(getattr(cases, name)[at]) for name in names)
        pattern = Grouped(same_word, same_bank)
        programs = tuple(
            Program(
                kind,
                (
                    Instruction(kind, lanes=lanes, shared=pattern, returns=False),
                    Instruction("shared-load", lanes=lanes, shared=pattern),
                ),
            )
            for kind in (op, "atomic-cas")
        )
        # What a block does not hold comes in two of them, alike, on one SM.
        blocks = -(-n // BLOCK_WARPS)
        each = n // blocks
        roles = tuple(tuple(int(each * b + warp < c) for warp in range(each)) for b in range(blocks))
        kernel = Kernel("closed batch", programs, roles, blocks, shared_bytes_per_block=4 * WORDS)
        jobs = simulate(kernel, gpu, keep=Record.ALL).jobs
        assert jobs is not None
        # The operations' own acknowledgements come later, and nobody waits for them.
        found.append(float(jobs.of_unit(Unit.SHARED).completion.max() - jobs.issue.min()))
    return np.array(found)


def _errors(form: str, cases: Cases, error: Floats, at: NDArray[np.bool_]) -> FormErrors:
    own = error[at]
    place = int(np.flatnonzero(at)[np.argmax(np.abs(own))])
    where = ", ".join(
        f"{name}={int(getattr(cases, name)[place])}"
        for name in ("warps", "cas_warps", "lanes", "same_word", "same_bank", "iterations")
    )
    return FormErrors(
        form,
        len(own),
        float(np.median(own)),
        float(np.median(np.abs(own))),
        float(np.percentile(np.abs(own), 95)),
        f"{own[np.argmax(np.abs(own))]:+.1f} % at {where}",
    )
