"""``smlab bench calibrate``: measure (or simulate), fit, simulate and compare, in one command."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, shown
from smlab.commands.bench.command import CalibrationOptions
from smlab.commands.bench.run import profile_name
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu

if TYPE_CHECKING:
    from smlab.validation.calibrate import Calibration

NEEDED = ("shared-atomics", "latency", "shared-banks")
"""The benchmarks that calibration reads."""
_HEADLINES = ("fetch-and-add, n <= 32", "with compare-and-swap, n <= 32", "atomic unit, all")


def run_loop(loop: CalibrationOptions) -> None:
    """Make the data set where asked, calibrate, compare, and print."""
    from smlab.validation.calibrate import calibrate

    gpu = load_gpu(loop.gpu)
    if loop.measure and loop.simulate:
        raise SmlabError(
            "bench calibrate: --measure and --simulate exclude each other (expected one of them)"
        )
    if loop.measure:
        _measure(loop)
    elif loop.simulate:
        from smlab.hw_bench.cuda.measuring import plan
        from smlab.validation.calibrate.simulated import is_measured, write_simulated

        if is_measured(loop.data_set):
            what = "holds a measured data set, which --simulate would overwrite"
            raise SmlabError.at(str(loop.data_set), what, expected="another folder")
        write_simulated(loop.data_set, gpu, profile=plan.profile(profile_name(loop.quick)), seed=loop.seed)
    found = calibrate(
        loop.data_set, loop.gpu, out=loop.out, cases_out=loop.cases, share=loop.share, seed=loop.seed
    )
    if loop.as_json:
        print_json(_document(found, loop))
    else:
        _show(found, loop)


def _measure(loop: CalibrationOptions) -> None:
    from smlab.hw_bench.cuda.toolkit import require_gpu

    require_gpu()
    from smlab.hw_bench.cuda.measuring.harness import measure

    outcome = measure(
        loop.data_set,
        profile=profile_name(loop.quick),
        benchmarks=NEEDED,
        resume=True,
        progress=lambda line: err.print(shown(line)),
    )
    if outcome.interrupted:
        raise KeyboardInterrupt
    for line in (outcome.wrong + outcome.broken)[:1]:
        raise SmlabError(
            f"{loop.data_set}: the measurement cannot be trusted, nothing was calibrated: {line}"
        )
    for line in outcome.held_back[:1]:
        raise SmlabError(
            f"{loop.data_set}: not complete, nothing was calibrated: the GPU was held back in {line}; the "
            "same command measures it again, `smlab bench run --resume --keep-held-back` keeps it"
        )


def _document(found: Calibration, loop: CalibrationOptions) -> dict[str, Any]:
    tables: dict[str, list[dict[str, Any]]] = {}
    for e in found.errors:
        tables.setdefault(e.group, []).append({"predictor": e.predictor, **e.table.as_row()})
    return {
        "data": found.data,
        "simulated_data": found.simulated_data,
        "gpu": loop.gpu,
        "out": str(loop.out),
        "points_fitted": found.points_fitted,
        "points_judged": found.points_judged,
        "seed": found.seed,
        "scatter_percent": found.scatter_percent,
        "drifting": found.drifting,
        "drift_percent": 100 * found.drift,
        "disturbed_rows": found.disturbed_rows,
        "follows": found.follows,
        "lack_of_fit": None if found.lack is None else dataclasses.asdict(found.lack),
        "mape": {group: found.mape(group) for group in _HEADLINES},
        "fitted": [dataclasses.asdict(f) for f in found.fitted],
        "not_fitted": [dataclasses.asdict(n) for n in found.not_fitted],
        "skipped": [dataclasses.asdict(s) for s in found.skipped],
        "errors": tables,
        "residuals": [dataclasses.asdict(r) for r in found.residuals],
    }


def _show(found: Calibration, loop: CalibrationOptions) -> None:
    out.print(shown(f"{found.data}: {found.points_fitted} times fitted, {found.points_judged} judged"))
    constants = Listing("constant", "fitted", "95 %, all together", "before")
    for f in found.fitted:
        before = "" if f.before is None else f"{f.before:.4g}"
        constants.add_row(f.name, f"{f.value:.4g}", f"{f.low:.4g} to {f.high:.4g}", before)
    for n in found.not_fitted:
        constants.add_row(n.name, "not told", shown(n.reason), "")
    out.print(constants)
    predictors = list(dict.fromkeys(e.predictor for e in found.errors))
    out.print("MAPE on the judged times, in %; from median on of the calibrated simulator")
    columns = ("judged", "n", *predictors, "median", "worst", "bias", "tau", "in 10 %")
    errors = Listing("judged")
    for heading in columns[1:]:
        errors.add_column(heading, justify="right", drop=heading in ("tau", "in 10 %", "worst"))
    for group in dict.fromkeys(e.group for e in found.errors):
        rows = {e.predictor: e.table for e in found.errors if e.group == group}
        best = rows["calibrated"]
        errors.add_row(
            group, str(best.n), *(f"{rows[p].mape:.2f}" for p in predictors), f"{best.median_ape:.2f}",
            f"{best.worst_ape:.1f}", f"{best.bias:.3f}", f"{best.kendall_tau:.3f}", f"{best.within_10:.0f}",
            style="bold" if group in _HEADLINES else None,
        )  # fmt: skip
    out.print(errors)
    if found.drifting:
        out.print(
            f"The times drift: at the end of the run they are {100 * found.drift:+.1f} % from those at its "
            "beginning. The constants are those of its beginning, and their intervals know of the drift; "
            "better data come from a GPU that has warmed up and that nobody else uses"
        )
    if found.disturbed_rows:
        what = "row" if found.disturbed_rows == 1 else "rows"
        out.print(
            f"In {found.disturbed_rows} {what} a repetition lies further off than noise explains; what that "
            "does to a median is taken away"
        )
    if found.lack is not None:
        verdict = "lacks something" if found.lack.found else "lacks nothing that the noise would not hide"
        out.print(
            f"Against the noise of repetitions ({100 * found.lack.noise:.1f} %), the simulator {verdict}: "
            f"p = {found.lack.p_value:.2g} over {found.lack.cells_compared} groups of alike cases"
        )
        for cell in found.lack.cells if found.lack.found else ():
            out.print(shown(f"  {cell.where}: simulated / measured {cell.ratio:.3f} ({cell.n} cases)"))
    if not found.follows:
        out.print(
            "The simulator does not follow these data. Its errors (simulated / measured) by where they lie:"
        )
        where = Listing("axis", "at", "n", "bias", "spread", "MAPE")
        for r in found.residuals:
            where.add_row(r.axis, r.where, str(r.n), f"{r.bias:.3f}", f"{r.spread:.3f}", f"{r.mape:.1f} %")
        out.print(where)
    for s in found.skipped:
        err.print(shown(f"not compared: {s.what}, {s.rows} rows: {s.reason}"))
    err.print(shown(f"wrote {loop.out}" + (f" and {loop.cases}" if loop.cases else "")))
