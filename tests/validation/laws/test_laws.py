"""The law checker: sound runs satisfy every law, and a broken engine is caught by at least one."""

import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Instruction, Kernel, Loop, Program, Record, atomics, reference
from smlab.sim.address_patterns import Affine, Grouped
from smlab.sim.instructions import Reason, Unit
from smlab.sim.lowering import lower
from smlab.sim.machine import machine_from
from smlab.sim.reference.memory import MemorySystem
from smlab.sim.reference.path import MemoryPath, Subcore
from smlab.sim.reference.trace_rows import Meter, Recorder
from smlab.sim.reference.units import AtomicPipe, WholeCycles
from smlab.sim.reference.warp import Job, Warp
from smlab.validation.laws.identities import LAWS, Run, area_by_sweep, busy_by_union, violations
from smlab.validation.laws.strategies import for_each_drawn, runs


@given(runs())
def test_every_law_holds_on_drawn_runs(run: Run) -> None:
    assert violations(run) == []


def contended_run(keep: Record = Record.ALL) -> Run:
    """Eight warps that keep the atomic unit busy, think, load, and meet at a barrier."""
    body = (
        Loop(
            6,
            (
                Instruction("shared-load", name="x"),
                Instruction("fp32", name="y", after=("x",)),
                Instruction("atomic-add", name="a", after=("y",), lanes=8, shared=Grouped(8)),
            ),
        ),
        Instruction("barrier"),
        Loop(4, (Instruction("atomic-cas", shared=Grouped(32), returns=False),)),
    )
    kernel = Kernel("contended", (Program("p", body),), ((0,) * 8,), 2, shared_bytes_per_block=4096)
    # With few places in the pipe, so that it fills.
    gpu = load_gpu("v100").with_values({"atomic.queue_entries": 2}, source="a test")
    machine = machine_from(gpu)
    return Run(reference.run(lower(kernel, machine), keep), kernel, machine)


def crowded_run() -> Run:
    """Four SMs that add to the same 256 bytes, all in one slice of L2."""
    added = Instruction("global-reduce", memory=Affine(warp_stride_bytes=0))
    program = Program("p", (Loop(8, (added,)),))
    kernel = Kernel("crowded", (program,), ((0,) * 8,), 4, sms=4, in_l2=(0, 1 << 10))
    machine = machine_from(load_gpu("rtx-2070-super"))
    return Run(reference.run(lower(kernel, machine), Record.ALL), kernel, machine)


def test_a_sound_run_has_no_violations() -> None:
    assert violations(contended_run()) == violations(crowded_run()) == []


def test_what_loads_on_their_way_keep_the_arbiter_is_no_other_time() -> None:
    """Four sub-cores load one line of global memory."""

    def run(lookups: int) -> Run:
        keys = {"l1.pending_lookups": lookups, "mio.request_interval_cycles": 2}
        machine = machine_from(load_gpu("v100").with_values(keys, source="test"))
        load = Instruction("global-load", memory=Affine(lane_stride_bytes=4, warp_stride_bytes=0))
        kernel = Kernel("k", (Program("p", (load,)),), ((0,) * 4,))
        return Run(reference.run(lower(kernel, machine), Record.ALL), kernel, machine)

    three = run(3)
    assert violations(three) == violations(run(0)) == []
    for other in (0, 1, 2, 4):
        judged_by = dataclasses.replace(three, machine=run(other).machine)
        assert {v.law for v in violations(judged_by)} == {"requests are taken by the rules"}


def test_laws_ask_for_a_full_recording() -> None:
    with pytest.raises(SmlabError, match="recorded everything"):
        violations(contended_run(Record.ATOMICS))


def break_meter_losing_a_completion(monkeypatch: pytest.MonkeyPatch) -> None:
    """The 20th departure is not counted."""
    sound, seen = Meter.change, [0]

    def change(self: Meter, now: int, by: int) -> None:
        seen[0] += by < 0
        sound(self, now, 0 if by == -1 and seen[0] == 20 else by)

    monkeypatch.setattr(Meter, "change", change)


def break_trace_losing_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """One completed job is not written to the trace."""
    sound, seen = Recorder.job, [0]

    def job(self: Recorder, job: Job, sm: int) -> None:
        seen[0] += job.operation.cls.unit is Unit.ATOMIC
        if seen[0] != 20 or job.operation.cls.unit is not Unit.ATOMIC:
            sound(self, job, sm)

    monkeypatch.setattr(Recorder, "job", job)


def break_warp_counting_a_cycle_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """One cycle of one warp is booked to its reason twice."""
    sound, seen = Warp.charge, [0]

    def charge(self: Warp, now: int, reason: Reason) -> None:
        seen[0] += 1
        if seen[0] == 30:
            self.stall_cycles[self.reason] += 1
        sound(self, now, reason)

    monkeypatch.setattr(Warp, "charge", charge)


def break_meter_counting_a_busy_cycle_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Busy time gains a cycle each seven changes."""
    sound, seen = Meter.change, [0]

    def change(self: Meter, now: int, by: int) -> None:
        seen[0] += 1
        self.busy += seen[0] % 7 == 0
        sound(self, now, by)

    monkeypatch.setattr(Meter, "change", change)


def break_job_with_negative_residence(monkeypatch: pytest.MonkeyPatch) -> None:
    """One job is said to have completed before it was issued."""
    sound, seen = MemoryPath.complete_after, [0]

    def complete_after(self: MemoryPath, job: Job, cycles: int) -> None:
        seen[0] += 1
        if seen[0] == 20:
            job.issue = job.end + cycles + 5
        sound(self, job, cycles)

    monkeypatch.setattr(MemoryPath, "complete_after", complete_after)


def break_server_dropping_remainders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fractions of a cycle are thrown away instead of carried."""
    monkeypatch.setattr(WholeCycles, "take", lambda self, ticks: ticks >> 20)


