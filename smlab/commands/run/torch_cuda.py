"""PyTorch while a simulated GPU stands in for a real one.

Every tensor lies on the CPU, wherever CUDA is asked for, and says that it lies on ``cuda:0``. What scripts
and libraries ask of ``torch.cuda`` (is there a GPU, which, what can it do, which stream) is answered for the
simulated GPU.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache, wraps
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from smlab.commands.run.torch_compile import (
    DEVICE,
    autocast_on_cpu,
    compiled_for_simulated_gpu,
    is_tracing,
    on,
)
from smlab.commands.run.torch_graphs import graph_answers
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim.frontends.triton_driver import SimulatedDriver, SimulatedEvent

_FIRST_WITH_BFLOAT16: Final = 8
_LANES: Final = 32


@contextmanager
def torch_on_simulated_gpu(gpu: Gpu, driver: SimulatedDriver | None, left: Counter[str]) -> Iterator[None]:
    """PyTorch's CUDA is ``gpu`` until the context ends; ``driver`` keeps its clock (None without Triton).
    ``left`` counts what compiled functions leave to PyTorch."""
    import torch

    answers = _answers(gpu, driver)
    compile = torch.compile
    with ExitStack() as ends:
        mode = _mode(ends, driver)

        @cache
        def prepare() -> None:
            try:
                ends.enter_context(compiled_for_simulated_gpu(answers, type(mode), left))
            except (ImportError, AttributeError) as error:
                found = f"does not compile for a simulated GPU ({error})"
                raise SmlabError.at("torch.compile", found, torch.__version__, "PyTorch 2.13") from error

        def compiling(*arguments: Any, **how: Any) -> Any:
            prepare()
            return compile(*arguments, **how)

        if driver is not None and "torch._dynamo" in sys.modules:  # what was compiled before is compiled anew
            try:
                prepare()
            except SmlabError as error:  # a script that compiles nothing has no need of it
                warnings.warn(str(error), stacklevel=2)
        for name, answer in answers.items():
            ends.enter_context(patch.object(torch.cuda, name, answer, create=True))
            if hasattr(torch.cuda.graphs, name):
                ends.enter_context(patch.object(torch.cuda.graphs, name, answer))
        default = torch.set_default_device
        ends.enter_context(patch.object(torch, "set_default_device", lambda one: default(on("cpu", one))))
        ends.enter_context(patch.object(torch, "Generator", _generator()))
        backward = torch.autograd.function.BackwardCFunction
        for name in ("apply", "apply_boxed"):
            if hasattr(backward, name):
                ends.enter_context(
                    patch.object(backward, name, _in_mode(type(mode), getattr(backward, name)))
                )
        ends.enter_context(patch.object(torch.amp.autocast_mode.autocast, "__init__", _autocast_begun()))
        if driver is not None:
            ends.enter_context(patch.object(torch, "compile", compiling))
        ends.enter_context(mode)
        yield


def _autocast_begun() -> Callable[..., None]:
    """What begins ``torch.autocast``: CUDA's is the CPU's."""
    import torch

    begin: Callable[..., None] = torch.amp.autocast_mode.autocast.__init__

    @wraps(begin)
    def begun(self: Any, device_type: str, dtype: Any = None, *more: Any, **how: Any) -> None:
        begin(self, *autocast_on_cpu(device_type, dtype), *more, **how)

    return begun


def _in_mode(mode: Callable[[], Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a script's that PyTorch calls where no mode is in force, with the mode in force."""

    @wraps(function)
    def called(*arguments: Any, **options: Any) -> Any:
        with nullcontext() if is_tracing() else mode():
            return function(*arguments, **options)

    called.in_mode = True  # type: ignore[attr-defined]
    return called


def _generator() -> Any:
    """The class of generators of random numbers, which make the CPU's for CUDA as well."""
    import torch

    class Others(type(torch._C.Generator)):  # type: ignore[misc,unused-ignore]
        def __instancecheck__(cls, one: Any) -> bool:
            return isinstance(one, torch._C.Generator)

    class Generator(torch._C.Generator, metaclass=Others):  # type: ignore[misc,unused-ignore]
        device = property(lambda self: torch.device(self.kind))

        def __new__(cls, device: Any = "cpu") -> Any:
            made = super().__new__(cls, on("cpu", torch.device(device)))
            made.kind = device
            return made

    return Generator


