"""A profiled kernel as warps on one SM that can be replayed: what each instruction takes, fitted to samples.

From the code come the order of issue, the stall counts and the scoreboards, from counters how often each
instruction was executed and how busy each resource was, from the GPU's description the pipes and the unloaded
latencies. What remains unknown, which cache each access hits and how long the queues behind it are, is fitted
(`fitting`): until the replay waits at each instruction as long as the samples say.

`KernelModel.cycles` then replays the kernel as it is or changed; a ratio of two replays is a speedup.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.models.advisor.changes.matching import Context
from smlab.models.advisor.estimates.fitting import VARIANTS, NoPathError, ReplayFit
from smlab.models.advisor.estimates.program import WarpProgram, program_of, steps_of
from smlab.models.advisor.estimates.replay import Frame, replay
from smlab.models.advisor.estimates.service_demands import PIPES, Costs, instructions_a_line
from smlab.models.advisor.stall_causes.warp_paths import PathReading, paths_of, uneven_loops
from smlab.models.projection.parallelism import resident_blocks

MOST_WAVES: Final = 3
"""Blocks replayed one after the other in each place of an SM, at most."""
UNEVEN_BELOW: Final = 0.9
"""The replay's time over the profile's, below which warps with unequal work are tried."""
WARP: Final = 32
FULL: Final = 31.5
"""Active lanes in the mean from which on none is missing."""
LEAVING: Final = 0.95
"""Share of the lanes that came to a loop, below which they leave it one by one."""
SKEWS: Final = (0.25, 0.5, 1.0, 2.0, 4.0)


class KernelModel:
    """A kernel that can be replayed, from its profile; ``before`` is its replay as it is.

    ``error`` is by how much its waits differ from those of the samples, as a share of them all; ``ratio`` is
    its time over the profile's, None where that does not tell it; ``uneven`` says that warps do unequal work,
    as far as can be seen.

    Raises:
        SmlabError: a description without a constant that the replay needs.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.frame, self.sms = frame_of(context)
        fits = self._fits()
        best = min(fits, key=lambda fit: fit.mismatch)
        self.uneven = best.reading.skew > 0 or best.reading.gathered
        self.frame, self.paths, self.program, self.costs = best.frame, best.paths, best.program, best.costs
        self.before, self.error = best.before, best.error
        self.ratio = best.ratio if context.samples.launch.cycles else None

    def _fits(self) -> list[ReplayFit]:
        """Readings of the paths, all alike first; the one whose replay takes the profile's time is believed.
        Only where warps wait for each other does it matter which of them does what: that some work more than
        others is then seen by the time."""
        context = self.context

        def read(reading: PathReading) -> ReplayFit:
            return ReplayFit(context, self.frame, self.sms, reading)

        fits = [read(PathReading())]
        if not any(i.opcode == "BAR" for i in context.code.instructions):
            return fits
        if len(fits[0].paths) > 1:
            fits.append(read(PathReading(gathered=True)))
        waiting = sum(row.stalled.get("barrier", 0) for row in context.rows.values())
        uneven = fits[0].ratio < UNEVEN_BELOW and waiting > 0
        if uneven and self.frame.warps_of_block > 1 and uneven_loops(context.code):
            fits += [read(PathReading(skew=skew)) for skew in SKEWS]
        return fits

    @cached_property
    def regrouped(self) -> WarpProgram:
        """The program if lanes that go one way were in warps of their own: each instruction is executed by
        as many warps as its lanes fill. Where lanes leave a loop one by one, warps then do, and the longest
        goes as many rounds as before."""
        left = self._lanes_left
        weights = [self.context.executed[header] for header in left]
        mean = np.average([*left.values()], weights=weights) if left else 1.0
        skew = float(1 / mean - 1)
        return self._by_lanes(PathReading(skew=skew, uneven=frozenset(left), regrouped=True))

    @cached_property
    def _lanes(self) -> dict[int, float]:
        """The share of its lanes that an instruction is executed by, those included that its own predicate
        keeps back: that of the instruction of its block that most lanes execute."""
        code, rows = self.context.code, self.context.rows
        shares: dict[int, float] = {}
        for block in code.flow.blocks:
            mine = [code.number[i.address] for i in block.instructions]
            most = max((rows[n].active_lanes for n in mine if n in rows), default=WARP)
            shares |= dict.fromkeys(mine, min(most / FULL, 1.0))
        return shares

    @property
    def _lanes_left(self) -> dict[int, float]:
        """For each loop that lanes leave one by one the share of those that came that are there in a
        round."""
        code, shares = self.context.code, {}
        for loop in code.loops:
            if not self.context.executed.get(loop.header):
                continue
            before = code.flow.immediate_dominator(code.block_of[loop.header])
            entered = self._lanes[code.first_of(before)] if before is not None else 1.0
            if (left := self._lanes[loop.header] / entered) < LEAVING:
                shares[loop.header] = left
        return shares

    @cached_property
    def balanced(self) -> WarpProgram:
        """The program if what some warps and lanes do were done by all of them."""
        return self._by_lanes(PathReading())

    def _by_lanes(self, reading: PathReading) -> WarpProgram:
        """The program if each instruction were executed by as many warps as its lanes fill."""
        context, warps = self.context, self.frame.warps_of_block
        executed = {n: times * self._lanes.get(n, 1.0) for n, times in context.executed.items()}
        blocks = max(1.0, float(context.samples.launch.blocks or 1))
        paths = paths_of(context.code, executed, blocks * warps, min(VARIANTS, warps), reading)
        if not paths:
            return self.program
        return program_of(context.code, paths, self.costs.stall, instructions_a_line(context.gpu))

    def merged(self, factor: float) -> Frame:
        """The frame if so many blocks became one, as far as an SM holds their warps."""
        facts, frame = self.context.samples.launch, self.frame
        warps = max(1, round(frame.warps_of_block * factor))
        registers, shared = facts.registers_per_thread or 32, facts.shared_bytes_per_block or 0
        held = int(resident_blocks(self.context.gpu, WARP * warps, registers, round(shared * factor)))
        blocks = max(1, round(frame.blocks / factor))
        return frame._replace(warps_of_block=warps, resident=max(1, min(held, blocks)), blocks=blocks)

    def passes(self, number: int) -> float:
        """Mean passes of an access through the data stage."""
        row = self.context.rows.get(number)
        return (row.passes if row is not None else None) or 1.0

    def cycles(
        self, costs: Costs | None = None, program: WarpProgram | None = None, frame: Frame | None = None
    ) -> int:
        """Cycles of the kernel with other costs, as another program, or with other warps on the SM."""
        steps = steps_of(program or self.program, costs or self.costs)
        return replay(steps, frame or self.frame).cycles


