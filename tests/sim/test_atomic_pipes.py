"""An atomic unit with several pipes: the rule by hand, the two engines, the laws, and what one pipe leaves
unchanged."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import (
    Duration,
    Instruction,
    Kernel,
    Loop,
    Program,
    Record,
    atomics,
    compiled,
    reference,
    simulate,
)
from smlab.sim.lowering import lower
from smlab.sim.machine import TICKS_PER_CYCLE, AtomicTiming, Machine, machine_from
from smlab.sim.service_table import service_table
from smlab.sim.traces.compare import first_difference
from smlab.validation.laws.identities import Run, violations
from smlab.validation.laws.strategies import kernels, machines

ENGINES = {"simpy": reference.run, "compiled": compiled.run}


def plain_machine(pipes: int, entries: int = 16) -> Machine:
    """Two schedulers whose path takes an atomic a cycle after its issue; an add keeps its pipe for 10 cycles
    and a compare-and-swap for 4, and both complete 20 later."""
    timing = {
        "add": AtomicTiming(10 * TICKS_PER_CYCLE, 0, 20),
        "cas": AtomicTiming(4 * TICKS_PER_CYCLE, 0, 20),
    }
    return dataclasses.replace(
        machine_from(load_gpu("v100")),
        schedulers=2,
        block_launch_cycles=0,
        front_cycles=1,
        address_ticks=TICKS_PER_CYCLE,
        atomic_address_ticks=TICKS_PER_CYCLE,
        mio_queue_entries=64,
        atomics=timing,
        atomic_pipes=pipes,
        atomic_queue_entries=entries,
    )


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_a_sub_core_has_its_own_pipe(engine: str) -> None:
    # Warps 0 and 1 lie in two sub-cores. Taken in turn from cycle 1 on; each pipe works its own queue off.
    add, cas = (Instruction(f"atomic-{op}", lanes=1, returns=False) for op in ("add", "cas"))
    kernel = Kernel(
        "k", (Program("a", (add, cas)), Program("c", (cas, cas))), ((0, 1),), shared_bytes_per_block=128
    )
    jobs = ENGINES[engine](lower(kernel, plain_machine(2)), Record.ALL).jobs
    assert jobs.warp.tolist() == [0, 1, 0, 1]
    assert jobs.taken.tolist() == [1, 2, 3, 4]
    assert jobs.start.tolist() == [1, 2, 11, 6]
    assert jobs.end.tolist() == [11, 6, 15, 10]
    # With one pipe they are served in the order in which they were taken.
    jobs = ENGINES[engine](lower(kernel, plain_machine(1)), Record.ALL).jobs
    assert jobs.start.tolist() == [1, 11, 15, 19]


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_a_full_pipe_holds_its_sub_core_up_and_not_the_other(engine: str) -> None:
    add, cas = (Instruction(f"atomic-{op}", lanes=1, returns=False) for op in ("add", "cas"))
    kernel = Kernel(
        "k", (Program("a", (add, add)), Program("c", (cas, cas))), ((0, 1),), shared_bytes_per_block=128
    )
    jobs = ENGINES[engine](lower(kernel, plain_machine(2, entries=1)), Record.ALL).jobs
    assert jobs.taken.tolist() == [1, 2, 11, 6]


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_rounds_drain(engine: str) -> None:
    # Three adds of one warp, taken in cycles 1, 2 and 3. The first is a round of its own, since it is alone
    # when it starts; the other two wait for its end and the gap, and follow each other.
    machine = dataclasses.replace(plain_machine(1), atomic_round_gap_cycles=5)
    add = Instruction("atomic-add", lanes=1, returns=False)
    kernel = Kernel("k", (Program("a", (add,) * 3),), ((0,),), shared_bytes_per_block=128)
    jobs = ENGINES[engine](lower(kernel, machine), Record.ALL).jobs
    assert jobs.start.tolist() == [1, 16, 26]


@given(machines(), kernels(), st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(1, 6))
def test_engines_agree_and_laws_hold(
    machine: Machine, kernel: Kernel, seed: int, pipes: int, entries: int
) -> None:
    machine = dataclasses.replace(machine, atomic_pipes=pipes, atomic_queue_entries=entries)
    lowered = lower(kernel, machine, seed)
    expected, found = reference.run(lowered, Record.ALL), compiled.run(lowered, Record.ALL)
    assert first_difference(expected, found) is None
    assert violations(Run(found, kernel, machine)) == []


def test_a_law_sees_a_job_in_the_wrong_pipe() -> None:
    body = (Loop(20, (Instruction("atomic-add", lanes=1, returns=False),)),)
    kernel = Kernel("k", (Program("p", body),), ((0,) * 4,), shared_bytes_per_block=128)
    machine = plain_machine(2)
    result = compiled.run(lower(kernel, machine), Record.ALL)
    assert violations(Run(result, kernel, machine)) == []
    start = result.jobs.start.copy()
    start[10] += 1
    wrong = dataclasses.replace(result, jobs=dataclasses.replace(result.jobs, start=start))
    assert any("start when they can" in v.law for v in violations(Run(wrong, kernel, machine)))


def test_a_description_without_the_key_has_one_pipe() -> None:
    gpu = load_gpu("v100")
    assert not gpu.has("atomic.pipes")
    assert machine_from(gpu).atomic_pipes == 1
    one = gpu.with_values({"atomic.pipes": 1}, source="assumed: a test")
    kernel = atomics(warps=16, iterations=20)
    assert simulate(kernel, one).cycles == simulate(kernel, gpu).cycles
    with pytest.raises(SmlabError, match=r"atomic.pipes: out of range .*got 0"):
        gpu.with_values({"atomic.pipes": 0}, source="assumed: a test")


def test_two_pipes_are_a_saturated_queue_with_two_servers() -> None:
    """Exponential times, all warps always there: the throughput of a closed M/M/k is k / S exactly while
    none idles."""
    service = Duration(50, "exponential")
    body = (Loop(400, (Instruction("atomic-add", lanes=1, returns=False, duration=service),)),)
    kernel = Kernel("k", (Program("p", body),), ((0,) * 16,), shared_bytes_per_block=128)
    rates = []
    for pipes in (1, 2):
        gpu = load_gpu("v100").with_values({"sm.schedulers": 4, "atomic.pipes": pipes}, source="a test")
        result = simulate(kernel, gpu, seed=3)
        rates.append(16 * 400 / result.cycles)
    # 6,400 services of variance 50^2: the total is within 4 standard errors of its mean.
    bound = 4 / np.sqrt(16 * 400 / 2)  # of one of two pipes
    for pipes, rate in zip((1, 2), rates, strict=True):
        assert rate == pytest.approx(pipes / 50, rel=bound)


def test_tables_in_bulk_know_the_pipes() -> None:
    gpu = load_gpu("v100").with_values({"atomic.pipes": 2}, source="assumed: a test")
    given = {"jobs": [1, 7, 32], "lanes": [1, 32], "cas_jobs": [0, 3]}
    for form in ("batch", "looped"):
        a = service_table(gpu, form=form, engine="compiled", **given)
        b = service_table(gpu, form=form, engine="simpy", **given)
        np.testing.assert_array_equal(a.values, b.values)
        one = service_table(load_gpu("v100"), form=form, **given)
        # One lane: two pipes work side by side. 32 lanes on a word fill the data stage before them.
        few, many = ({"n": 32, "e": e, "c": 0} for e in (1, 32))
        assert float(one.sel(**few)) > 1.5 * float(a.sel(**few))
        assert float(one.sel(**many)) < 1.2 * float(a.sel(**many))
