"""Triton's driver for a GPU that is simulated.

Triton itself chooses types, compiles, and launches; of its driver it asks what the GPU is, and to launch.
This driver hands each launch to a function. Nothing of CUDA is loaded, and no PyTorch is needed.

It goes by what Triton 3.3 to 3.9 ask of a driver. The places that differ are `_handles` (how many numbers a
loaded kernel has) and the state of `triton.runtime.driver`, which is kept and put back whole.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import cache_folder
from smlab.hw_bench.sass.image import compiled_resources
from smlab.sim.frontends.host_arrays import ArgumentMemory, NamedArray, ToldPointers, is_array
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.frontends.protocol import LoadedKernel
from smlab.sim.isa.launch.launch import Dim
from smlab.sim.isa.launch.tensor_map import ELEMENT_TYPES, SPANS, TensorMap
from smlab.sim.isa.memory.global_memory import GlobalMemory

CACHE: Final = "TRITON_CACHE_DIR"
MAX_THREADS: Final = 1024
_FLOATS: Final = {2: "float16", 4: "float32", 8: "float64"}
DESCRIPTOR: Final = "tensordesc"
"""How the type of a descriptor that the script makes begins (`triton.tools.tensor_descriptor`)."""
_REFUSED_DESCRIPTORS: Final = (
    ("fp4_padded", "numbers of 4 bits"),
    ("is_im2col", "images as columns"),
)
_DEVICES: Final[dict[str, int]] = {}
"""A number for each simulated GPU: Triton keeps what it compiled by the number of the device."""


@dataclass(frozen=True)
class TritonTarget:
    """What Triton asks of a GPU: its architecture (``sm_80``) and properties by Triton's names."""

    name: str
    architecture: str
    properties: Mapping[str, int]

    @property
    def capability(self) -> int:
        return int("".join(c for c in self.architecture if c.isdigit()))

    @property
    def device(self) -> int:
        return _DEVICES.setdefault(f"{self.name} {self.architecture} {self.properties}", len(_DEVICES))


@dataclass(frozen=True)
class LoadedBinary:
    """A cubin that Triton has loaded, which it takes for a function of CUDA's."""

    name: str
    content: bytes


Launched = Callable[[LoadedKernel], float]
"""What is done with a launch; gives its seconds."""


class SimulatedDriver:
    """What `triton.runtime.driver.active` is while a simulated GPU stands in for one.

    ``memory`` is what launches follow each other on, and ``flush`` empties its L2; by default each launch has
    a memory of its own. While a script captures a CUDA graph, ``captured`` has its launches instead, to be
    called when the graph is replayed.
    """

    def __init__(
        self,
        target: TritonTarget,
        launched: Launched,
        memory: GlobalMemory | None = None,
        *,
        tune: bool = False,
        flush: Callable[[], None] | None = None,
    ) -> None:
        self.target = target
        self.launched = launched
        self._memory = memory
        self._flush = flush
        self.chosen: dict[int, dict[Any, Any]] = {}
        self.tune = tune
        self.seconds = 0.0
        self.launches = 0
        self.fits = False
        self.dry = False
        self.captured: list[Callable[[], object]] | None = None
        self.pointers = ToldPointers()
        self.launcher_cls = SimulatedLauncher
        self.utils = SimpleNamespace(
            load_binary=_loaded, unload_module=_nothing, get_device_properties=self._properties
        )

    def _properties(self, device: Any = None) -> dict[str, int]:
        return dict(self.target.properties)

    def memory(self) -> GlobalMemory:
        """The memory of the next launch."""
        return GlobalMemory() if self._memory is None else self._memory.after()

    def pointer_to(self, tensor: Any) -> int:
        """The simulated address of a tensor, for a script that asks for it."""
        return self.pointers.tell(tensor, self.memory())

    def launch(self, kernel: LoadedKernel) -> None:
        self.launches += 1
        if not self.dry:
            self.seconds += self.launched(kernel)

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.target.capability, 32)

    def get_current_device(self) -> int:
        return self.target.device

    def set_current_device(self, device: int) -> None:
        """There is one."""

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        major, minor = divmod(self.target.capability, 10)
        return major, minor

    def get_active_torch_device(self) -> Any:
        """What the tensors of a simulated GPU say of themselves; they lie on the CPU."""
        import torch

        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        return SimpleNamespace(
            synchronize=_nothing,
            current_device=self.get_current_device,
            Event=lambda **_: SimulatedEvent(self),
        )

    def get_benchmarker(self) -> Callable[..., Any]:
        return benchmarked

    def get_empty_cache_for_benchmark(self) -> Any:
        return None

    def clear_cache(self, cache: Any = None) -> None:
        """The next launch finds the caches empty."""
        if self._flush is not None:
            self._flush()

    def map_python_to_cpp_type(self, kind: str) -> str:
        return "CUdeviceptr" if kind.startswith("*") else kind

    @classmethod
    def is_active(cls) -> bool:
        return True


