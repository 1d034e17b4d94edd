"""``smlab table``: simulate a service table, or check one, and write it."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from smlab.cli.terminal import err, print_json, progress_bar
from smlab.commands.gpu_choice import ALL, chosen_alternatives
from smlab.commands.table.command import TableOptions
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.models import ServiceTable
from smlab.sim.service_table import service_table


def run_table(options: TableOptions) -> None:
    """``smlab table``."""
    began = time.perf_counter()
    if options.source == "sim":
        (alternative, gpu), *others = chosen_alternatives(load_gpu(options.gpu), options.alternative)
        if others:
            raise SmlabError.at("--alternative", "a table is of one alternative", ALL, "one of their names")
        most, max_n = gpu.integer("sm.max_warps"), options.max_n
        if max_n is not None and max_n > most:
            raise SmlabError.at("--max-n", f"{gpu.name} has fewer warps an SM", max_n, f"at most {most}")
        with progress_bar(f"T(n, e, c) of {options.op} on {gpu.name}") as advance:
            data = service_table(
                gpu,
                op=options.op,
                form=options.form,
                jobs=range(1, (max_n or most) + 1),
                cas_jobs=None if options.with_cas else [0],
                engine=options.engine,
                progress=advance,
            )
        table = ServiceTable(data)
    else:
        table = ServiceTable.read(Path(options.source))
    table.write(options.out)
    rows = int(np.isfinite(table.data.values).sum())
    wall_s = time.perf_counter() - began
    if options.as_json:
        name = alternative.name if options.source == "sim" else ""
        print_json({"rows": rows, "wall_s": wall_s, "out": str(options.out), "alternative": name})
    else:
        of = f" of the alternative {alternative.name}" if options.source == "sim" else ""
        err.print(f"wrote {options.out}: {rows:,} points{of} in {wall_s:.1f} s", markup=False)
