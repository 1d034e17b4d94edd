"""``smlab compare``: run or read two runs, compare, print."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from smlab.cli.terminal import err, print_json
from smlab.commands.advise.printing import shape_text
from smlab.commands.compare.comparison import RunComparison
from smlab.commands.compare.kept_run import KeptRun, kept_run, read_kept_run
from smlab.commands.compare.output import print_comparison
from smlab.commands.run.document import results_document, run_document
from smlab.commands.run.real_time import RealTime
from smlab.commands.run.run import macros_of, run_file, sms_of
from smlab.examples import KERNEL, KERNEL_LAUNCH
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Record
from smlab.sim.isa.launch.launch_file import LaunchFile, read_launch

EXAMPLE_BLOCKS: Final = 80
"""What ``--example`` compares its launch of 8 blocks with."""


@dataclass(frozen=True)
class ComparedSide:
    """One of the two: a kept run (``.json``), or a kernel with its launch and GPU."""

    what: str
    launch: Path | None
    gpu: str
    defines: tuple[str, ...]
    blocks: int | None = None


@dataclass(frozen=True)
class CompareOptions:
    """What ``smlab compare`` was asked for."""

    before: ComparedSide
    after: ComparedSide
    name: str | None
    folders: tuple[Path, ...]
    sms: str
    tolerance: float
    html: Path | None
    as_json: bool
    details: bool


def example_sides(gpu: str) -> tuple[ComparedSide, ComparedSide]:
    """The kernel that ships, in its launch and in one of more blocks."""
    before = ComparedSide(str(KERNEL), KERNEL_LAUNCH, gpu, ())
    return before, dataclasses.replace(before, blocks=EXAMPLE_BLOCKS)


def run_compare(options: CompareOptions) -> int:
    """``smlab compare A B``; 1 where B is slower beyond the tolerance, or computes something else."""
    runs = [_kept(side, options) for side in (options.before, options.after)]
    comparison = RunComparison(runs[0], runs[1], options.tolerance)
    if options.html is not None:
        from smlab.commands.kernel_page.html import write_pages
        from smlab.commands.kernel_page.of_comparison import page_of_comparison

        write_pages([page_of_comparison(comparison)], options.html)
        err.print(f"wrote {options.html}", markup=False)
    if options.as_json:
        print_json(comparison.to_dict())
    else:
        print_comparison(comparison, options.details)
    return 1 if comparison.fell_short() else 0


def _kept(side: ComparedSide, options: CompareOptions) -> KeptRun:
    if side.launch is None:
        return read_kept_run(Path(side.what))
    gpu, defines = load_gpu(side.gpu), macros_of(side.defines)
    launch: LaunchFile = read_launch(side.launch, defines)
    if side.blocks is not None:
        launch = dataclasses.replace(launch, grid=(side.blocks, 1, 1))
    begun = time.perf_counter()
    done = run_file(
        side.what,
        launch,
        gpu,
        name=options.name,
        defines=defines,
        folders=options.folders,
        sms=sms_of(options.sms),
        keep=Record.TOTALS,
    )
    told = RealTime.of([(gpu.variants()[0][0], done)], gpu, None)
    arrays = dict(zip(launch.names, launch.arguments, strict=True))
    returned = {name: np.asarray(arrays[name]) for name in launch.returned}
    document = run_document(done, told, time.perf_counter() - begun)
    document |= results_document(done, side.what, returned)
    shape = f"{shape_text(done.launch.grid)} blocks of {shape_text(done.launch.block)}"
    return kept_run(document, f"{Path(side.what).name}, {shape}", side.what, returned)