class SimulatedEvent:
    """A moment on the simulated GPU's clock, as Triton's own measurements ask for."""

    def __init__(self, driver: SimulatedDriver) -> None:
        self.driver, self.seconds = driver, driver.seconds

    def record(self) -> None:
        self.seconds = self.driver.seconds

    def synchronize(self) -> None:
        """Launches have ended when they return."""

    def elapsed_time(self, end: SimulatedEvent) -> float:
        """Milliseconds."""
        return (end.seconds - self.seconds) * 1e3


def benchmarked(call: Callable[[], object], *_: Any, quantiles: Any = None, **more: Any) -> Any:
    """What an autotuner asks of a configuration: how long it takes, in ms. Without tuning nothing is run: the
    first one that the GPU has room for is as good as any, and no other is. Nor is what launches nothing."""
    driver = _active()
    if driver.tune:
        return measured(call, quantiles=quantiles)
    milliseconds = float("inf")
    if not driver.fits:
        launches, driver.dry = driver.launches, True
        try:
            call()  # it is compiled; too much shared memory is an error, which the autotuner knows
        finally:
            driver.dry = False
        if driver.launches > launches:
            driver.fits, milliseconds = True, 1.0
    return milliseconds if quantiles is None else [milliseconds] * len(quantiles)


def begin_choice() -> None:
    """The configurations that follow are another kernel's."""
    _active().fits = False


def measured(call: Callable[[], object], *_: Any, quantiles: Any = None, **more: Any) -> Any:
    """In place of `triton.testing.do_bench`: how long a call's launches take, in ms, from one call, as every
    run of a simulation takes the same time. It begins with empty caches, as Triton's does. What launches
    nothing has no time here."""
    driver = _active()
    seconds, launches = driver.seconds, driver.launches
    driver.clear_cache()
    call()
    milliseconds = (driver.seconds - seconds) * 1e3 if driver.launches > launches else float("nan")
    return milliseconds if quantiles is None else [milliseconds] * len(quantiles)


def _active() -> SimulatedDriver:
    from triton.runtime import driver

    active = driver.active
    if not isinstance(active, SimulatedDriver):
        raise SmlabError("a kernel of a simulated GPU was launched outside of `with smlab.simulated(...)`")
    return active


def _nothing(*_: Any) -> None:
    return None


@cache
def _handles() -> int:
    """How many numbers this Triton takes of a loaded kernel: later releases the threads of a block as well.

    Those releases also unload a kernel when it goes, by the driver of that time, which may be none: what was
    loaded here is left out from then on.
    """
    from triton.compiler import CompiledKernel

    unload = getattr(CompiledKernel, "__del__", None)
    if unload is not None:

        def unload_others(kernel: Any, ours: type = LoadedBinary) -> None:
            if not isinstance(getattr(kernel, "module", None), ours):
                unload(kernel)

        CompiledKernel.__del__ = unload_others
    return 5 if "n_max_threads" in inspect.getsource(CompiledKernel) else 4


def _loaded(name: str, content: bytes, shared_bytes: int, device: Any) -> tuple[Any, ...]:
    """Module, function, registers, spilled bytes, and threads that a block may have."""
    of_kernel = compiled_resources(content, name).get(name)
    registers, local = (of_kernel.registers, of_kernel.local_bytes) if of_kernel else (0, 0)
    binary = LoadedBinary(name, content)
    return (binary, binary, registers, local, MAX_THREADS)[: _handles()]


