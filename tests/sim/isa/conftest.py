"""Listings written for tests: lines of machine code with control codes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from smlab.hw_bench.sass import parse_listing
from smlab.hw_bench.sass.image import KernelImage, listed_image
from smlab.sim.isa import memory_layout
from smlab.sim.isa.launch import launch as launch_module
from smlab.sim.isa.launch.launch import MachineLaunch, MachineMemory


@pytest.fixture(autouse=True)
def _registers_begin_with_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A warp's rows hold what another one left, as in a grid with several waves of blocks. What a kernel may
    read before it writes it is cleared (`rows_to_clear`), so no test may notice."""
    made = MachineMemory.__init__

    def littered(self: MachineMemory, *args: Any, **more: Any) -> None:
        made(self, *args, **more)
        count = self.warps.nbytes // self.warp_bytes
        rows = self.warps.view(np.uint8)[: count * self.warp_bytes].reshape(count, -1)
        rows[:, memory_layout.barrier_at(0) : memory_layout.zero_at()] = 0x5A
        rows[:, memory_layout.dump_at() :] = 0x5A

    monkeypatch.setattr(MachineMemory, "__init__", littered)
    monkeypatch.setattr(launch_module, "WARPS_AN_INSTRUCTION", 0)


def listing(lines: Sequence[str]) -> str:
    """Machine code as nvdisasm prints it; a line is an instruction, or a label with a colon at its end.
    Every instruction stalls for 15 cycles and waits for all scoreboards; loads and their like set the first
    one."""
    text = [
        '\t.headerflags\t@"EF_CUDA_SM70 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM70)"',
        '\t.section\t.text.kernel,"ax"',
        "kernel:",
    ]
    address = 0
    for line in lines:
        if line.endswith(":"):
            text.append(line)
            continue
        slow = any(name in line for name in ("LD", "ATOM", "S2R", "SHFL", "MATCH", "MUFU"))
        code = 15 | (0 if slow else 7) << 5 | 7 << 8 | 0x3F << 11
        text.append(f"        /*{address:04x}*/  {line} ;  /* 0x0000000000000000 */")
        text.append(f"                                /* {code << 41:#018x} */")
        address += 16
    return "\n".join(text)


@pytest.fixture(name="image")
def image_fixture() -> Callable[[Sequence[str]], KernelImage]:
    """Makes a kernel's image of lines."""
    return lambda lines: listed_image(parse_listing(listing(lines))[0])


@pytest.fixture
def launch(image: Callable[[Sequence[str]], KernelImage]) -> Callable[..., MachineLaunch]:
    """Makes a launch of lines: one block of 32 threads unless told otherwise."""

    def make(
        lines: Sequence[str], *arguments: Any, grid: int = 1, block: int = 32, shared: int = 256, **more: Any
    ) -> MachineLaunch:
        given = [np.int32(a) if isinstance(a, int) else a for a in arguments]
        return MachineLaunch(
            image(lines), (grid, 1, 1), (block, 1, 1), given, dynamic_shared_bytes=shared, **more
        )

    return make
