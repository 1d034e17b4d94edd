"""``smlab validate --record``: simulate measured kernels, and say how far the times are off."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from smlab.cli.tables import Listing
from smlab.cli.terminal import err, out, print_json, progress_bar
from smlab.commands.validate.command import ValidateOptions
from smlab.hw_bench.datasets.measured_kernels import MeasuredKernelSet, list_sets, read_measured
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import write_atomic
from smlab.sim.frontends.cuda_c import find_nvcc
from smlab.validation.record.judge import LEVEL, ErrorModel, SetError, document, judge
from smlab.validation.record.run import SMS, SimulatedRow, described, simulate_set
from smlab.validation.service_tables import rules_version

DATA = "SMLAB_SHARED_DATA"
STORE, FOUND = "record.sqlite", "record.json"
DRAWN = 8
"""Kernels of each set, where nothing is said."""


def run_record(options: ValidateOptions) -> None:
    """Simulate the rows of the record, judge them, and write ``record.json`` into the folder.

    Rows that the folder has of the same code, card and simulator are not simulated again, so a run that was
    ended goes on."""
    data = options.data or Path(os.environ.get(DATA, ""))
    if options.data is None and DATA not in os.environ:
        expected = f"the folder of measurements by others, or {DATA}; its README names their sources"
        raise SmlabError.at("--data", "is missing", None, expected)
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[SimulatedRow] = []
    each = options.rows or DRAWN
    sets = [read_measured(name, data, each, options.seed) for name in options.sets or list_sets()]
    for one in sets:
        with progress_bar(f"simulating {one.title}") as advance:
            rows += simulate_set(
                one, described(one), options.out / STORE, lambda _, done, total: advance(done, total)
            )
    developed = {one.name for one in sets if one.developed}
    errors, model = judge([(one.name, one.title, one.gpu, one.kind) for one in sets], rows, developed)
    how = {"seed": options.seed, "rows": each, "sms": SMS, "rules": rules_version()}
    how["nvcc"] = int(find_nvcc() is not None)  # else the sets measured with nvcc are compiled by NVRTC
    whole = document(errors, how)
    write_atomic(options.out / FOUND, json.dumps(whole, indent=1) + "\n")
    if options.as_json:
        print_json({**whole, "rows": [asdict(row) for row in rows]})
        return
    _print(sets, errors, model)
    err.print(f"wrote {options.out / FOUND}", markup=False, soft_wrap=True)


def _print(sets: Sequence[MeasuredKernelSet], errors: Sequence[SetError], model: ErrorModel | None) -> None:
    """The verdict, and a line for each set."""
    count = sum(error.n for error in errors)
    mape = sum(error.n * error.mape for error in errors) / count
    baseline = sum(error.n * error.baseline_mape for error in errors) / count
    better = sum(error.mape < error.baseline_mape for error in errors)
    out.print(
        f"simulated times of {count} measured kernels are off by {mape:.1f} % in the mean; saying each set's "
        f"median time is off by {baseline:.1f} % (better in {better} of {len(errors)} sets)"
    )
    table = Listing("set", "n", "MAPE %", "bias", "one factor %", "rank", "median %", f"{LEVEL:.0%} held")
    for error in errors:
        held = "-" if math.isnan(error.coverage) else f"{error.coverage:.0f} %"
        table.add_row(
            error.title,
            str(error.n),
            f"{error.mape:.1f}",
            f"{error.bias:.2f}",
            f"{error.after_factor_mape:.1f}",
            "-" if math.isnan(error.spearman) else f"{error.spearman:.2f}",
            f"{error.baseline_mape:.1f}",
            held,
        )
    out.print(table)
    out.print(
        "bias: simulated over measured; one factor: after one factor for the set; median: saying the set's "
        "median time; held: measured times in intervals learned from the other sets"
    )
    if model is not None:
        low, high = model.interval(1.0)
        out.print(f"a kernel of no set: {low:.2f} to {high:.2f} times the simulated time ({LEVEL:.0%})")
