"""``smlab.run``: machine code on a simulated GPU, and arrays changed as a launch would."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from smlab.commands.arguments import a_gpu, a_path, check_keywords
from smlab.commands.run.steady import AUTO, run_until_steady
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.image import KernelImage
from smlab.sim import Record
from smlab.sim.execution.device import as_dim
from smlab.sim.execution.recording import Recording
from smlab.sim.execution.run import MachineRun, run_machine_code
from smlab.sim.isa.launch.kernels import kinds, load_kernel
from smlab.sim.isa.launch.launch import MachineLaunch


class TimingKeywords(TypedDict, total=False):
    """What `run` hands on to `smlab.sim.execution.run.run_machine_code`."""

    sms: int | str
    engine: str | None
    keep: Record
    max_cycles: int | None
    progress: Callable[[int, int], None] | None
    recording: Recording | None


class RunKeywords(TimingKeywords, total=False):
    """Further keywords of `run`."""

    shared_bytes: int
    constants: Mapping[str, Any] | None
    defines: Mapping[str, object] | None
    folders: Sequence[str | Path]
    check_shared: bool


def run(
    kernel: Any,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    *arguments: Any,
    gpu: str | Path | Gpu = "v100",
    name: str | None = None,
    **more: Unpack[RunKeywords],
) -> MachineRun:
    """Execute a kernel's machine code on a simulated GPU; arrays are changed in place, as a launch would.

    What the kernel prints is `MachineRun.printed`.

    Args:
        kernel: a path (``.cubin``, ``.sass`` with encodings, ``.cu``), a Numba kernel or Python function,
        or an image.
        grid: blocks, one to three numbers; ``block`` threads likewise.
        arguments: numpy arrays (C-contiguous) and scalars; Python numbers take the parameter's size.
        gpu: a name, a description's path or a description.
        name: which kernel of a file with several.
        shared_bytes: dynamic shared memory; of a listing, all of it.
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
        recording: writes down what every warp executes (`smlab.sim.execution.recording`).

    Raises:
        SmlabError: what cannot be read, compiled, launched or executed, or a fault of the kernel, in one
        line.
    """
    check_keywords("run", more, RunKeywords)
    description = a_gpu("gpu", gpu)
    macros = {k: str(v) for k, v in (more.get("defines") or {}).items()}
    folders = [a_path("folders", folder) for folder in more.get("folders", ())]
    image = image_of(kernel, description, arguments, name=name, defines=macros, folders=folders)
    shapes = []
    for what, value in (("grid", grid), ("block", block)):
        try:
            shapes.append(as_dim(value))
        except (TypeError, ValueError) as error:
            raise SmlabError.at(what, "not a shape", value, "one to three numbers") from error
    launch = MachineLaunch(
        image,
        shapes[0],
        shapes[1],
        _arguments(image, kernel, arguments),
        dynamic_shared_bytes=more.get("shared_bytes", 0),
        constants={k: np.asarray(v) for k, v in (more.get("constants") or {}).items()},
        check_shared=more.get("check_shared", True),
    )
    timing: Any = {k: v for k, v in more.items() if k in TimingKeywords.__annotations__}
    timing = {"keep": Record.TOTALS, **timing}
    if timing.get("sms") == AUTO:
        del timing["sms"]
        return run_until_steady(launch, description, **timing)
    return run_machine_code(launch, description, **timing)


def image_of(
    kernel: Any,
    gpu: Gpu,
    arguments: tuple[Any, ...],
    *,
    name: str | None,
    defines: Mapping[str, str],
    folders: Sequence[Path] = (),
) -> KernelImage:
    """A kernel's image for a GPU's architecture, read or compiled."""
    if isinstance(kernel, KernelImage):
        return kernel
    if isinstance(kernel, str | os.PathLike):
        text = os.fsdecode(kernel)
        head, colon, function = text.rpartition(":")
        if colon and head.endswith(".py"):
            from smlab.commands.run.numba_kernel import from_file

            return from_file(Path(head), function, gpu.sm_architecture, arguments)
        return load_kernel(Path(text), gpu.sm_architecture, name=name, defines=defines, folders=folders)
    if callable(kernel) or hasattr(kernel, "py_func"):
        from smlab.commands.run.numba_kernel import image_of_function

        return image_of_function(kernel, gpu.sm_architecture, arguments)
    raise SmlabError.at("kernel", f"a {type(kernel).__name__} is no kernel", None, kinds())


def _arguments(image: KernelImage, kernel: Any, arguments: tuple[Any, ...]) -> list[Any]:
    """Arguments as parameters: Python numbers by the size that the parameter has, Numba's arrays as it
    passes them."""
    numba = not isinstance(kernel, str | os.PathLike | KernelImage) or ".py:" in str(kernel)
    if numba:
        from smlab.commands.run.numba_kernel import flattened

        return flattened(image, arguments)
    given: list[Any] = []
    for n, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray | np.generic | bytes):
            given.append(argument)
            continue
        parameters = image.parameters
        size = parameters[n].size if parameters is not None and n < len(parameters) else 4
        if isinstance(argument, bool | int) and size in (1, 2, 4, 8):
            try:
                given.append(int(argument).to_bytes(size, "little", signed=argument < 0))
            except OverflowError:
                raise SmlabError.at(f"argument {n + 1}", "too large", argument, f"{size} bytes") from None
        elif isinstance(argument, float) and size in (4, 8):
            given.append((np.float32 if size == 4 else np.float64)(argument))
        else:
            raise SmlabError.at(
                f"argument {n + 1}", "no argument of a kernel", argument, "an array or a number"
            )
    return given
