"""What a worker does: simulate configurations of a space, each on a part of the grid.

A worker keeps what configurations share: the arrays (which it puts back as they were after each), the
Python object of a kernel, and times by machine code and launch.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from smlab.hw_bench.datasets.tuning import Parameter
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.image import KernelImage
from smlab.hw_bench.sass.nvrtc import CompileAsk, compile_into_cache
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.cuda_c import compile_asked
from smlab.sim.frontends.launching import machine_launch
from smlab.sim.frontends.protocol import KernelSource, LoadedKernel
from smlab.sim.frontends.registry import front_end_of, load, resolved_kernel
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.launch.launch_file import LaunchFile, launch_of
from smlab.sim.isa.memory.global_memory import ContentsBefore
from smlab.sim.reference import Record
from smlab.validation.power_limit import held_by_power
from smlab.validation.tuning.space import TunedKernel

COMPILING: Final = "does not compile"
LAUNCHING: Final = "cannot be launched"
RUNNING: Final = "cannot be executed"
"""Why a configuration has no time: the first word of its reason."""
SMALL_GRID: Final = 2_000_000
"""Warp-instructions of a grid that runs whole: about as many as a sample's."""
KEPT: Final = 64
"""Times by machine code that a worker keeps."""


@dataclass(frozen=True, order=True)
class Sample:
    """How much of a grid is simulated: so many SMs, so many samples; of as many SMs as there are, all."""

    sms: int
    samples: int

    def __str__(self) -> str:
        times = "" if self.samples == 1 else f", {self.samples} times"
        return f"{self.sms} SM{'s' * (self.sms > 1)}{times}"


@dataclass(frozen=True)
class SimulatedTime:
    """A configuration's time with its 95 % interval of sampling, in seconds, or the ``error`` for which it
    has none. ``whole`` says that the whole grid ran: the time has no error of sampling. ``cpu_s`` is what it
    took, ``code`` a digest of the machine code."""

    seconds: float
    low: float
    high: float
    cpu_s: float
    registers: int = 0
    local_bytes: int = 0
    shared_bytes: int = 0
    code: str = ""
    whole: bool = False
    error: str = ""


@dataclass(frozen=True)
class AskedConfiguration:
    """A configuration to simulate: its ``settings``, and ``[launch]`` where it has its own."""

    settings: Mapping[str, Parameter]
    launch: Mapping[str, Any]


@dataclass
class _Prepared:
    """What all configurations share in this worker."""

    kernel: Any
    sets_block: bool
    arguments: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()
    constants: dict[str, Any] = field(default_factory=dict)
    before: ContentsBefore | None = None
    known: dict[Any, tuple[float, float, float, bool]] = field(default_factory=dict)


_PREPARED: dict[str, _Prepared] = {}


def simulate_all(
    kernel: TunedKernel, gpu: Gpu, asked: Sequence[AskedConfiguration], sample: Sample, identity: str
) -> list[SimulatedTime]:
    """The times of some configurations, in their order; what one cannot do is its ``error``. ``identity``
    tells kernels, GPUs and contents of files apart: what a worker keeps is of one."""
    prepared, found = _prepared(kernel, gpu, identity), []
    began = _cpu_s()
    sources = [_source(kernel, prepared, gpu, one) for one in asked]
    if isinstance(prepared.kernel, type(kernel.path)) and kernel.path.suffix == ".cu":
        compile_into_cache([a for s in sources if (a := _ask(s)) is not None])
    for source, one in zip(sources, asked, strict=True):
        found.append(_simulated(kernel, prepared, gpu, _Work(source, one, sample, began)))
        began = _cpu_s()
    return found


@dataclass(frozen=True)
class _Work:
    source: KernelSource
    asked: AskedConfiguration
    sample: Sample
    began_s: float


def _ask(source: KernelSource) -> CompileAsk | None:
    try:
        return compile_asked(source)
    except SmlabError:  # told when its turn comes
        return None


def _prepared(kernel: TunedKernel, gpu: Gpu, identity: str) -> _Prepared:
    key = f"{kernel!r} {identity}"
    if key not in _PREPARED:
        _PREPARED.clear()
        resolved = resolved_kernel(kernel.kernel, gpu.sm_architecture)
        made = _Prepared(resolved, front_end_of(resolved).sets_block)
        rows = {k: v for k, v in kernel.tables.items() if k in ("argument", "constant")}
        file = launch_of(kernel.kernel, {**rows, "launch": {"grid": 1, "block": 1}}, kernel.folder)
        made.arguments, made.names, made.constants = file.arguments, file.names, dict(file.constants)
        _PREPARED[key] = made
    return _PREPARED[key]


