"""``torch.compile`` while a simulated GPU stands in for a real one.

Inductor writes its Triton kernels as it would for the GPU itself: what it traces says that it lies on CUDA,
and what it asks of the GPU is answered for the simulated one. PyTorch can trace for CUDA without CUDA; where
it allocates, launches or measures, its functions are replaced here. Products that it leaves to cuBLAS are
computed on the CPU, and take no time.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial, wraps
from inspect import getattr_static
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from smlab.sim.frontends.triton_driver import begin_choice, benchmarked

DEVICE: Final = ("cuda", 0)
"""Where tensors say that they lie."""
_KINDS: Final = ("cpu", "cuda")
_CPU_GUARD, _CUDA_GUARD = 0, 1
"""The numbers of these devices (``c10::DeviceType``)."""


def is_tracing() -> bool:
    """Whether PyTorch traces a function now, rather than to compute something."""
    import torch
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    if torch.compiler.is_dynamo_compiling():  # first, as it is traced itself
        return True
    mode = _get_current_dispatch_mode()
    return mode is not None and not hasattr(mode, "is_of_simulated_gpu")


def on(kind: str, value: Any) -> Any:
    """The device of this kind for one of either kind, by its name or itself; anything else as it is."""
    import torch

    if isinstance(value, str):
        return kind if value.partition(":")[0] in _KINDS else value
    if not isinstance(value, torch.device) or value.type not in _KINDS:
        return value
    return torch.device(*DEVICE) if kind == "cuda" else torch.device(kind)


def autocast_on_cpu(device: str, dtype: Any = None, *more: Any) -> tuple[Any, ...]:
    """What `torch.autocast` is asked for, on the CPU: the type, if it is not told, is CUDA's."""
    import torch

    if device == "cuda" and dtype is None:
        dtype = torch.get_autocast_dtype(device)
    return on("cpu", device), dtype, *more


@contextmanager
def compiled_for_simulated_gpu(answers: Mapping[str, Any], ours: type, left: Counter[str]) -> Iterator[None]:
    """Until the context ends, ``torch.compile`` compiles for CUDA and launches by Triton's active driver.

    ``answers`` are the functions that take the place of those of ``torch.cuda``, by their names. In a mode
    of the kind ``ours`` PyTorch has its CPU wherever CUDA is asked for. ``left`` counts the operators that
    compiled functions leave to PyTorch, by their names.
    """
    import torch._functorch.config as autograd_settings
    import torch._inductor.config as settings

    with ExitStack() as ends:
        ends.callback(_forget)
        for where, name, instead in (
            *_tracing(ours),
            *_compiling(ours),
            *_choosing(),
            *_launching(answers, left),
        ):
            ends.enter_context(patch.object(where, name, instead, create=True))
        ends.enter_context(settings.patch(_SETTINGS))
        ends.enter_context(autograd_settings.patch(enable_autograd_cache=False))
        _forget()
        yield


_Replaced = Iterator[tuple[Any, str, Any]]
"""Where a name has another value, the name, and the value."""


def _tracing(ours: type) -> _Replaced:
    """What Dynamo traces lies on the CPU, where autograd works, and says that it lies on CUDA.

    It need not trace through our mode then, and is not told of it: with a mode it loses values where a
    function is compiled in pieces (2.13). Between the pieces it would compile the mode itself, and take one
    operator's code for another's.
    """
    from torch._dynamo.eval_frame import skip_code
    from torch._dynamo.output_graph import SubgraphTracer
    from torch._dynamo.variables.ctx_manager import AutocastModeVariable
    from torch._dynamo.variables.tensor import TensorVariable
    from torch._dynamo.variables.torch_function import SymbolicTorchFunctionState
    from torch.utils._pytree import tree_map

    begin, create, specialize = (
        SymbolicTorchFunctionState.__init__,
        SubgraphTracer.create_node,
        TensorVariable.specialize,
    )
    cast = AutocastModeVariable.__init__

    def begun(self: Any, stack: Any, *more: Any, **how: Any) -> None:
        alone = [type(one) for one in stack] == [ours]
        begin(self, [] if alone else stack, *more, **how)

    def created(
        self: Any, op: str, target: Any, args: Any = None, kwargs: Any = None, *more: Any, **how: Any
    ) -> Any:
        if op == "call_method" and target == "cuda":
            target, args = "to", (args[0], "cpu")
        if op.startswith("call_"):
            args, kwargs = tree_map(partial(on, "cpu"), (args or (), kwargs or {}))
        return create(self, op, target, args, kwargs, *more, **how)

    def cast_on_cpu(self: Any, target_values: Any, *more: Any, **how: Any) -> None:
        cast(self, autocast_on_cpu(*target_values), *more, **how)

    def specialized(value: Any) -> Any:
        told = specialize(value)
        return told | {"device": on("cuda", told["device"])}

    for function in (ours.__torch_function__, is_tracing):  # type: ignore[attr-defined]
        skip_code(function.__code__)
    yield SymbolicTorchFunctionState, "__init__", begun
    yield SubgraphTracer, "create_node", created
    yield AutocastModeVariable, "__init__", cast_on_cpu
    yield TensorVariable, "specialize", staticmethod(specialized)


def _compiling(ours: type) -> _Replaced:
    """Inductor writes Triton for CUDA of graphs that were traced on the CPU."""
    import torch._inductor.config as settings
    from torch._inductor import compile_fx as inductor

    compile_fx = inductor.compile_fx
    _guard_devices()

    def for_cuda(module: Any, inputs: Any, *more: Any, **how: Any) -> Any:
        _put_on_cuda(module, inputs)
        with ours():
            return inductor.compile_fx_inner(module, inputs, *more, **how)

    def compiled(module: Any, inputs: Any, *more: Any, **how: Any) -> Any:
        with settings.patch(_NO_GRAPHS):
            return compile_fx(module, inputs, *more, **{"inner_compile": for_cuda, **how})

    yield inductor, "compile_fx", compiled


