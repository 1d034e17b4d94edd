"""Histograms of many channels on an H100, written as workloads: a public work log's kernels, with its times.

Input: bytes of shape (1,048,576 rows, 512 channels), uniformly random; output: 256 counts a channel.
Entry 3 counts with atomics on global memory, a thread a channel; 4 and 5 in shared memory, a block for 32
channels, a warp a row at a time; 6 and 8 load eight rows before they count them. The code between loads
and atomics was not published: as many integer instructions are written as the profiler's issue-active
share and the time say were executed. (Entry 5 differs from 4 in its stride, 257 words a channel; with
random values both are random words on random banks.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim.address_patterns import Affine, RandomBytes, RandomWords
from smlab.sim.instructions import Reason
from smlab.sim.reference import Record
from smlab.sim.simulate import simulate
from smlab.sim.workloads.histogram import share_of
from smlab.sim.workloads.workload import Instruction, Kernel, Loop, Program

ROWS: Final = 1_048_576
CHANNELS: Final = 512
SOURCE: Final = "Histogram Work Log, public notes of June 2026 on an H100 SXM (CUDA 13, ncu 2025.3.1)"


@dataclass(frozen=True)
class ChannelHistogram:
    """A kernel of the work log: its launch, its loop, and what was measured.

    ``integer`` counts the integer instructions an atomic beside load and atomic; ``images`` the loads that
    are issued before the first of their atomics. Measured: ``ms`` as a mean of runs, stalls in cycles an
    issued instruction.
    """

    entry: int
    warps: int
    blocks: int
    images: int
    integer: int
    in_shared: bool
    ms: float
    long_scoreboard: float | None = None
    mio_throttle: float | None = None
    issue_active_percent: float | None = None


ENTRIES: Final = (
    ChannelHistogram(3, 8, 4096, 1, 8, False, 6.770),
    ChannelHistogram(4, 16, 2048, 1, 13, True, 0.816, 38.0, 0.01, 34.6),
    ChannelHistogram(5, 16, 2048, 1, 13, True, 0.813),
    ChannelHistogram(6, 16, 2048, 8, 11, True, 0.359, 6.01, 1.94, 64.7),
    ChannelHistogram(8, 32, 512, 8, 10, True, 0.343, 6.95, 2.56, None),
)


@dataclass(frozen=True)
class ChannelResult:
    """What a share of the GPU makes of an entry; ``ms`` is the whole kernel's time. Stalls are in cycles an
    instruction."""

    ms: float
    long_scoreboard: float
    mio_throttle: float
    short_scoreboard: float
    issue_active_percent: float
    stage_percent: float


def kernel_of(entry: ChannelHistogram, blocks: int, sms: int) -> Kernel:
    """``blocks`` of the entry's blocks on ``sms`` SMs."""
    grid_warps = entry.blocks * entry.warps
    rounds = ROWS * CHANNELS // 32 // grid_warps // entry.images
    own = blocks * entry.warps
    body: list[Instruction] = []
    for k in range(entry.images):
        memory = Affine(1, 32, 32 * own * entry.images, 32 * own * k)
        body.append(Instruction("global-load", name=f"x{k}", memory=memory))
        body += [Instruction("int32")] * (entry.integer // 2)
    for k in range(entry.images):
        body += [Instruction("int32")] * (entry.integer - entry.integer // 2 - 1)
        body.append(Instruction("int32", name=f"at{k}", after=(f"x{k}",)))
        if entry.in_shared:
            words = RandomWords(32 * 256)
            atomic = Instruction("atomic-popc-inc", after=(f"at{k}",), shared=words, returns=False)
        else:
            counts = RandomBytes(4 * 256 * CHANNELS, 2**40)
            atomic = Instruction("global-reduce", after=(f"at{k}",), memory=counts)
        body.append(atomic)
    body.append(Instruction("control"))
    head: tuple[Instruction | Loop, ...] = ()
    tail: tuple[Instruction | Loop, ...] = ()
    if entry.in_shared:
        steps = 32 * 256 // (32 * entry.warps)
        clear = Loop(steps, (Instruction("shared-store"),))
        flush = (
            Instruction("shared-load", name="bin"),
            Instruction("global-reduce", after=("bin",), memory=Affine(4, 128, 128 * entry.warps, 2**40)),
        )
        head = (clear, Instruction("barrier"))
        tail = (Instruction("barrier"), Loop(steps, flush))
    program = Program(f"entry-{entry.entry}", (*head, Loop(rounds, tuple(body)), *tail))
    return Kernel(
        name=f"entry-{entry.entry}",
        programs=(program,),
        roles=((0,) * entry.warps,),
        blocks=blocks,
        shared_bytes_per_block=32 * 1024 if entry.in_shared else 0,
        sms=sms,
    )


def simulate_entry(gpu: Gpu, entry: ChannelHistogram) -> ChannelResult:
    """Simulate an entry on one SM, with its share of the blocks, of L2 and of DRAM."""
    whole = gpu.integer("gpu.sms")
    blocks = max(1, round(entry.blocks / whole))
    result = simulate(kernel_of(entry, blocks, 1), share_of(gpu, 1), keep=Record.TOTALS)
    scale = entry.blocks / whole / blocks
    stalls = result.warps.stall_cycles.sum(axis=0) / result.warp_instructions
    return ChannelResult(
        ms=1e3 * scale * result.cycles / gpu.number("clock.sm_hz"),
        long_scoreboard=float(stalls[Reason.LONG_SCOREBOARD]),
        mio_throttle=float(stalls[Reason.MIO_THROTTLE]),
        short_scoreboard=float(stalls[Reason.SHORT_SCOREBOARD]),
        issue_active_percent=100 * result.warp_instructions / (4 * result.cycles),
        stage_percent=100 * sum(s.stage_occupied_cycles for s in result.sms) / result.cycles,
    )
