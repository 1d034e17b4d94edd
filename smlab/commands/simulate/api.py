"""``smlab.simulate``: a workload on a simulated GPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict, Unpack

from smlab.commands.arguments import a_gpu, a_whole, check_keywords
from smlab.commands.simulate.workload import setting, workload_and_gpu
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim import Kernel, Record, SimResult
from smlab.sim import simulate as simulate_kernel
from smlab.sim.execution.run import run_machine_code
from smlab.sim.isa.launch.launch import MachineLaunch


class SimulateKeywords(TypedDict, total=False):
    """Further keywords of `simulate`."""

    engine: str | None
    policy: str | None
    keep: Record
    max_cycles: int | None
    progress: Callable[[int, int], None] | None


def simulate(
    workload: str | Path | Kernel,
    gpu: str | Path | Gpu = "v100",
    *,
    settings: Mapping[str, object] | Sequence[str] = (),
    seed: int = 0,
    **how: Unpack[SimulateKeywords],
) -> SimResult:
    """Simulate a workload on a GPU, from launch to end.

    Args:
        workload: a built-in one (``atomics``, ``histogram``), a workload file, or a kernel.
        gpu: a name, a description's path or a description.
        settings: keys of the workload, or ``gpu.KEY`` of the GPU, and their values, as ``--set`` has them.
        engine: ``compiled`` (the default) or ``simpy``, the reference; their results are equal.
        policy: the warp scheduler's, instead of the description's: ``glr``, ``gto``, ``gty``, ``lrr`` or
            ``oldest``.
        seed: root of all random numbers.
        keep: how much to record, from totals to every change of a warp's state.
        max_cycles: give up, with an error, when the kernel runs longer.
        progress: told ``(done, total)`` warps.

    Raises:
        SmlabError: what cannot be simulated, or an argument of the wrong type, in one line.
    """
    check_keywords("simulate", how, SimulateKeywords)
    description = a_gpu("gpu", gpu)
    a_whole("seed", seed)
    if how.get("max_cycles") is not None:
        a_whole("max_cycles", how["max_cycles"], 1)
    keep = how.get("keep", Record.ATOMICS)
    if not isinstance(keep, Record):
        raise SmlabError.at("keep", "not a way to record", keep, "a smlab.Record")
    kernel: Kernel | MachineLaunch
    texts = [setting(k, v) for k, v in settings.items()] if isinstance(settings, Mapping) else list(settings)
    if isinstance(workload, Kernel):
        if any(not str(t).startswith("gpu.") for t in texts):
            raise SmlabError.at("settings", "a kernel has no keys to set", texts[0], "gpu.KEY")
        _, description = workload_and_gpu("atomics", texts, description)
        kernel = workload
    elif isinstance(workload, str | os.PathLike):
        kernel, description = workload_and_gpu(os.fsdecode(workload), texts, description)
    else:
        name = type(workload).__name__
        raise SmlabError.at("workload", f"a {name} is no workload", workload, "a name, a file or a Kernel")
    if isinstance(kernel, MachineLaunch):
        return run_machine_code(kernel, description, **how).result
    return simulate_kernel(kernel, description, seed=seed, **how)