def break_queue_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedulers issue into a full queue."""
    monkeypatch.setattr(MemoryPath, "has_room", lambda self, subcore: True)


def break_arbiter_that_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request is taken while the data stage still passes the one before."""
    sound = MemoryPath._take

    def take(self: MemoryPath, own: Subcore) -> None:
        sound(self, own)
        self.request_free_at = own.passing_until = self.clock.now + 1
        self.places_free_at = [self.clock.now + 1] * len(self.places_free_at)

    monkeypatch.setattr(MemoryPath, "_take", take)


def break_arbiter_that_prefers_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sub-cores do not take turns."""
    sound = MemoryPath._arbitrate

    def arbitrate(self: MemoryPath) -> None:
        self.last = -1
        sound(self)

    monkeypatch.setattr(MemoryPath, "_arbitrate", arbitrate)


def break_address_unit_that_is_too_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sub-core's next request is ready the cycle after the last one left."""
    sound = MemoryPath._next

    def following(self: MemoryPath, own: Subcore) -> None:
        own.free_at = min(own.free_at, self.clock.now + 1)
        sound(self, own)

    monkeypatch.setattr(MemoryPath, "_next", following)


def break_pipe_that_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """An atomic begins a cycle before the one ahead of it has ended."""
    sound = AtomicPipe.serve

    def serve(self: AtomicPipe, job: Job, now: int) -> int:
        if self.ends and self.ends[-1] > now:
            self.ends[-1] -= 1
        return sound(self, job, now)

    monkeypatch.setattr(AtomicPipe, "serve", serve)


def break_pipe_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The arbiter sends atomics into a pipe that has no room."""
    monkeypatch.setattr(AtomicPipe, "room_at", lambda self: 0)


def break_slice_that_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice of L2 begins with a sector before it has ended the one ahead."""
    sound = MemorySystem._slice

    def serve(self: MemorySystem, sector: int, arrival: int, ticks: int, past: int) -> int:
        self.slice_free_ticks = [0] * len(self.slice_free_ticks)
        return sound(self, sector, arrival, ticks, past)

    monkeypatch.setattr(MemorySystem, "_slice", serve)


def break_slice_that_forgets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """An atomic's lines take nothing of their slice."""
    sound = MemorySystem._slice
    monkeypatch.setattr(
        MemorySystem,
        "_slice",
        lambda self, sector, arrival, ticks, past: sound(
            self, sector, arrival, min(ticks, self.machine.l2_slices.atomic_sector_ticks), past
        ),
    )


FAULTS: dict[Callable[[pytest.MonkeyPatch], None], set[str]] = {
    break_meter_losing_a_completion: {"flow balance", "Little's law by area"},
    break_trace_losing_a_job: {"flow balance", "forced flow"},
    break_warp_counting_a_cycle_twice: {"stall reasons add up to resident cycles"},
    break_meter_counting_a_busy_cycle_twice: {"utilization law U = X S"},
    break_job_with_negative_residence: {"moments in order"},
    break_server_dropping_remainders: {"work done"},
    break_queue_without_bound: {"bounded queues"},
    break_arbiter_that_does_not_wait: {"requests are taken by the rules"},
    break_arbiter_that_prefers_the_first: {"requests are taken by the rules"},
    break_address_unit_that_is_too_quick: {"requests are taken by the rules"},
    break_pipe_that_overlaps: {"atomics start when they can"},
    break_pipe_without_bound: {"bounded queues"},
    break_slice_that_overlaps: {"slices of L2"},
    break_slice_that_forgets_lines: {"slices of L2"},
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_a_broken_engine_is_caught(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    caught = {v.law for run in (contended_run(), crowded_run()) for v in violations(run)}
    assert FAULTS[fault] <= caught


def test_the_faults_name_laws_that_exist() -> None:
    assert set().union(*FAULTS.values()) <= set(LAWS)


def test_busy_time_and_area_by_hand() -> None:
    jobs = reference.run(
        lower(atomics(warps=4, same_word=1), machine_from(load_gpu("v100"))), Record.ALL
    ).jobs
    assert jobs is not None
    assert busy_by_union(jobs) == int(jobs.completion.max() - jobs.issue.min())
    assert area_by_sweep(jobs.issue, jobs.completion) == int((jobs.completion - jobs.issue).sum())


def test_what_a_seed_draws_takes_nothing_from_the_modules_that_are_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Hypothesis would mix in constants that stand in them, and tasks before load modules."""
    drawn: list[list[int]] = []
    for loaded in ({123_456_789}, {987_654_321}):
        constants = providers.Constants(integers=loaded)
        monkeypatch.setattr(providers, "_get_local_constants", lambda constants=constants: constants)
        providers.CONSTANTS_CACHE.cache.clear()
        drawn.append([])
        for_each_drawn(st.integers(0, 10**9), 300, 3, drawn[-1].append)
    assert len(drawn[0]) == 300
    assert drawn[0] == drawn[1]