_SETTINGS: Final = {
    "compile_threads": 1,  # its processes would not know of the simulated GPU
    "fx_graph_cache": False,  # caches do not know one simulated GPU from another
    "autotune_local_cache": False,
    "use_static_cuda_launcher": False,  # the driver launches
    "benchmark_epilogue_fusion": False,  # what follows a product is fused with it
}
_NO_GRAPHS: Final = {"triton.cudagraphs": False}
"""A launch takes as long in a CUDA graph or not. The mode of a compilation asks for them anew."""


def _forget() -> None:
    """Functions that were compiled for another GPU, and what was known of it."""
    import torch._dynamo
    from torch._inductor.runtime.hints import DeviceProperties

    torch._dynamo.reset()
    DeviceProperties.create.cache_clear()


def _put_on_cuda(module: Any, inputs: Any) -> None:
    """What a traced graph says of its device, from now on."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils._pytree import tree_map

    def put(value: Any) -> Any:
        if isinstance(value, FakeTensor):
            value.fake_device = torch.device(*DEVICE)
        return on("cuda", value)

    tree_map(put, list(inputs))
    for one in module.modules():
        if not isinstance(one, torch.fx.GraphModule):
            continue
        for node in one.graph.nodes:
            tree_map(put, node.meta.get("val"))
            if node.op == "call_function":
                node.args, node.kwargs = tree_map(put, (node.args, node.kwargs))
        one.recompile()


def _guard_devices() -> None:
    """Let PyTorch without CUDA look into tensors that say CUDA. It asks for a guard of the device. The CPU's,
    which does nothing, will do. PyTorch with CUDA has one."""
    import torch

    with suppress(OSError, ValueError):  # another build of PyTorch; a function that indexes then says so
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
        guards = (ctypes.c_void_p * 2).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
        guards[_CUDA_GUARD] = guards[_CUDA_GUARD] or guards[_CPU_GUARD]


def _format_of_images(images: Any, weights: Any, _: Any) -> Any:
    """In which order cuDNN returns images, which is also the CPU's: channels last if either has them last."""
    import torch
    from torch._prims_common import suggest_memory_format

    formats = {suggest_memory_format(images), suggest_memory_format(weights)} - {torch.contiguous_format}
    return formats.pop() if formats else torch.contiguous_format


def _counting(left: Counter[str]) -> Any:
    """A mode that counts the operators that PyTorch computes itself, but for views."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):  # type: ignore[misc,unused-ignore]
        is_of_simulated_gpu = True

        def __torch_dispatch__(
            self, operator: Any, types: Any, arguments: Any = (), options: Any = None
        ) -> Any:
            if not operator.is_view:
                left[str(operator.overloadpacket)] += 1
            return operator(*arguments, **(options or {}))

    return Counting()


def _choosing() -> _Replaced:
    """Inductor's choice among configurations asks the driver, and never takes a library's function."""
    from torch._inductor.runtime.benchmarking import Benchmarker
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    from torch._inductor.select_algorithm import AlgorithmSelectorCache
    from torch.utils._python_dispatch import _disable_current_modes

    def benchmark(
        self: Any, fn: Callable[..., Any], fn_args: Any = None, fn_kwargs: Any = None, *_: Any, **more: Any
    ) -> float:
        with _disable_current_modes():  # what a trial copies is no part of the function
            milliseconds: float = benchmarked(lambda: fn(*(fn_args or ()), **(fn_kwargs or {})))
        return math.inf if math.isnan(milliseconds) else milliseconds  # what launches nothing has no time

    yield Benchmarker, "benchmark", benchmark
    for kind, name in (
        (CachingAutotuner, "benchmark_all_configs"),
        (AlgorithmSelectorCache, "benchmark_choices"),
    ):
        yield kind, name, _for_one_kernel(getattr_static(kind, name))


def _for_one_kernel(measure: Any) -> Any:
    """What measures the configurations of one kernel, a method of an object or a class."""
    function = getattr(measure, "__func__", measure)

    @wraps(function)
    def choosing(*arguments: Any, **how: Any) -> Any:
        begin_choice()
        return function(*arguments, **how)

    return classmethod(choosing) if isinstance(measure, classmethod) else choosing


def _launching(answers: Mapping[str, Any], left: Counter[str]) -> _Replaced:
    """What compiled functions call: they allocate on the CPU and launch by Triton's active driver."""
    import torch
    from torch._dynamo import device_interface
    from torch._inductor.output_code import CompiledFxGraph
    from torch._inductor.runtime import triton_helpers

    allocators, interface, call = (
        torch._C._dynamo.guards,
        device_interface.CudaInterface,
        CompiledFxGraph.__call__,
    )

    def counted(self: Any, inputs: Any) -> Any:
        with _counting(left):
            return call(self, inputs)

    yield CompiledFxGraph, "__call__", counted
    yield allocators, "_empty_strided_cuda", allocators._empty_strided_cpu
    yield torch._C, "_cuda_getCurrentRawStream", lambda *_: 0
    yield torch._C, "_conv_determine_backend_memory_format", _format_of_images
    yield torch.cuda, "_DeviceGuard", lambda *_: nullcontext()
    yield triton_helpers, "set_driver_to_gpu", lambda: None
    yield device_interface, "caching_worker_device_properties", {}
    for name in ("get_raw_stream", "exchange_device", "maybe_exchange_device"):
        yield interface, name, staticmethod(lambda *_: 0)
    for name, answer in answers.items():
        if hasattr(interface, name) and not isinstance(answer, type):
            yield interface, name, staticmethod(answer)
