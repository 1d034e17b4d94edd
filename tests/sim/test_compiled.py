"""What the compiled engine promises beyond equal events: threads, slices, growing tables, messages, tables
in bulk."""

import _thread
import dataclasses
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import (
    Instruction,
    Kernel,
    Loop,
    Program,
    Record,
    atomics,
    compiled,
    reference,
    service_table,
    simulate,
)
from smlab.sim.address_patterns import RandomBytes, RandomWords
from smlab.sim.compiled import engine, kernel_arrays
from smlab.sim.compiled.service_tables import batch_cycles, looped_cycles
from smlab.sim.lowering import LoweredKernel, lower
from smlab.sim.machine import Machine, machine_from
from smlab.sim.policies import POLICIES
from smlab.sim.result import SimResult
from smlab.sim.traces.compare import first_difference


@pytest.fixture(scope="module")
def machine() -> Machine:
    return machine_from(load_gpu("v100"))


def assert_same(a: SimResult, b: SimResult) -> None:
    difference = first_difference(a, b)
    assert difference is None, difference


def mix(machine: Machine, sms: int = 6, iterations: int = 20, blocks: int = 0) -> LoweredKernel:
    body = (
        Instruction("atomic-add", shared=RandomWords(128), returns=False),
        Instruction("shared-load", name="x"),
        Instruction("int32", after=("x",)),
    )
    kernel = Kernel(
        "mix", (Program("p", (Loop(iterations, body),)),), ((0,) * 8,), blocks or sms, 4096, sms=sms
    )
    return lower(kernel, machine, seed=5)


def streaming(machine: Machine) -> LoweredKernel:
    load = Instruction("global-load", memory=RandomBytes(1 << 20))
    return lower(
        Kernel("s", (Program("p", (Loop(20, (load,)),)),), ((0,) * 16,), blocks=4, sms=2), machine, seed=5
    )


def test_results_are_the_same_from_run_to_run(machine: Machine) -> None:
    lowered = mix(machine)
    assert_same(compiled.run(lowered, Record.ALL), compiled.run(lowered, Record.ALL))


@pytest.mark.parametrize("keep", Record)
def test_results_are_the_same_on_any_number_of_threads(machine: Machine, keep: Record) -> None:
    lowered = mix(machine)
    one = compiled.run(lowered, keep, threads=1)
    for threads in (2, 5):
        assert_same(one, compiled.run(lowered, keep, threads=threads))


def test_blocks_that_wait_for_room_are_handed_out_in_order_on_any_number_of_threads(machine: Machine) -> None:
    lowered = mix(dataclasses.replace(machine, max_blocks=2), sms=3, blocks=20)
    one = compiled.run(lowered, threads=1)
    assert_same(one, compiled.run(lowered, threads=2))
    assert_same(one, dataclasses.replace(reference.run(lowered), engine="compiled"))


