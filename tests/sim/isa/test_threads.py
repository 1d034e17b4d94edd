"""Several threads simulate what one does: random workloads, random machine code, blocks that wait, faults;
kernels whose SMs meet in memory run on one thread in the end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass.image import listed_image
from smlab.sim import compiled
from smlab.sim.compiled import engine, kernel_arrays
from smlab.sim.execution.source import lower_machine_code
from smlab.sim.execution.thread_conflicts import order_matters
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.lowering import LoweredKernel, lower
from smlab.sim.machine import Machine, machine_from
from smlab.sim.reference import Record
from smlab.sim.result import SimResult
from smlab.sim.traces.compare import first_difference
from smlab.validation.checks import random_code
from smlab.validation.laws.strategies import for_each_drawn, kernels, machines

Launch = Callable[..., MachineLaunch]
SLICE_STEPS = engine.SLICE
MANY = 8
"""More threads than this machine may have processors."""
SERIAL = "runs on one thread"
AGAIN = "once more on one thread"


def assert_same(one: SimResult, other: SimResult) -> None:
    assert first_difference(one, other) is None
    for name in ("instruction_stalls", "instruction_executions"):
        a, b = getattr(one, name), getattr(other, name)
        assert (a is None and b is None) or np.array_equal(a, b), name


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Threads begin together. Whether more than one of them has run an SM, of each run on several."""
    seen: list[bool] = []
    run_threads, in_threads = engine.run_threads, engine.in_threads

    def watched(parts: list[engine.SmRange], *more: object) -> object:
        found = run_threads(parts, *more)  # type: ignore[arg-type]
        seen.append(sum(SLICE_STEPS - part.memory["steps_left"] > 1000 for part in parts) > 1)
        return found

    def all_at_once(work: Callable[..., object], parts: list[engine.SmRange], threads: int) -> list[object]:
        start = threading.Barrier(len(parts))

        def begin(part: engine.SmRange, stopped: Callable[[], bool]) -> object:
            start.wait()
            return work(part, stopped)

        return in_threads(begin, parts, threads)

    monkeypatch.setattr(engine, "run_threads", watched)
    monkeypatch.setattr(engine, "in_threads", all_at_once)
    return seen


def test_random_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """With pools that have to grow, and threads that go back to Python often."""
    monkeypatch.setattr(kernel_arrays, "FIRST_ACCESSES", 16)
    several = []

    def one(kernel: object, machine: Machine) -> None:
        lowered = lower(kernel, machine)  # type: ignore[arg-type]
        expected = compiled.run(lowered, Record.TOTALS, threads=1)
        with monkeypatch.context() as patch:
            patch.setattr(engine, "SLICE", 50)
            assert_same(expected, compiled.run(lowered, Record.TOTALS, threads=2))
        assert_same(expected, compiled.run(lowered, Record.TOTALS, threads=MANY))
        several.append(lowered.kernel.sms > 2)

    drawn = st.tuples(kernels(max_blocks=24, max_sms=8), machines())
    for_each_drawn(drawn, 100, 1, lambda pair: one(*pair))
    assert sum(several) > 20


def random_piece(seed: int) -> tuple[LoweredKernel, list[NDArray[np.generic]]]:
    """A random piece of machine code on several SMs, whose blocks share an array."""
    random = np.random.default_rng(seed)
    blocks, threads, sms = (int(random.integers(*bounds)) for bounds in ((100, 400), (8, 65), (2, 7)))
    words = np.arange(random_code.WORDS, dtype=np.int32) * np.int32(40503)
    registers = np.zeros((blocks * threads, random_code.REGISTERS), dtype=np.uint32)
    launch = MachineLaunch(
        listed_image(random_code.piece(seed, 8)),
        (blocks, 1, 1),
        (threads, 1, 1),
        [words, registers],
        ("words", "registers"),
        dynamic_shared_bytes=4 * random_code.WORDS,
    )
    return lower_machine_code(launch, machine_from(load_gpu("v100")), min(sms, blocks)), [words, registers]


def test_random_machine_code(caplog: pytest.LogCaptureFixture, shared: list[bool]) -> None:
    """Some pieces run on several threads to the end, some meet in their array and run again, some say at once
    that their order matters."""
    caplog.set_level(logging.INFO, "smlab.engine")
    seeds = range(45)
    for seed in seeds:
        lowered, arrays = random_piece(seed)
        expected = compiled.run(lowered, Record.TOTALS, threads=1)
        for threads in (2, MANY):
            other, others = random_piece(seed)
            assert_same(expected, compiled.run(other, Record.TOTALS, threads=threads))
            assert all(np.array_equal(a, b) for a, b in zip(arrays, others, strict=True)), seed
    serial, again = (sum(text in r.message for r in caplog.records) for text in (SERIAL, AGAIN))
    assert serial > 0
    assert len(shared) > 20
    assert again > 0 or sum(shared) < 20  # on a busy machine threads seldom run at the same time


STREAM = [
    "S2R R0, SR_TID.X",
    "S2R R1, SR_CTAID.X",
    "MOV R24, c[0x0][0x160]",
    "MOV R25, c[0x0][0x164]",
    "IMAD R2, R1, 0x40, R0",
    "IMAD.WIDE.U32 R22, R2, 0x4, R24",
    "LDG.E.SYS R4, [R22]",
    "IADD3 R4, R4, 0x1, RZ",
    "STG.E.SYS [R22], R4",
    "EXIT",
]
"""Each thread counts its own word up."""