def _source(kernel: TunedKernel, prepared: _Prepared, gpu: Gpu, asked: AskedConfiguration) -> KernelSource:
    """What is compiled; of a kernel that is compiled for its launch, without it yet."""
    macros = {} if prepared.sets_block or kernel.is_python else kernel.macros_of(asked.settings)
    options = {"flags": kernel.flags} if kernel.flags and not kernel.is_python else {}
    return KernelSource(
        prepared.kernel, gpu.sm_architecture, kernel.name, macros, kernel.folders, options=options
    )


def _simulated(kernel: TunedKernel, prepared: _Prepared, gpu: Gpu, work: _Work) -> SimulatedTime:
    stage = LAUNCHING
    try:
        file = _launch_file(kernel, prepared, work.asked)
        source = work.source
        if prepared.sets_block:
            source = KernelSource(
                source.kernel,
                source.architecture,
                source.name,
                grid=file.grid,
                arguments=prepared.arguments,
                options={**file.options, **work.asked.settings},
            )
        stage = COMPILING
        loaded = load(source)
        stage = LAUNCHING
        launch = _launch(prepared, loaded, file)
        stage = RUNNING
        return _timed(prepared, launch, gpu, work)
    except SmlabError as error:
        nan = float("nan")
        return SimulatedTime(nan, nan, nan, _cpu_s() - work.began_s, error=f"{stage}: {error}")


def _launch_file(kernel: TunedKernel, prepared: _Prepared, asked: AskedConfiguration) -> LaunchFile:
    options = {"options": kernel.tables["options"]} if "options" in kernel.tables else {}
    macros = {**kernel.defines, **asked.settings}
    launch = dict(asked.launch)
    if prepared.sets_block:
        options.setdefault("options", {})
        launch.pop("block", None)
        options["options"] = {**options["options"], **asked.settings}
    return launch_of(kernel.kernel, {"launch": launch, **options}, kernel.folder, macros)


def _launch(prepared: _Prepared, loaded: LoadedKernel, file: LaunchFile) -> MachineLaunch:
    image, arguments, names = loaded.image, prepared.arguments, prepared.names
    symbols = {symbol.name for symbol in image.symbols}
    constants = {name: value for name, value in prepared.constants.items() if name in symbols}
    if image.parameters is not None and len(image.parameters) < len(arguments):
        # A tuner fills a __constant__ variable by an argument that the kernel may not have.
        kept = [n for n, name in enumerate(names) if name not in prepared.constants]
        arguments, names = (tuple(column[n] for n in kept) for column in (arguments, names))
    more = {"shared_bytes": file.shared_bytes, "constants": constants, "names": names, "check_shared": False}
    return machine_launch(loaded, file.grid, file.threads, arguments, more)


def _timed(prepared: _Prepared, launch: MachineLaunch, gpu: Gpu, work: _Work) -> SimulatedTime:
    code = _code(launch.image)
    key = (code, launch.grid, launch.block, launch.shared_bytes, work.sample, repr(work.asked.launch))
    if key in prepared.known:
        seconds, low, high, whole = prepared.known[key]
    else:
        # Of a launch whose arrays are its own (Triton's), nothing is kept from one to the next.
        own = ContentsBefore(launch.allocations, prepared.before)
        prepared.before = own
        try:
            run = run_machine_code(
                launch,
                gpu,
                sms=min(work.sample.sms, gpu.integer("gpu.sms")),
                samples=work.sample.samples,
                whole_up_to=SMALL_GRID,
                keep=Record.TOTALS,
                threads=1,
                before=own,
            )
        except BaseException:
            own.go_back()
            raise
        if run.whole:
            own.go_back()
        seconds = run.seconds * held_by_power(run, gpu).slowdown
        hz, whole = run.cycles / seconds, run.whole
        low, high = run.cycles_low / hz, run.cycles_high / hz
        while len(prepared.known) >= KEPT:
            prepared.known.pop(next(iter(prepared.known)))
        prepared.known[key] = seconds, low, high, whole
    return SimulatedTime(
        seconds,
        low,
        high,
        _cpu_s() - work.began_s,
        launch.image.registers,
        launch.local_bytes,
        launch.shared_bytes,
        code,
        whole,
    )


def _code(image: KernelImage) -> str:
    """A digest of a kernel's instructions with all that they read besides arguments."""
    told = tuple((i.address, i.words, str(i)) for i in image.function.instructions)
    rest = (image.registers, image.shared_bytes, image.local_bytes, sorted(image.banks.items()))
    return hashlib.sha256(repr((told, rest)).encode()).hexdigest()[:16]


def _cpu_s() -> float:
    """Processor time of this process and its children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
