"""``with smlab.simulated("a100-40") as gpu:`` kernels of Triton and Numba that a script launches run on the
simulated GPU."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from smlab.commands.arguments import a_gpu
from smlab.commands.run.api import KernelCall, RunKeywords, TimingKeywords, prepared, timed
from smlab.commands.run.torch_cuda import torch_on_simulated_gpu
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim.execution.program import ProgramRun, SimulatedProgram
from smlab.sim.execution.run import MachineRun
from smlab.sim.frontends.launching import machine_launch
from smlab.sim.frontends.protocol import LoadedKernel
from smlab.sim.frontends.triton_driver import SimulatedDriver, TritonTarget, start


def simulated(
    gpu: str | Path | Gpu = "v100", *, tune: bool = False, complete: bool = True, **how: Any
) -> ScriptGpu:
    """A simulated GPU on which an unchanged script launches its kernels.

        with smlab.simulated("a100-40") as gpu:
            add[(4,)](x, y, out, 4096, BLOCK=1024)
        print(gpu.runs[-1], gpu.program)

    What is launched is one program: on one memory, with an L2 that keeps what the launches before left. A
    kernel that is launched again and again is timed until its launches agree (`ScriptGpu.program` says how
    many), and then executed alone. `ScriptGpu.run` launches any kernel that `smlab.run` takes.

    Kernels of Triton take arrays of NumPy or PyTorch's tensors on the CPU, and change them in place; Numba's
    take arrays. A script that asks for the device when it is imported, or for ``device="cuda"``, needs one
    line at its beginning: ``smlab.simulated("a100-40").start()``. PyTorch then has its CPU wherever CUDA is
    asked for.

    Args:
        gpu: a name, a description's path or a description.
        tune: let Triton's autotuner try its configurations, each in one simulated run; else it takes the
        first.
        complete: with ``sms``, execute what a sample leaves out as well, without timing it, so that arrays
        hold what the whole grid computes. Without it they hold what the sampled blocks wrote.
        how: what `smlab.run` takes besides the launch, such as ``sms`` and ``engine``.
    """
    known = {key: value for key, value in how.items() if key in RunKeywords.__annotations__}
    if len(known) != len(how):
        (name, *_) = (key for key in how if key not in known)
        raise TypeError(f"simulated() got an unexpected keyword argument {name!r}")
    return ScriptGpu(a_gpu("gpu", gpu), tune, known, complete=complete)


class ScriptGpu:
    """A GPU that scripts launch on. ``runs`` are the launches so far, each a `MachineRun`; those of a kernel
    whose launches agree are one and the same. ``not_simulated`` counts the operators that functions of
    ``torch.compile`` left to PyTorch (products, convolutions), which are in no time."""

    def __init__(self, gpu: Gpu, tune: bool, how: dict[str, Any], *, complete: bool = True) -> None:
        self.gpu = gpu
        self.runs: list[MachineRun] = []
        self.not_simulated: Counter[str] = Counter()
        self._tune = tune
        self._how = how
        self._ends = ExitStack()
        self._timing = {key: value for key, value in how.items() if key in TimingKeywords.__annotations__}
        self._launches = SimulatedProgram(
            gpu,
            lambda launch: timed(launch, gpu, self._timing),
            complete=complete and how.get("sms") is not None,
        )

    def __repr__(self) -> str:
        left = ", ".join(f"{count} {name}" for name, count in sorted(self.not_simulated.items()))
        told = [f"{len(self.runs)} launches, {self.seconds:.3g} s"]
        if left:
            told.append(f"computed by PyTorch, in no time: {left}")
        if self._launches.incomplete:
            told.append(
                f"arrays are not whole: of {self._launches.incomplete} launches a sample was executed"
            )
        return f"<{self.gpu.name}, simulated: {'; '.join(told)}>"

    @property
    def seconds(self) -> float:
        """What all launches took, without what lies between them."""
        return sum(run.seconds for run in self.runs)

    @property
    def program(self) -> ProgramRun:
        """All launches so far as one program: its time with the gaps between launches, and a row a kernel."""
        return self._launches.run

    def start(self) -> ScriptGpu:
        """Stand in for the GPU from now on, until `stop` or the program's end."""
        self.__enter__()
        return self

    def stop(self) -> None:
        """Put everything back as it was."""
        self._ends.close()

    def __enter__(self) -> ScriptGpu:
        driver = None
        if importlib.util.find_spec("triton") is not None:
            memory, flush = self._launches.memory, self._launches.forget_caches
            driver = SimulatedDriver(_target(self.gpu), self._launched, memory, tune=self._tune, flush=flush)
            self._ends.callback(start(driver))
        if "torch" in sys.modules or importlib.util.find_spec("torch") is not None:
            self._ends.enter_context(torch_on_simulated_gpu(self.gpu, driver, self.not_simulated))
        if importlib.util.find_spec("numba_cuda") is not None:
            self._ends.callback(_numba_launches(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _launched(self, kernel: LoadedKernel) -> float:
        """A launch of Triton's."""
        self.runs.append(self._launches.launch(machine_launch(kernel, None, None, (), self._how)))
        return self.runs[-1].seconds

    def run(
        self, kernel: Any, grid: Any, *arguments: Any, name: str | None = None, **more: Any
    ) -> MachineRun:
        """Launch a kernel on this GPU and its memory: what `smlab.run` takes, but for ``gpu`` and how it is
        timed.

        Raises:
            SmlabError: as `smlab.run` has it.
        """
        for key in more:
            if key in TimingKeywords.__annotations__:
                raise TypeError(f"run() got an unexpected keyword argument {key!r}: simulated() takes it")
        call = KernelCall(kernel, grid, arguments, self.gpu, name)
        launch, _ = prepared(call, {**self._how, **more}, self._launches.next_memory())
        self.runs.append(self._launches.launch(launch))
        return self.runs[-1]

    def launch(self, kernel: Any, grid: Any, block: Any, arguments: Iterable[Any]) -> None:
        """A launch of Numba's."""
        self.run(kernel, grid, block, *(_as_array(one) for one in arguments))


def _target(gpu: Gpu) -> TritonTarget:
    properties = {
        "max_shared_mem": gpu.integer("sm.shared_bytes_per_block"),
        "max_num_regs": gpu.integer("sm.registers"),
        "multiprocessor_count": gpu.integer("gpu.sms"),
        "warpSize": 32,
        "sm_clock_rate": int(gpu.number("clock.boost_hz") / 1000),
    }
    return TritonTarget(gpu.name, gpu.sm_architecture, properties)


def _as_array(value: Any) -> Any:
    """A tensor on the CPU as an array that shares its memory."""
    return value.numpy() if hasattr(value, "data_ptr") and hasattr(value, "numpy") else value


def _numba_launches(gpu: ScriptGpu) -> Callable[[], None]:
    """Have ``kernel[grid, block](...)`` of Numba run on the GPU; gives what ends it."""
    from numba.cuda import dispatcher

    kind: Any = dispatcher.CUDADispatcher
    item = kind.__getitem__

    def launcher(kernel: Any, shape: Any) -> Callable[..., None]:
        if not isinstance(shape, tuple) or len(shape) < 2:
            raise SmlabError.at("kernel[...]", "no launch", shape, "grid and block")
        grid, block, *rest = shape
        shared = rest[1] if len(rest) > 1 else 0
        if shared:
            raise SmlabError.at(
                "kernel[...]", "has dynamic shared memory", shared, "smlab.run, which takes it"
            )
        return lambda *arguments: gpu.launch(kernel, grid, block, arguments)

    kind.__getitem__ = launcher

    def end() -> None:
        kind.__getitem__ = item

    return end