def _mode(ends: ExitStack, driver: SimulatedDriver | None) -> Any:
    """A mode in which PyTorch's functions take the CPU for CUDA, and tensors say the contrary. When ``ends``
    ends, what it changed is as before."""
    import torch
    from torch.overrides import TorchFunctionMode

    tensor = torch.Tensor
    is_cpu, is_cuda, device = tensor.is_cpu.__get__, tensor.is_cuda.__get__, tensor.device.__get__
    instead: dict[Any, Callable[..., Any]] = {
        tensor.cuda: lambda one, *_, **__: one,
        tensor.pin_memory: lambda one, *_, **__: one,
        tensor.record_stream: lambda *_: None,
        tensor.get_device: lambda _: DEVICE[1],
        tensor.is_cuda.__get__: lambda one: is_cpu(one) or is_cuda(one),
        tensor.is_cpu.__get__: lambda _: False,
        tensor.device.__get__: lambda one: torch.device(*DEVICE) if is_cpu(one) else device(one),
        **{
            product: _with_wider_sums(product)
            for product in (torch.mm, torch.bmm, torch.addmm, torch.baddbmm)
        },
    }

    if driver is not None:
        place = tensor.data_ptr
        instead[place] = lambda one: driver.pointer_to(one) if is_cpu(one) and place(one) else place(one)

    class EverythingOnCpu(TorchFunctionMode):  # type: ignore[misc,unused-ignore]
        def __torch_function__(
            self, function: Any, types: Any, arguments: Any = (), options: Any = None
        ) -> Any:
            if is_tracing():
                return function(*arguments, **(options or {}))
            if function is torch.device:  # what a script asks for, until a function takes it
                return function(*arguments, **(options or {}))
            if isinstance(function, torch._ops.OpOverload):
                _of_a_script(function, EverythingOnCpu, ends)
            named = {name: on("cpu", value) for name, value in (options or {}).items()}
            return instead.get(function, function)(*(on("cpu", value) for value in arguments), **named)

    return EverythingOnCpu()


def _of_a_script(operator: Any, mode: Callable[[], Any], ends: ExitStack) -> None:
    """Call an operator that a script has made of Python functions (``torch.library.custom_op``) so that they
    are in the mode as well."""
    from torch._library.custom_ops import OPDEFS

    made = OPDEFS.get(operator._schema.name)
    for device, function in list(made._backend_fns.items()) if made is not None else ():
        if not hasattr(function, "in_mode"):
            ends.enter_context(patch.dict(made._backend_fns, {device: _in_mode(mode, function)}))


def _with_wider_sums(product: Callable[..., Any]) -> Callable[..., Any]:
    """A product whose result has another type than its factors (``out_dtype``), which PyTorch's CPU has not:
    their numbers fit the wider type."""
    import torch

    def wide(*arguments: Any, out_dtype: Any = None, **named: Any) -> Any:
        if arguments and isinstance(arguments[-1], torch.dtype):
            *arguments, out_dtype = arguments  # type: ignore[assignment]
        if out_dtype is not None:
            arguments = tuple(x.to(out_dtype) if torch.is_tensor(x) else x for x in arguments)
        return product(*arguments, **named)

    return wide