@pytest.mark.parametrize("steps", [1, 2, 7, 1000])
def test_the_length_of_a_slice_does_not_matter(
    machine: Machine, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for lowered in (mix(machine), streaming(machine)):
        expected = compiled.run(lowered, Record.ALL)
        with monkeypatch.context() as patch:
            patch.setattr(engine, "SLICE", steps)
            assert_same(expected, compiled.run(lowered, Record.ALL))


def test_progress_is_told_after_each_slice(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SLICE", 10)
    told: list[tuple[int, int]] = []
    compiled.run(mix(machine, sms=2, blocks=40), progress=lambda done, of: told.append((done, of)))
    assert len(told) > 10
    assert told == sorted(told)
    assert told[-1] == (40, 40)


@pytest.mark.parametrize("threads", [1, 2])
def test_control_c_stops_a_run_soon(machine: Machine, threads: int) -> None:
    compiled.run(mix(machine))  # compiled or loaded before the clock starts
    endless = mix_of_fixed_words(machine)
    interruption = threading.Timer(0.3, _thread.interrupt_main)
    interruption.start()
    begun = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        compiled.run(endless, Record.TOTALS, threads=threads)
    interruption.join()
    assert time.perf_counter() - begun < 3


def mix_of_fixed_words(machine: Machine) -> LoweredKernel:
    """A kernel that runs for hours."""
    body = (Instruction("atomic-add", returns=False), Instruction("int32"))
    return lower(
        Kernel("long", (Program("p", (Loop(1 << 30, body),)),), ((0,) * 8,), 4, 4096, sms=4), machine
    )


def test_tables_grow_as_needed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    for lowered in (mix(machine), streaming(machine)):
        expected = compiled.run(lowered, Record.ALL)
        with monkeypatch.context() as patch:
            patch.setattr(kernel_arrays, "FIRST_ROWS", 8)
            patch.setattr(kernel_arrays, "FIRST_ACCESSES", 8)
            assert_same(expected, compiled.run(lowered, Record.ALL))
            assert_same(expected, compiled.run(lowered, Record.ALL, threads=2))


def messages(lowered: LoweredKernel, max_cycles: int | None) -> list[str]:
    found = []
    for run in (reference.run, compiled.run):
        with pytest.raises(SmlabError) as caught:
            run(lowered, Record.TOTALS, max_cycles, None)
        found.append(str(caught.value))
    return found


def test_both_engines_give_up_in_the_same_cycle_with_the_same_words(machine: Machine) -> None:
    for lowered in (mix(machine, sms=2), streaming(machine)):
        cycles = compiled.run(lowered).cycles
        assert compiled.run(lowered, max_cycles=cycles).cycles == cycles
        assert reference.run(lowered, max_cycles=cycles).cycles == cycles
        for allowed in (0, 1, cycles // 2, cycles - 1):
            by_reference, by_compiled = messages(lowered, allowed)
            assert by_reference == by_compiled
            assert "not finished after the allowed cycles" in by_reference


def test_both_engines_say_that_a_block_never_fits_with_the_same_words(machine: Machine) -> None:
    lowered = mix(dataclasses.replace(machine, max_blocks=0))
    by_reference, by_compiled = messages(lowered, None)
    assert by_reference == by_compiled
    assert "came to a stop" in by_reference
    by_reference, by_compiled = messages(lowered, 10)
    assert by_reference == by_compiled


def test_what_the_compiled_engine_does_not_do_it_says(machine: Machine) -> None:
    lopsided = dataclasses.replace(machine, schedulers=1, max_warps=128, max_threads=4096, registers=1 << 20)
    kernel = atomics(warps=32, blocks=4)
    with pytest.raises(SmlabError, match="more warps of one scheduler.*got 128; expected at most 64"):
        compiled.run(lower(kernel, lopsided))
    add = dataclasses.replace(machine.atomics["add"], base_ticks=0, pass_ticks=1 << 18)
    quick = dataclasses.replace(machine, atomics={**machine.atomics, "add": add})
    with pytest.raises(SmlabError, match="interval is too short"):
        compiled.run(lower(atomics(lanes=1), quick))


def test_a_long_loop_takes_no_room(machine: Machine) -> None:
    """Tables for records grow with what is recorded, not with what a program could do at most."""
    with pytest.raises(SmlabError, match="not finished"):
        compiled.run(lower(atomics(iterations=10**9), machine), Record.ALL, 1000)


SAMPLES = [(1, 1, 0), (1, 32, 1), (2, 7, 1), (31, 13, 5), (32, 32, 32), (33, 4, 33), (47, 9, 0), (64, 32, 20)]


@pytest.mark.parametrize("op", ["add", "cas"])
def test_tables_in_bulk_are_those_made_point_by_point(machine: Machine, op: str) -> None:
    n, e, c = np.array(SAMPLES).T
    for threads in (1, 2):
        batch = batch_cycles(machine, op, n, e, c, threads=threads)
        looped = looped_cycles(machine, op, n, e, c, threads=threads)
        for k, point in enumerate(SAMPLES):
            assert batch[k] == service_table.batch_cycles(machine, op, *point, engine="simpy"), point
            assert looped[k] == service_table.looped_cycles(machine, op, *point, engine="simpy"), point


def test_bulk_tables_take_arrays_of_any_shape(machine: Machine) -> None:
    jobs, lanes = np.arange(1, 6)[:, None], np.arange(1, 4)
    cycles = batch_cycles(machine, "add", jobs, lanes, 0)
    assert cycles.shape == (5, 3)
    assert cycles[2, 1] == batch_cycles(machine, "add", 3, 2, 0)
    assert batch_cycles(machine, "add", [], [], []).shape == (0,)


def test_bulk_tables_where_popc_inc_merges_lanes() -> None:
    machine = machine_from(load_gpu("a100-40"))
    points = [(5, 32, 0), (40, 3, 11)]
    n, e, c = np.array(points).T
    expected = [service_table.batch_cycles(machine, "popc-inc", *point, engine="simpy") for point in points]
    assert batch_cycles(machine, "popc-inc", n, e, c).tolist() == expected


def test_bulk_tables_refuse_points_that_are_none(machine: Machine) -> None:
    with pytest.raises(SmlabError, match="cas_jobs: out of range .got 4; expected 0 to 3"):
        batch_cycles(machine, "add", [3, 3], [1, 1], [3, 4])
    with pytest.raises(SmlabError, match="warps: out of range .got 0"):
        batch_cycles(machine, "add", 0, 1, 0)
    with pytest.raises(SmlabError, match="lanes: out of range .got 33"):
        batch_cycles(machine, "add", 1, 33, 0)
    with pytest.raises(SmlabError, match="no such shared-memory atomic"):
        batch_cycles(machine, "popc-inc", 1, 1, 0)


def test_another_process_loads_what_is_compiled_already(machine: Machine) -> None:
    compiled.run(mix(machine, iterations=1))
    program = (
        "import logging; logging.basicConfig(level=20);"
        "from smlab.sim import atomics, compiled; from smlab.sim.lowering import lower; from "
        "smlab.sim.machine import machine_from; from smlab.hw_bench.gpu.descriptions import load_gpu;"
        "print(compiled.run(lower(atomics(), machine_from(load_gpu('v100')))).cycles)"
    )
    environment = {key: value for key, value in os.environ.items() if key != "SMLAB_COMPILING_TOLD"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) > 0
    assert "compiling" not in done.stderr


def test_a_policy_that_only_the_reference_has_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICIES, "youngest", lambda eligible, last: max(eligible, key=lambda w: w.age))
    gpu, kernel = load_gpu("v100"), atomics(iterations=3)
    assert simulate(kernel, gpu, engine="simpy", policy="youngest").warp_instructions == 24
    with pytest.raises(
        SmlabError, match="not in the compiled engine .got 'youngest'; expected --engine simpy"
    ):
        simulate(kernel, gpu, engine="compiled", policy="youngest")


def test_a_grid_of_more_than_a_million_warps_runs_whole(machine: Machine) -> None:
    """Each warp has its row: which block it was of, on which SM, and when."""
    blocks = 2**17 + 1
    kernel = Kernel("many", (Program("p", (Instruction("int32"),)),), ((0,) * 16,), blocks, sms=80)
    result = compiled.run(lower(kernel, machine), Record.TOTALS)
    assert (result.warps.block == np.repeat(np.arange(blocks), 16)).all()
    assert (result.blocks.retire > result.blocks.launch).all()
    assert result.warp_instructions == len(result.warps.warp)
    assert set(result.warps.sm.tolist()) == set(range(80))


def test_a_grid_of_too_many_warps_is_refused_with_what_to_do(machine: Machine) -> None:
    with pytest.raises(
        SmlabError,
        match=r"2097152 blocks of 8.*at most 4194304 in all; of a larger grid a sample \(smlab run --sms N\)",
    ):
        Kernel("m", (Program("p", (Instruction("int32"),)),), ((0,) * 8,), 2**21)
