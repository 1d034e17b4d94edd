"""A GPU behind the driver's functions: memory, one queue of work, and two clocks.

The host's clock counts what its calls are said to take, so that what a host would measure is the same in
every run. Work is queued, and executed when somebody waits for it. It begins when it has been queued and what
came before it has ended; a kernel that was given memory of the host begins no sooner than the host's last
writing to it, which is how one that spins on a flag there would end.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from faults import CudaError, Faults
from numpy.typing import NDArray

from smlab.hw_bench.cuda.contract.compiler import find_disassembler
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass import disassemble, read_cubin
from smlab.hw_bench.sass.image import KernelImage, read_image
from smlab.sim import Record
from smlab.sim.execution.run import run_machine_code
from smlab.sim.isa.launch.launch import Dim, MachineLaunch
from smlab.sim.isa.memory.global_memory import Allocation, GlobalMemory

CALL_S = 1e-6
"""What a call of the driver takes the host."""
LAUNCH_S = 50e-6
"""And a launch, with what Python does for it."""
GARBAGE = 0xA5
"""What fresh memory holds."""


@dataclass
class DriverEvent:
    """``at`` is the GPU's clock when it was reached, None before."""

    at: float | None = None


@dataclass
class HostMemory:
    """Memory that host and GPU share: the host's address, the GPU's, and its content when last looked at."""

    content: NDArray[np.uint8]
    device: int
    seen: bytes

    @property
    def address(self) -> int:
        return int(self.content.ctypes.data)


@dataclass
class Work:
    """One thing in the queue: when it was queued, and what it does, which from its begin gives its end."""

    queued: float
    run: Callable[[float], float]


@dataclass
class DrivenGpu:
    """``gap_s`` lies on the GPU between a kernel and what comes next to it."""

    gpu: Gpu
    faults: Faults
    gap_s: float = 0.0
    memory: GlobalMemory = field(default_factory=GlobalMemory)
    host_s: float = 0.0
    gpu_s: float = 0.0
    launches: int = 0

    def __post_init__(self) -> None:
        self.queue: list[Work] = []
        self.shared: dict[int, HostMemory] = {}
        self.written_s = 0.0
        self.lost: CudaError | None = None

    # The host's clock.

    def called(self, name: str) -> None:
        """A call of the driver begins: time passes, what the host wrote is seen, a fault may strike."""
        self.host_s += LAUNCH_S if name.startswith("cuLaunch") else CALL_S
        for block in self.shared.values():
            now = block.content.tobytes()
            if now != block.seen:
                block.seen, self.written_s = now, self.host_s
        self.faults.strike(name, self)
        if self.lost is not None:
            raise self.lost

    # Memory.

    def allocate(self, size: int) -> int:
        free, _ = self.room()
        if size > free:
            raise CudaError("OUT_OF_MEMORY")
        return self.memory.allocate("memory", np.full(size, GARBAGE, dtype=np.uint8))

    def share(self, size: int) -> HostMemory:
        content = np.zeros(size, dtype=np.uint8)
        block = HostMemory(content, self.memory.allocate("memory of the host", content), content.tobytes())
        self.shared[block.address] = block
        return block

    def free(self, address: int) -> None:
        self.drain()
        self.memory.allocations.remove(self._allocation(address))

    def room(self) -> tuple[int, int]:
        """Free and all bytes."""
        total = self.gpu.integer("dram.bytes") if self.gpu.has("dram.bytes") else 1 << 34
        return total - sum(len(a.content) for a in self.memory.allocations), total

    def _allocation(self, address: int) -> Allocation:
        for a in self.memory.allocations:
            if a.address <= address < a.end or a.address == address:
                return a
        raise CudaError("INVALID_VALUE")

    def bytes_at(self, address: int, size: int) -> NDArray[np.uint8]:
        a = self._allocation(address)
        if address + size > max(a.end, a.address):
            raise CudaError("INVALID_VALUE")
        return a.content[address - a.address : address - a.address + size]

    # Work.

    def enqueue(self, run: Callable[[float], float]) -> None:
        self.queue.append(Work(self.host_s, run))

    def drain(self) -> None:
        """Wait for all work; the host waits with the GPU."""
        while self.queue:
            work = self.queue.pop(0)
            self.gpu_s = work.run(max(self.gpu_s, work.queued))
            if self.lost is not None:
                self.queue.clear()
                raise self.lost
        self.host_s = max(self.host_s, self.gpu_s)

    def record(self, event: DriverEvent) -> None:
        event.at = None

        def reach(begin: float) -> float:
            event.at = begin
            return begin

        self.enqueue(reach)

    def launch(self, image: KernelImage, grid: Dim, block: Dim, words: list[bytes]) -> None:
        self.launches += 1
        number = self.launches
        pointers = {int.from_bytes(w, "little") for w in words if len(w) == 8}
        shared = [range(b.device, b.device + len(b.content)) for b in self.shared.values()]
        watches = any(p in part for part in shared for p in pointers)

        def run(begin: float) -> float:
            self.faults.executing(number, self)
            if self.lost is not None:
                return begin
            if watches:
                begin = max(begin, self.written_s)
            launch = MachineLaunch(image, grid, block, words, check_shared=False, memory=self.memory)
            gpu = self.slowed(self.faults.slowness(self))
            seconds = run_machine_code(launch, gpu, keep=Record.TOTALS).seconds
            for shared in self.shared.values():
                shared.seen = shared.content.tobytes()
            return begin + seconds + self.gap_s

        self.enqueue(run)

    def slowed(self, factor: float) -> Gpu:
        if factor == 1:
            return self.gpu
        hz = round(float(self.gpu.number("clock.sm_hz")) * factor)
        return self.gpu.with_values({"clock.sm_hz": hz}, source="assumed: a slow clock")


def images_of(cubin: bytes, where: str) -> dict[str, KernelImage]:
    """The kernels of a file of machine code, by name."""
    tool = find_disassembler(read_cubin(cubin, where).architecture)
    return {f.name: read_image(cubin, f) for f in disassemble(cubin, tool)}


def elf_bytes(address: int) -> bytes:
    """The file of machine code at an address of the host; its own header tells how long it is."""
    head = ctypes.string_at(address, 64)
    if head[:4] != b"\x7fELF":
        raise CudaError("INVALID_IMAGE")
    number = lambda at, size: int.from_bytes(head[at : at + size], "little")  # noqa: E731
    tables = number(32, 8) + number(54, 2) * number(56, 2), number(40, 8) + number(58, 2) * number(60, 2)
    return ctypes.string_at(address, max(tables))
