"""What a front end is given, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import machine_code_bytes
from smlab.hw_bench.sass.image import KernelImage
from smlab.sim.isa.launch.launch import Dim
from smlab.sim.isa.memory.global_memory import GlobalMemory

T = TypeVar("T")


@dataclass(frozen=True)
class KernelSource:
    """A kernel and what was asked for: a path or a Python object, and the architecture to compile for
    (``sm_80``).

    ``name`` chooses among several kernels of a file; ``defines`` and ``folders`` are a C compiler's macros
    and folders with headers. ``grid``, ``arguments`` and ``options`` are those of the launch, for kernels
    that are compiled for them; ``memory`` is what their arrays lie in.
    """

    kernel: Any
    architecture: str
    name: str | None = None
    defines: Mapping[str, str] = field(default_factory=dict)
    folders: Sequence[Path] = ()
    grid: Any = None
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    memory: GlobalMemory = field(default_factory=GlobalMemory)

    @property
    def path(self) -> Path:
        return Path(self.kernel)

    @property
    def where(self) -> str:
        """For messages."""
        return str(self.kernel) if isinstance(self.kernel, str | Path) else "kernel"

    def content(self) -> bytes:
        """The file's bytes, within the limits of machine code; `SmlabError` for what cannot be read."""
        return machine_code_bytes(self.path)

    def option(self, name: str, kind: type[T], default: T) -> T:
        """An option of this type; `SmlabError` for another."""
        value = self.options.get(name, default)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise SmlabError.at(f"{self.where}: {name}", "an option of another type", value, kind.__name__)
        return value

    def check_options(self, *known: str) -> None:
        """`SmlabError` for an option that the front end does not have."""
        for name in self.options:
            if name not in known:
                expected = f"one of {', '.join(known)}" if known else "none for this kind of kernel"
                raise SmlabError.at(self.where, "unknown option", name, expected)


@dataclass(frozen=True)
class LoadedKernel:
    """Machine code with its parameter layout, and what of a launch its front end decides.

    ``arguments`` are the kernel's parameters, each as `MachineLaunch` takes them, and ``memory`` is what
    addresses among them point to; without them, the arguments given are the parameters. ``block`` is the
    threads of a block, ``grid`` the blocks and ``cluster`` those of a cluster, where the launch does not say.
    ``shared_bytes`` is dynamic shared memory that the kernel needs.
    """

    image: KernelImage
    arguments: Sequence[Any] | None = None
    names: Sequence[str] = ()
    block: Dim | None = None
    grid: Dim | None = None
    cluster: Dim | None = None
    shared_bytes: int = 0
    memory: GlobalMemory | None = None


def _no_object(kernel: object) -> bool:
    return False


@dataclass(frozen=True)
class KernelFrontEnd:
    """One kind of kernel: files by their ``suffixes``, files of any other suffix by the bytes that they begin
    with, or Python objects that ``takes`` knows.

    ``sets_block`` says that the kernel itself tells its threads, so that a launch has none.
    """

    kind: str
    load: Callable[[KernelSource], LoadedKernel]
    suffixes: tuple[str, ...] = ()
    begins: tuple[bytes, ...] = ()
    takes: Callable[[object], bool] = _no_object
    sets_block: bool = False
