"""``smlab compare``: run or read two runs, compare, print."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from smlab.cli.options import tolerance_of
from smlab.cli.terminal import err, print_json
from smlab.commands.advise.printing import shape_text
from smlab.commands.arguments import macros_of
from smlab.commands.compare.command import CompareOptions, is_kept
from smlab.commands.compare.comparison import RunComparison
from smlab.commands.compare.kept_run import KeptRun, kept_run, read_kept_run
from smlab.commands.compare.output import print_comparison
from smlab.commands.run.document import results_document, run_document
from smlab.commands.run.real_time import RealTime
from smlab.commands.run.run import run_file, sms_of
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


def sides_of(options: CompareOptions) -> tuple[ComparedSide, ComparedSide]:
    """What is compared: A with B, or with itself under B's options. The example is the kernel that ships, in
    its launch and in one of more blocks."""
    if options.before is None:
        shipped = ComparedSide(str(KERNEL), KERNEL_LAUNCH, options.gpu, ())
        return shipped, dataclasses.replace(shipped, blocks=EXAMPLE_BLOCKS)
    before, after = options.before, options.after or options.before
    shared, own = tuple(options.defines or ()), tuple(options.defines_b or ())
    launch_b = None if is_kept(after) else options.launch_b or options.launch
    return (
        ComparedSide(before, None if is_kept(before) else options.launch, options.gpu, shared),
        ComparedSide(after, launch_b, options.gpu_b or options.gpu, (*shared, *own)),
    )


def run_compare(options: CompareOptions) -> bool:
    """``smlab compare A B``; whether B is slower beyond the tolerance, or computes something else."""
    before, after = (_kept(side, options) for side in sides_of(options))
    comparison = RunComparison(before, after, tolerance_of(options.tolerance))
    if options.html is not None:
        from smlab.commands.kernel_page.html import write_pages
        from smlab.commands.kernel_page.of_comparison import page_of_comparison

        write_pages([page_of_comparison(comparison)], options.html)
        err.print(f"wrote {options.html}", markup=False)
    if options.as_json:
        print_json(comparison.to_dict())
    else:
        print_comparison(comparison, options.details)
    return comparison.fell_short()


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
        folders=tuple(options.include or ()),
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
