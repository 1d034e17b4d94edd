"""What a launch finds in L2 of the launches before it: by size, by use, written or read, in both engines."""

from collections.abc import Callable

import numpy as np
import pytest

from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.sim import Record
from smlab.sim.execution.run import MachineRun, run_machine_code
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.memory.global_memory import GlobalMemory

Launch = Callable[..., MachineLaunch]
COPY = [
    "S2R R0, SR_TID.X",
    "S2R R1, SR_CTAID.X",
    "MOV R24, c[0x0][0x160]",
    "MOV R25, c[0x0][0x164]",
    "MOV R26, c[0x0][0x168]",
    "MOV R27, c[0x0][0x16c]",
    "IMAD R2, R1, 0x20, R0",
    "IMAD.WIDE.U32 R22, R2, 0x4, R24",
    "LDG.E.SYS R4, [R22]",
    "IMAD.WIDE.U32 R28, R2, 0x4, R26",
    "STG.E.SYS [R28], R4",
    "EXIT",
]
"""Each block copies its own line of 128 bytes."""
L2_LINES = 64


def small(lines: int = L2_LINES) -> Gpu:
    shared = {"sm.shared_bytes": 8192, "sm.shared_bytes_per_block": 8192}
    values = {**shared, "gpu.sms": 2, "l1.bytes": 8192, "l1.ways": 4, "l2.bytes": 128 * lines, "l2.ways": 16}
    return load_gpu("v100").with_values(values, source="assumed: a small GPU", where="test")


class Repeated:
    """A copy of ``blocks`` lines, launched again and again on one memory."""

    def __init__(self, launch: Launch, blocks: int, engine: str = "compiled") -> None:
        self.make, self.blocks, self.engine = launch, blocks, engine
        self.memory = GlobalMemory()
        self.arrays = [np.arange(32 * blocks, dtype=np.int32), np.zeros(32 * blocks, dtype=np.int32)]
        self.addresses = [
            np.int64(self.memory.allocate("words", a.view(np.uint8))).tobytes() for a in self.arrays
        ]

    def run(self, gpu: Gpu, **more: int) -> MachineRun:
        launch = self.make(COPY, *self.addresses, grid=self.blocks, memory=self.memory)
        return run_machine_code(launch, gpu, engine=self.engine, keep=Record.TOTALS, **more)


