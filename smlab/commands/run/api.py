"""``smlab.run``: machine code on a simulated GPU, and arrays changed as a launch would."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from smlab.commands.arguments import a_gpu, a_path, check_keywords
from smlab.commands.run.steady import AUTO, run_until_steady
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.image import KernelImage
from smlab.sim import Record
from smlab.sim.execution.recording import Recording
from smlab.sim.execution.run import MachineRun, run_machine_code
from smlab.sim.frontends.launching import machine_launch
from smlab.sim.frontends.protocol import KernelSource
from smlab.sim.frontends.registry import front_end_of, load, resolved_kernel
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.memory.global_memory import GlobalMemory


class TimingKeywords(TypedDict, total=False):
    """What `run` hands on to `smlab.sim.execution.run.run_machine_code`."""

    sms: int | str
    engine: str | None
    keep: Record
    max_cycles: int | None
    progress: Callable[[int, int], None] | None
    recording: Recording | None
    threads: int | None


class RunKeywords(TimingKeywords, total=False):
    """Further keywords of `run`."""

    block: int | tuple[int, ...] | None
    shared_bytes: int
    cluster: int | tuple[int, ...] | None
    constants: Mapping[str, Any] | None
    defines: Mapping[str, object] | None
    folders: Sequence[str | Path]
    check_shared: bool
    options: Mapping[str, Any] | None


def run(
    kernel: Any,
    grid: Any,
    *arguments: Any,
    gpu: str | Path | Gpu = "v100",
    name: str | None = None,
    **more: Any,
) -> MachineRun:
    """Execute a kernel's machine code on a simulated GPU; arrays are changed in place, as a launch would.

    What the kernel prints is `MachineRun.printed`.

    Args:
        kernel: a path (a binary, ``.sass`` with encodings, ``.ptx``, ``.cu``, ``file.py:kernel``), a kernel
        of Triton, CuPy or Numba, a Python function, or an image.
        grid: blocks, one to three numbers; of Triton also a function of the meta-parameters.
        arguments: first the threads of a block, one to three numbers, unless the kernel tells them itself
        (Triton) or ``block`` is given; then numpy arrays (C-contiguous) and scalars. Python numbers take the
        parameter's size.
        gpu: a name, a description's path or a description.
        name: which kernel of a file with several.
        shared_bytes: dynamic shared memory; of a listing, all of it.
        cluster: blocks of a cluster, of a kernel that was compiled for clusters of any shape.
        constants: contents of ``__constant__`` variables.
        defines: macros of CUDA C.
        folders: where its headers are, besides its own folder.
        sms: how many SMs run, ``all``, or ``auto`` (as many as it takes; what comes back is a
        `smlab.commands.run.steady.SteadyRun`); see `smlab.sim.execution.run.run_machine_code`.
        engine: ``compiled`` (the default) or ``simpy``.
        keep: how much to record.
        max_cycles: give up, with an error, when the kernel runs longer.
        check_shared: say in `MachineRun.notes` where shared memory is read that nobody has written.
        progress: told ``(done, total)`` blocks.
        threads: on how many the SMs are simulated, by default as many as there are processors; a kernel whose
        SMs must run in order takes one, and says so in the log. The result is the same.
        recording: writes down what every warp executes (`smlab.sim.execution.recording`).
        block: the threads of a block, in place of the first argument.
        options: what the kernel's front end takes: of Triton, meta-parameters, ``num_warps``, ``num_stages``
        and ``config``, the number of an autotuner's configuration. Keywords of no other meaning are options.

    Raises:
        SmlabError: what cannot be read, compiled, launched or executed, or a fault of the kernel, in one
        line.
    """
    description = a_gpu("gpu", gpu)
    launch, timing = prepared(KernelCall(kernel, grid, arguments, description, name), more)
    return timed(launch, description, timing)


@dataclass(frozen=True)
class KernelCall:
    """What a call of `run` names: a kernel, its grid and arguments, a GPU, and which kernel of a file."""

    kernel: Any
    grid: Any
    arguments: tuple[Any, ...]
    gpu: Gpu
    name: str | None = None


def prepared(
    call: KernelCall, more: Mapping[str, Any], memory: GlobalMemory | None = None
) -> tuple[MachineLaunch, dict[str, Any]]:
    """The launch of a call with further keywords of `run`, in ``memory``, and the keywords that say how it is
    timed.

    Raises:
        SmlabError: what cannot be read, compiled or launched.
    """
    more, memory = dict(more), GlobalMemory() if memory is None else memory
    kernel = resolved_kernel(call.kernel, call.gpu.sm_architecture)
    sets_block = not isinstance(kernel, KernelImage) and front_end_of(kernel).sets_block
    options = dict(more.pop("options", None) or {})
    if sets_block:
        options |= {key: more.pop(key) for key in [*more] if key not in RunKeywords.__annotations__}
    check_keywords("run", more, RunKeywords)
    block, arguments = _block_of(more, call.arguments, sets_block)
    source = KernelSource(
        kernel,
        call.gpu.sm_architecture,
        call.name,
        {k: str(v) for k, v in (more.get("defines") or {}).items()},
        [a_path("folders", folder) for folder in more.get("folders", ())],
        call.grid,
        arguments,
        options,
        memory,
    )
    launch = machine_launch(load(source), call.grid, block, arguments, {**more, "memory": memory})
    return launch, {k: v for k, v in more.items() if k in TimingKeywords.__annotations__}


def timed(launch: MachineLaunch, gpu: Gpu, timing: Mapping[str, Any]) -> MachineRun:
    """Run a launch on as many SMs as ``timing`` says, ``auto`` included."""
    how: Any = {"keep": Record.TOTALS, **timing}
    if how.get("sms") == AUTO:
        del how["sms"]
        return run_until_steady(launch, gpu, **how)
    return run_machine_code(launch, gpu, **how)


def _block_of(
    more: Mapping[str, Any], arguments: tuple[Any, ...], sets_block: bool
) -> tuple[Any, tuple[Any, ...]]:
    """The threads that a call gives, and the kernel's arguments."""
    block = more.get("block")
    if sets_block and block is not None:
        expected = "no block; the option num_warps says how many threads"
        raise SmlabError.at("block", "this kernel tells its threads itself", block, expected)
    if sets_block or "block" in more:
        return block, arguments
    if not arguments:
        raise SmlabError.at("block", "is missing", None, "the threads of a block behind the grid")
    return arguments[0], arguments[1:]