def model_of(context: Context) -> KernelModel | None:
    """The kernel as it can be replayed, made once; None without counts of executions, or where these are not
    those of the launch (each warp executes the first instruction) or make no path through the code."""
    if "model" not in context.cache:
        frame, _ = frame_of(context)
        warps = (context.samples.launch.blocks or 1) * frame.warps_of_block
        counted = (
            any(row.executed for row in context.samples.rows) and 2 * context.executed.get(0, 0.0) > warps
        )
        context.cache["model"] = None
        if counted and context.samples.samples:
            with suppress(NoPathError):
                context.cache["model"] = KernelModel(context)
    model = context.cache["model"]
    assert model is None or isinstance(model, KernelModel)
    return model


def frame_of(context: Context) -> tuple[Frame, float]:
    """The SM and what of the launch it runs, and how many SMs have work."""
    gpu, facts = context.gpu, context.samples.launch
    threads = facts.threads_per_block or 256
    sms = facts.sms or gpu.integer("gpu.sms")
    blocks = facts.blocks or sms
    registers, shared = facts.registers_per_thread or 32, facts.shared_bytes_per_block or 0
    run = -(-blocks // sms)
    resident = max(1, min(int(resident_blocks(gpu, threads, registers, shared)), run))
    if run > MOST_WAVES * resident:
        run = (MOST_WAVES - 1) * resident + (run % resident or resident)
    return _frame(gpu, -(-threads // 32), resident, run), min(float(sms), blocks)


def _frame(gpu: Gpu, warps_of_block: int, resident: int, blocks: int) -> Frame:
    return Frame(
        schedulers=gpu.integer("sm.schedulers"),
        pipes=len(PIPES),
        queue_entries=gpu.integer("mio.queue_entries"),
        front=gpu.integer("mio.front_cycles"),
        address_interval=gpu.number("mio.address_interval_cycles"),
        atomic_address_interval=gpu.number("atomic.address_interval_cycles"),
        request_interval=gpu.number("mio.request_interval_cycles"),
        atomic_pipes=gpu.integer("atomic.pipes") if gpu.has("atomic.pipes") else 1,
        atomic_entries=gpu.integer("atomic.queue_entries"),
        barrier_latency=round(gpu.number("sm.barrier_latency_cycles")),
        barrier_interval=gpu.integer("sm.barrier_interval_cycles"),
        launch_cycles=gpu.integer("sm.block_launch_cycles"),
        code_lines=gpu.integer("icache.l0_bytes") // gpu.integer("icache.line_bytes"),
        prefetch_lines=gpu.integer("icache.ahead_lines"),
        fetch_cycles=gpu.integer("icache.l0_miss_cycles"),
        warps_of_block=warps_of_block,
        resident=resident,
        blocks=blocks,
        recent_last=gpu.text("sm.scheduler_policy") in ("glr", "lrr"),
    )
