"""The second predictor for a profile's kernels: their machine code on both GPUs' descriptions.

Code that was compiled here may not be what the measured compiler makes. If registers or local memory of the
two architectures' code differ, the time is the middle of two readings
(`smlab.models.roofline.compiler_alternatives`).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from smlab.cli.terminal import progress_bar
from smlab.commands.gpu_choice import at_clock
from smlab.commands.project.code import KernelCode
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import cache_folder
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.inputs import read_bytes
from smlab.hw_bench.profiles.work.kernel_work import Floats, KernelWork
from smlab.hw_bench.sass import read_cubin
from smlab.hw_bench.sass.linking import mangled_name, plain_name
from smlab.models.roofline.clock import clock_ratios
from smlab.sim.isa.launch.launch_file import LaunchFile, read_launch
from smlab.validation.projection.machine_code import CodeRun, LaunchData, compiled_otherwise, run_codes


def data_of(path: Path) -> tuple[LaunchFile, LaunchData]:
    """A launch file, and what of it is not the launch's shape."""
    read = read_launch(path)
    key = hashlib.sha256(read_bytes(path)).hexdigest()
    return read, LaunchData(read.arguments, key, read.names, read.constants, read.shared_bytes)


def runs_kept() -> Path:
    """Where the times of what was run are kept."""
    return cache_folder("simulated") / "machine-code.sqlite"


def simulated_seconds(
    work: KernelWork,
    code: KernelCode,
    launch: Path,
    source: Gpu,
    target: Gpu,
    target_clock_hz: float | None = None,
) -> tuple[Floats, str]:
    """Times on ``target`` of the kernels of ``work``, (kernels,), by running their code on both GPUs; and a
    note. A time is NaN if the kernel is another one than the code's, or had another launch than ``launch``.
    ``target_clock_hz`` is the target's clock, where somebody saw it.

    Raises:
        SmlabError: no code for one of the GPUs, code that does not hold one kernel, or no kernel of ``work``
            that is it.
    """
    if target_clock_hz is not None:
        target = at_clock(target, target_clock_hz / 1e6)
    read, data = data_of(launch)
    cubins = [code.cubin(gpu) for gpu in (source, target)]
    names = [f.name for f in read_cubin(cubins[0]).functions]
    fits = [
        [n for n in names if plain_name(str(kernel)) in (n, mangled_name(n))]
        for kernel in work.kernel.tolist()
    ]
    found = {name for some in fits for name in some}
    if len(found) != 1:
        wanted = ", ".join(sorted({plain_name(str(k)) for k in work.kernel}))
        raise SmlabError.at(
            "--simulate", "the code does not hold one kernel of the profile", wanted, str(names)
        )
    (name,) = found
    blocks, threads = (float(np.prod(shape)) for shape in (read.grid, read.block))
    same = np.array([bool(some) for some in fits])
    same &= np.isnan(work.blocks) | (work.blocks == blocks)
    same &= np.isnan(work.threads_per_block) | (work.threads_per_block == threads)
    if not same.any():
        had = f"{work.blocks[0]:g} blocks of {work.threads_per_block[0]:g} threads"
        raise SmlabError.at(f"{launch}: grid, block", "no such launch in the profile", blocks, had)
    runs = [
        CodeRun(cubin, name, read.grid, read.block, gpu)
        for cubin, gpu in zip(cubins, (source, target), strict=True)
    ]
    if code.source is not None and compiled_otherwise(cubins[0], cubins[1], name):
        runs.append(CodeRun(cubins[0], name, read.grid, read.block, target))
    with progress_bar("running machine code") as advance:
        here, there, *as_source = run_codes(runs, data, runs_kept(), advance)
    ratio = there.cycles / here.cycles
    of_measured = float(np.median(here.seconds / work.seconds[same]))
    note = f"machine code of {name}: simulated {of_measured:.2f} of the measured time on {source.name}"
    if as_source:
        other = as_source[0].cycles / here.cycles
        note += f"; the middle of {ratio:.2f} (compiled for {target.name}) and {other:.2f} (as on the source)"
        ratio = float(np.sqrt(ratio * other))
    carried = ratio * clock_ratios(work, source, target, target_clock_hz).in_hz(source, target)
    return np.where(same, work.seconds * carried, np.nan), note