def _answers(gpu: Gpu, driver: SimulatedDriver | None) -> dict[str, Any]:
    """What takes the place of the functions of ``torch.cuda``, by their names."""
    import torch

    properties = _properties(gpu)
    capability = (properties.major, properties.minor)
    free = (properties.total_memory, properties.total_memory)
    clock = SimpleNamespace(seconds=0.0) if driver is None else driver
    stream_kind = type("Stream", (_Stream,), {"clock": clock})
    stream = stream_kind()
    fixed = {
        "is_available": True,
        "is_initialized": True,
        "device_count": 1,
        "current_device": DEVICE[1],
        "get_device_name": properties.name,
        "get_device_capability": capability,
        "get_device_properties": properties,
        "is_bf16_supported": capability[0] >= _FIRST_WITH_BFLOAT16,
        "mem_get_info": free,
        "is_current_stream_capturing": False,
        "current_stream": stream,
        "default_stream": stream,
        **dict.fromkeys(_NOTHING),
        **dict.fromkeys(_NO_BYTES, 0),
        **dict.fromkeys(_CONTEXTS, nullcontext()),
    }
    graphs = {} if driver is None else graph_answers(driver)
    return {name: _always(answer) for name, answer in fixed.items()} | {
        "Stream": stream_kind,
        "Event": type("Event", (_Event,), {"clock": clock}),
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "set_rng_state": lambda state, *_: torch.set_rng_state(state),
        **graphs,
    }


_NOTHING: Final = (
    *("init", "set_device", "synchronize", "empty_cache", "ipc_collect", "reset_peak_memory_stats"),
    *("set_stream", "manual_seed", "manual_seed_all"),
)
"""Functions that do nothing: launches have ended when they return, and nobody else is on the GPU."""
_NO_BYTES: Final = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
_CONTEXTS: Final = ("device", "device_of", "stream")


def _always(answer: Any) -> Callable[..., Any]:
    """A function of its own for each name: PyTorch's tracer tells them by their identity."""
    return lambda *_, **__: answer


class _Event(SimulatedEvent):
    """A moment on the simulated clock, as ``torch.cuda.Event`` has it."""

    clock: Any

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__(self.clock)

    def record(self, stream: Any = None) -> None:
        super().record()

    def wait(self, stream: Any = None) -> None:
        """Launches follow each other."""

    def query(self) -> bool:
        return True


class _Stream:
    """A stream of a simulated GPU: launches follow each other whatever their stream."""

    clock: Any
    cuda_stream: Final = 0
    device_index: Final = DEVICE[1]

    def __init__(self, *_: Any, **__: Any) -> None:
        """As ``torch.cuda.Stream`` is made."""

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""

    def synchronize(self) -> None:
        """Launches have ended when they return."""

    def wait_stream(self, stream: Any) -> None:
        """Launches follow each other."""

    def wait_event(self, event: Any) -> None:
        """Launches follow each other."""

    def record_event(self, event: Any = None) -> Any:
        found = type("Event", (_Event,), {"clock": self.clock})() if event is None else event
        found.record()
        return found

    def query(self) -> bool:
        return True


def _properties(gpu: Gpu) -> SimpleNamespace:
    """A GPU as ``torch.cuda.get_device_properties`` tells it."""
    major, minor = (int(part) for part in gpu.compute_capability.split("."))
    per_block, whole = gpu.integer("sm.shared_bytes_per_block"), gpu.integer("sm.shared_bytes")
    return SimpleNamespace(
        name=next((name for name in gpu.aliases if name.startswith(("NVIDIA", "Tesla"))), gpu.title),
        major=major,
        minor=minor,
        total_memory=gpu.integer("dram.bytes"),
        multi_processor_count=gpu.integer("gpu.sms"),
        max_threads_per_multi_processor=gpu.integer("sm.max_threads"),
        max_threads_per_block=gpu.integer("sm.max_threads_per_block"),
        regs_per_multiprocessor=gpu.integer("sm.registers"),
        shared_memory_per_block=min(per_block, _STATIC_SHARED_BYTES),
        shared_memory_per_block_optin=per_block,
        shared_memory_per_multiprocessor=whole,
        L2_cache_size=gpu.integer("l2.bytes"),
        warp_size=_LANES,
        clock_rate=int(gpu.number("clock.boost_hz") / 1000),
        memory_clock_rate=int(gpu.number("clock.memory_hz") / 1000),
        is_integrated=0,
        is_multi_gpu_board=0,
        gcnArchName="",
    )


_STATIC_SHARED_BYTES: Final = 48 * 1024
"""What a block may have without asking for more (CUDA C programming guide, table of compute capabilities)."""