def test_a_launch_finds_what_the_one_before_left(launch: Launch) -> None:
    kernel = Repeated(launch, L2_LINES // 2)
    cold, warm, again = (kernel.run(small()) for _ in range(3))
    assert cold.result.memory.dram_sectors == 4 * kernel.blocks
    assert warm.result.memory.dram_sectors == 0
    assert warm.cycles < cold.cycles
    assert again.cycles == warm.cycles
    assert len(kernel.memory.l2.lines) == L2_LINES
    assert kernel.memory.l2.lines[:, 2].astype(bool).sum() == kernel.blocks  # what it wrote is dirty
    assert np.array_equal(*kernel.arrays)


def test_an_array_larger_than_l2_is_gone_when_it_is_asked_for_again(launch: Launch) -> None:
    kernel = Repeated(launch, 2 * L2_LINES)
    cold, warm = (kernel.run(small()) for _ in range(2))
    read = 4 * kernel.blocks
    written = cold.result.memory.dram_sectors - read
    assert 0 < written <= read
    # Nothing that is read is still there, and all that the first launch left dirty goes out as well.
    assert warm.result.memory.dram_sectors == 2 * read
    roomy = Repeated(launch, 2 * L2_LINES)
    assert [roomy.run(small(4 * L2_LINES)).result.memory.dram_sectors for _ in range(2)] == [read, 0]


FILL = [line for line in COPY if not line.startswith("LDG")]
"""Each block writes a line, and reads none."""


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
def test_a_kernel_writes_no_faster_than_dram_takes_it(launch: Launch, engine: str) -> None:
    """L2 has room for the first lines. For each line after them another one has to go first."""
    gpu = small().with_values(
        {"dram.sustained_bandwidth_bytes_per_s": 20e9}, source="assumed: a slow DRAM", where="test"
    )

    def filled(lines: int) -> MachineRun:
        array = Repeated(launch, lines, engine)
        made = launch(FILL, *array.addresses, grid=lines, memory=array.memory)
        return run_machine_code(made, gpu, engine=engine, keep=Record.TOTALS)

    within, beyond = filled(L2_LINES // 2), filled(40 * L2_LINES)
    assert within.result.memory.dram_sectors == 0
    written = 32 * beyond.result.memory.dram_sectors
    assert written == 128 * 39 * L2_LINES
    assert 1.0 <= beyond.seconds * 20e9 / written < 1.1
    assert within.cycles < beyond.cycles / 20


def test_engines_leave_and_find_the_same_lines(launch: Launch) -> None:
    for blocks in (L2_LINES // 2, L2_LINES - 8, 2 * L2_LINES):
        kernels = [Repeated(launch, blocks, engine) for engine in ("compiled", "simpy")]
        for _ in range(3):
            fast, slow = (kernel.run(small()) for kernel in kernels)
            assert (fast.cycles, fast.result.memory) == (slow.cycles, slow.result.memory)
            assert np.array_equal(kernels[0].memory.l2.lines, kernels[1].memory.l2.lines)


def test_another_l2_and_a_sampled_grid_find_none_and_leave_none(launch: Launch) -> None:
    kernel = Repeated(launch, L2_LINES // 2)
    cold = kernel.run(small())
    other = small(2 * L2_LINES)
    assert kernel.run(other).result.memory.dram_sectors == 4 * kernel.blocks
    assert kernel.run(other).result.memory.dram_sectors == 0
    kernel.run(other, sms=1)
    assert len(kernel.memory.l2.lines) == 0
    assert kernel.run(small()).cycles == cold.cycles


def test_what_others_wrote_is_written_back_before_its_place_is_taken(launch: Launch) -> None:
    """A benchmark writes more than L2 holds before each launch: every line that is read or written sends
    another one to DRAM, both engines say the same, and the launch behind finds its own lines."""
    told = []
    for engine in ("compiled", "simpy"):
        kernel = Repeated(launch, L2_LINES // 4, engine)
        empty = kernel.run(small())
        kernel.memory.l2.overwrite()
        cold, warm = kernel.run(small()), kernel.run(small())
        assert cold.result.memory.dram_sectors == empty.result.memory.dram_sectors + 4 * 2 * kernel.blocks
        assert cold.cycles >= empty.cycles
        assert warm.result.memory.dram_sectors == 0
        told.append((cold.cycles, cold.result.memory.dram_sectors))
    assert told[0] == told[1]


def test_no_read_waits_for_what_others_wrote(launch: Launch) -> None:
    """Reads wait for writes in DRAM, but not for these, which the launch's own writes would be."""
    cycles = []
    for drain in (1e-9, 3e-7):
        gpu = small(1024).with_values({"dram.write_drain_s": drain}, source="assumed", where="test")
        kernel = Repeated(launch, 64)
        kernel.memory.l2.overwrite()
        cycles.append(kernel.run(gpu).cycles)
    assert cycles[0] == cycles[1]


def test_a_sample_of_a_flushed_l2_takes_as_long_as_all(launch: Launch) -> None:
    slow = {"dram.sustained_bandwidth_bytes_per_s": 1e11, "dram.write_drain_s": 1e-9}
    gpu = load_gpu("v100").with_values(slow, source="assumed", where="test")
    kernel = Repeated(launch, 8192)
    times = []
    for sms in (80, 8):
        kernel.memory.l2.overwrite()
        times.append(kernel.run(gpu, sms=sms).seconds)
    kernel.memory.l2.forget()
    assert times[1] == pytest.approx(times[0], rel=0.15)
    assert times[0] > 1.5 * kernel.run(gpu).seconds
