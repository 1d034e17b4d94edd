"""``smlab table``: its command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from smlab.cli.fast_start import check_gpus, check_inputs, check_outputs
from smlab.cli.options import AlternativeOption, EngineOption, GpuOption, JsonOption
from smlab.cli.registering import call, registers


@dataclass(frozen=True)
class TableOptions:
    """What ``smlab table`` was asked for."""

    out: Annotated[Path, typer.Option("--out", help="Where to write the table (.csv or .nc).")]
    gpu: GpuOption = "v100"
    op: Annotated[str, typer.Option(help="add, cas or popc-inc.")] = "add"
    form: Annotated[str, typer.Option(help="batch (all jobs at once) or looped (n jobs circulating).")] = (
        "batch"
    )
    source: Annotated[str, typer.Option(help="sim, or the file of a table to check and convert.")] = "sim"
    engine: EngineOption = "compiled"
    max_n: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="The largest number of jobs (default: the warps that an SM holds)."
        ),
    ] = None
    with_cas: Annotated[bool, typer.Option(help="All c up to n; without, only c = 0.")] = True
    alternative: AlternativeOption = None
    as_json: JsonOption = False


def table(asked: TableOptions) -> None:
    """Write the service table T(n, e, c) of the shared-memory atomic unit."""
    check_gpus(asked.gpu)
    check_inputs(None if asked.source == "sim" else Path(asked.source))
    check_outputs(asked.out)
    call("smlab.commands.table.run:run_table", asked)


register = registers(table, "Tabulate the atomic unit's service times.", TableOptions)