def threaded(
    launch: Launch, code: list[str], array: NDArray[np.int32], threads: int, blocks: int = 40
) -> SimResult:
    lowered = lower_machine_code(
        launch(code, array, grid=blocks, block=64), machine_from(load_gpu("v100")), 8
    )
    return compiled.run(lowered, Record.TOTALS, threads=threads)


def test_each_sm_may_change_its_own_words(launch: Launch, caplog: pytest.LogCaptureFixture) -> None:
    """Blocks that wait are given to the same SMs in the same cycles, though an SM may go from one thread to
    the other between a block's load and its store."""
    caplog.set_level(logging.INFO, "smlab.engine")
    expected_array = np.arange(64 * 400, dtype=np.int32)
    expected = threaded(launch, STREAM, expected_array, 1, blocks=400)
    for threads in (2, 3, MANY):
        array = np.arange(64 * 400, dtype=np.int32)
        found = threaded(launch, STREAM, array, threads, blocks=400)
        assert_same(expected, found)
        assert np.array_equal(found.blocks.sm, expected.blocks.sm)
        assert np.array_equal(array, expected_array)
    assert not caplog.records


def test_blocks_that_read_what_others_write_run_once_more_on_one_thread(
    launch: Launch, caplog: pytest.LogCaptureFixture, shared: list[bool]
) -> None:
    caplog.set_level(logging.INFO, "smlab.engine")
    code = [line.replace("[R22], R4", "[R22+0x100], R4") for line in STREAM]
    arrays = [np.arange(64 * 4001, dtype=np.int32) for _ in range(2)]
    results = [threaded(launch, code, array, n, blocks=4000) for n, array in zip((1, 2), arrays, strict=True)]
    assert_same(*results)
    assert np.array_equal(*arrays)
    assert AGAIN in caplog.text or not shared[0]
    assert "SMs meet at byte" in caplog.text or not shared[0]


@pytest.mark.parametrize(
    ("instruction", "reason"),
    [
        ("RED.E.ADD.STRONG.GPU [R24], R0", None),
        ("RED.E.MAX.S32.STRONG.GPU [R24], R0", None),
        ("RED.E.ADD.F32.FTZ.RN.STRONG.GPU [R24], R0", "sums of floating-point numbers"),
        ("RED.E.INC.STRONG.GPU [R24], R0", "order of its reductions"),
        ("ATOMG.E.ADD.STRONG.GPU PT, R5, [R24], R0", "an atomic's result"),
        ("LDG.E.STRONG.GPU R4, [R22]", "a strong load"),
    ],
)
def test_reductions_of_whole_numbers_commute_others_run_on_one_thread(
    launch: Launch,
    caplog: pytest.LogCaptureFixture,
    shared: list[bool],
    instruction: str,
    reason: str | None,
) -> None:
    caplog.set_level(logging.INFO, "smlab.engine")
    code = [instruction if line.startswith("STG") else line for line in STREAM]
    code = [line.replace("LDG.E.SYS R4, [R22]", "LDG.E.SYS R4, [R24]") for line in code]
    arrays = [np.arange(64 * 4000, dtype=np.int32) for _ in range(2)]
    results = [threaded(launch, code, array, n, blocks=4000) for n, array in zip((1, 2), arrays, strict=True)]
    assert_same(*results)
    assert np.array_equal(*arrays)
    if reason is None:
        # They read the word that they reduce.
        assert AGAIN in caplog.text or not shared[0]
    else:
        assert SERIAL in caplog.text
        assert reason in caplog.text


def test_reductions_that_nobody_reads_stay_on_several_threads(
    launch: Launch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "smlab.engine")
    code = ["RED.E.ADD.STRONG.GPU [R24], R0" if line.startswith("STG") else line for line in STREAM]
    code = [line for line in code if not line.startswith("LDG")]
    arrays = [np.zeros(64, dtype=np.int32) for _ in range(2)]
    results = [threaded(launch, code, array, n, blocks=200) for n, array in zip((1, 2), arrays, strict=True)]
    assert_same(*results)
    assert arrays[1].tolist() == arrays[0].tolist() == [200 * sum(range(64)), *[0] * 63]
    assert not caplog.records


@pytest.mark.parametrize("threads", [2, MANY])
def test_a_fault_is_the_first_one_as_on_one_thread(launch: Launch, threads: int) -> None:
    messages = []
    for n in (1, threads):
        with pytest.raises(SmlabError) as caught:
            threaded(launch, STREAM, np.zeros(64 * 13 + 5, dtype=np.int32), n)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "behind the end" in messages[0]


def test_what_the_code_alone_says(launch: Launch) -> None:
    made = launch(STREAM, np.zeros(64, dtype=np.int32), grid=1, block=64)
    assert order_matters(made, 80, 2) is None
    assert "cannot be told apart" in str(order_matters(made, 300, 2))
    assert "too large" in str(order_matters(made, 80, 1 << 30))


def test_no_threads_are_an_error(launch: Launch) -> None:
    with pytest.raises(SmlabError, match="threads: out of range .got 0; expected at least 1"):
        threaded(launch, STREAM, np.zeros(64 * 40, dtype=np.int32), 0)
