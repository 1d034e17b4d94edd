"""What the benchmarks' launches run on: Numba's CUDA (a GPU, or its CPU simulator), or a stand-in handed in
from above.

``cuda`` has the few functions of `numba.cuda` that the measuring modules use, and passes each on to the
driver in force. A stand-in (the simulator behind ``bench run --on-simulator``) offers the same functions
and a ``kernel`` that gives what ``kernel[grid, block](...)`` launches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from smlab.hw_bench.cuda.kernels.device import cuda as _numba
from smlab.hw_bench.cuda.kernels.spec import KernelSpec
from smlab.hw_bench.cuda.measuring.plan import DeviceLimits


class FakeDriver(Protocol):
    """A device that is not Numba's: its functions are those of `numba.cuda`. ``remark`` says in a data set
    what it is, ``limits`` what the suite must know of it, ``cubin`` gives a kernel's machine code."""

    @property
    def limits(self) -> DeviceLimits: ...

    @property
    def remark(self) -> str: ...

    def cubin(self, spec: KernelSpec) -> bytes: ...

    def to_device(self, array: Any) -> Any: ...

    def device_array(self, shape: Any, dtype: Any) -> Any: ...

    def event(self, timing: bool = True) -> Any: ...

    def event_elapsed_time(self, begin: Any, end: Any) -> float: ...

    def kernel(self, spec: KernelSpec) -> Any: ...


class _Driver:
    """`numba.cuda`, or the stand-in in force."""

    stand_in: FakeDriver | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(_numba if self.stand_in is None else self.stand_in, name)


cuda: Any = _Driver()


@contextmanager
def using(stand_in: FakeDriver) -> Iterator[None]:
    """Launch on a stand-in within this context."""
    before, cuda.stand_in = cuda.stand_in, stand_in
    try:
        yield
    finally:
        cuda.stand_in = before