class SimulatedLauncher:
    """Launches one kernel; Triton makes it from what it compiled."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self.metadata = metadata
        self.kinds = tuple(source.signature.values())
        self.names = tuple(source.signature)

    def __call__(self, x: int, y: int, z: int, stream: Any, function: LoadedBinary, *more: Any) -> None:
        if min(x, y, z) < 1:
            return
        captured = _active().captured
        if captured is not None:
            captured.append(partial(self._launch, (x, y, z), function, more))
        else:
            self._launch((x, y, z), function, more)

    def _launch(self, grid: Dim, function: LoadedBinary, more: tuple[Any, ...]) -> None:
        _, launch_metadata, enter, leave, *arguments = more
        if enter is not None:
            enter(launch_metadata)
        kernel = self.kernel(function, grid, arguments)
        _active().launch(kernel)
        if leave is not None:
            leave(launch_metadata)

    def kernel(self, function: LoadedBinary, grid: Dim, arguments: list[Any]) -> LoadedKernel:
        """The launch as machine code takes it.

        Raises:
            SmlabError: an argument that has no counterpart here.
        """
        where, told = function.name, self.metadata
        in_cluster = int(getattr(told, "num_ctas", 1))  # blocks that work on one program of the grid
        grid = (grid[0] * in_cluster, *grid[1:])
        image = from_cubin(function.content, function.name, where)
        memory = ArgumentMemory(_active().memory())
        parameters = image.parameters or ()
        descriptors = iter(getattr(told, "tensordesc_meta", None) or ())
        given = [
            one
            for name, kind, value in zip(self.names, self.kinds, arguments, strict=True)
            for one in _flat(where, name, kind, value, descriptors, memory)
        ]
        # Triton's own launcher passes pointers to scratch memory behind them, one or two by its release.
        scratch = ("global_scratch", "profile_scratch")
        for name in scratch[: max(len(parameters) - len(given), 0)]:
            size = getattr(told, f"{name}_size", 0) * grid[0] * grid[1] * grid[2]
            given.append((name, "*i8", memory.zeros(name, size) if size else 0))
        if len(given) != len(parameters):
            raise SmlabError.at(where, "wrong number of arguments", len(given), f"{len(parameters)}")
        packed = [
            _packed(f"{where}: {name}", kind, value, parameter.size, memory)
            for (name, kind, value), parameter in zip(given, parameters, strict=True)
        ]
        for name, kind, value in given:
            memory.reach(f"{where}: {name}", _possible_pointers(kind, value), _active().pointers)
        return LoadedKernel(
            image,
            packed,
            names=tuple(name for name, _, _ in given),
            block=(32 * told.num_warps, 1, 1),
            grid=grid,
            cluster=(in_cluster, 1, 1) if in_cluster > 1 else None,
            shared_bytes=max(told.shared - image.shared_bytes, 0),
            memory=memory.memory,
        )


def _flat(
    where: str,
    name: str,
    kind: Any,
    value: Any,
    descriptors: Iterator[Mapping[str, Any]],
    memory: ArgumentMemory,
) -> Iterator[tuple[str, str, Any]]:
    """An argument as parameters: a tuple as its parts, a descriptor as what it consists of (``descriptors``
    are what the compiler decided of each), and none for what is compiled in."""
    if isinstance(kind, tuple | list):
        for n, (inner, part) in enumerate(zip(kind, value, strict=True)):
            yield from _flat(where, f"{name}[{n}]", inner, part, descriptors, memory)
    elif str(kind).startswith(DESCRIPTOR):
        yield from descriptor_parameters(where, name, value, next(descriptors, None), memory)
    elif kind == "nvTmaDesc":
        found = "a tensor map made by the host is not simulated"
        raise SmlabError.at(f"{where}: {name}", found, None, "a TensorDescriptor")
    elif kind != "constexpr":
        yield name, str(kind), value


def descriptor_parameters(
    where: str, name: str, descriptor: Any, compiled: Mapping[str, Any] | None, memory: ArgumentMemory
) -> Iterator[tuple[str, str, Any]]:
    """The parameters of one descriptor: name, kind and value of each. On a GPU with a copy engine these are a
    tensor map, shape and strides; on others a pointer, shape and strides twice, and flags. ``compiled`` is
    what the compiler decided of its copies; None where they are plain loads and stores.

    Raises:
        SmlabError: a descriptor that is not simulated, by what it has.
    """
    if compiled is None:
        for n, value in enumerate(_decomposed(descriptor)):
            yield f"{name}[{n}]", "i64" if n else "*i8", value
        return
    refused = [what for key, what in _REFUSED_DESCRIPTORS if compiled.get(key)]
    if descriptor.padding == "nan":
        refused.append("NaN for what lies outside")
    if getattr(descriptor, "round_f32_to_tf32", False):
        refused.append("copies that round to TF32")
    if refused:
        raise SmlabError.at(f"{where}: {name}", "a tensor descriptor that is not simulated", refused[0])
    size = int(compiled["elem_size"])
    *outer, _ = (int(stride) for stride in descriptor.strides)
    made = TensorMap(
        array=np.empty(0, dtype=np.uint8),
        shape=tuple(int(n) for n in reversed(descriptor.shape)),
        box=tuple(int(n) for n in reversed(compiled["block_size"])),
        strides_bytes=tuple(size * stride for stride in reversed(outer)),
        swizzle=list(SPANS)[compiled["swizzle"]],
    )
    content = made.content(
        memory.address_of(f"{where}: {name}", descriptor.base), ELEMENT_TYPES[compiled["elem_type"]]
    )
    yield name, "nvTmaDesc", content
    for n, value in enumerate((*descriptor.shape, *descriptor.strides)):
        yield f"{name}[{n}]", "i64", int(value)


def _decomposed(descriptor: Any) -> list[Any]:
    """What this release of Triton passes for a descriptor without a copy engine."""
    try:
        from triton.backends.driver import decompose_descriptor
    except ImportError:  # before 3.7
        own, strides = descriptor.shape, descriptor.strides
        return [descriptor.base, *own, *strides, descriptor.padding == "nan", *own, *strides]
    found: list[Any] = decompose_descriptor(descriptor)
    return found


def _possible_pointers(kind: str, value: Any) -> NDArray[np.int64]:
    """Words of an argument that may be pointers: whole numbers of 64 bits, and those of a tensor of them."""
    if isinstance(value, int):
        return np.array([value & (1 << 63) - 1], np.int64)
    if kind not in ("*i64", "*u64") or not hasattr(value, "untyped_storage"):
        return np.zeros(0, np.int64)
    found: NDArray[np.int64] = value.detach().reshape(-1).numpy().view(np.int64)
    return found


def _packed(where: str, kind: str, value: Any, size: int, memory: ArgumentMemory) -> bytes:
    """The bytes of a parameter."""
    if isinstance(value, bytes):
        return value
    if kind.startswith("*"):
        if value is None:
            address = 0
        elif is_array(value) or isinstance(value, NamedArray) or hasattr(value, "base"):
            address = memory.address_of(where, value)
        elif isinstance(value, int):
            address = value
        else:
            raise SmlabError.at(where, "no pointer", value, "an array, a tensor on the CPU or an address")
        return address.to_bytes(8, "little")
    try:
        if kind == "bf16":
            return bytes(np.float32(value).tobytes()[2:].ljust(size, b"\0"))
        if kind.startswith("f"):
            return bytes(np.array(value, dtype=_FLOATS[size]).tobytes())
        return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    except (TypeError, ValueError, KeyError) as error:
        raise SmlabError.at(where, f"no {kind}", value) from error


@contextmanager
def driving(driver: SimulatedDriver) -> Iterator[None]:
    """Have Triton launch by this driver: `kernel[grid](...)` takes arrays of NumPy as well. Everything is put
    back at the end.

    Raises:
        SmlabError: Triton cannot be imported.
    """
    stop = start(driver)
    try:
        yield
    finally:
        stop()


def start(driver: SimulatedDriver) -> Callable[[], None]:
    """The same without an end; gives what ends it."""
    try:
        import triton.testing
        from triton.runtime import driver as config
        from triton.runtime.jit import JITFunction, KernelInterface
    except ImportError as error:
        raise SmlabError(f"Triton cannot be imported ({error}): pip install 'smlab[triton]'") from error
    state, item, measure = dict(vars(config)), KernelInterface.__getitem__, triton.testing.do_bench
    warmup = JITFunction.warmup
    folder = os.environ.get(CACHE)
    if folder is None:
        os.environ[CACHE] = str(cache_folder("triton"))

    def with_arrays(kernel: Any, grid: Any) -> Callable[..., Any]:
        launch = item(kernel, grid)

        def call(*arguments: Any, **options: Any) -> Any:
            given = [_named(one) for one in arguments]
            told = {name: _named(one) for name, one in options.items()}
            tuner = _autotuner(kernel)
            if tuner is None:
                return launch(*given, **told)
            begin_choice()
            own = {"cache": driver.chosen.setdefault(id(tuner), {}), "cache_results": False}
            with ExitStack() as ends:
                for name, value in own.items():  # what it chose on a GPU before counts no more than a file
                    if hasattr(tuner, name):
                        ends.enter_context(patch.object(tuner, name, value))
                return launch(*given, **told)

        return call

    def with_named(kernel: Any, *arguments: Any, **options: Any) -> Any:
        return warmup(kernel, *(_named(one) for one in arguments), **options)

    config.set_active(driver)
    KernelInterface.__getitem__ = with_arrays
    triton.testing.do_bench = measured
    JITFunction.warmup = with_named

    def stop() -> None:
        vars(config).clear()
        vars(config).update(state)
        KernelInterface.__getitem__ = item
        triton.testing.do_bench = measure
        JITFunction.warmup = warmup
        if folder is None:
            with suppress(KeyError):
                del os.environ[CACHE]

    return stop


def _autotuner(kernel: Any) -> Any:
    """The autotuner of a kernel, which heuristics may lie around; None without one."""
    while kernel is not None and not hasattr(kernel, "configs"):
        kernel = getattr(kernel, "fn", None)
    return kernel


def _named(value: Any) -> Any:
    """An argument as Triton takes it: arrays with a tensor's names, numbers of NumPy as Python's, which it
    would take for tensors."""
    if isinstance(value, np.ndarray):
        return NamedArray(value)
    if isinstance(value, np.generic):
        return value.item()
    return value
