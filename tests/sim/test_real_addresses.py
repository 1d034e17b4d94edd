"""Recorded addresses, reductions, loads that wait for their warp's last one, and what L2 holds at launch."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.sim import Instruction, Kernel, Loop, Program, Record, SimResult, compiled, reference, simulate
from smlab.sim.address_patterns import Affine, RecordedBytes, RecordedWords, passes
from smlab.sim.lowering import lower
from smlab.sim.machine import Machine, machine_from
from smlab.sim.traces.compare import first_difference
from smlab.sim.workloads.workload_file import parse_workload
from smlab.validation.laws.strategies import machines


@pytest.fixture(scope="module")
def gpu() -> Gpu:
    return load_gpu("v100").with_values({"sm.block_launch_cycles": 0}, source="test")


def run(gpu: Gpu, *body: Instruction | Loop, warps: int = 1, **options: object) -> SimResult:
    kernel = Kernel("test", (Program("p", body),), ((0,) * warps,), 1, 4096, **options)  # type: ignore[arg-type]
    return simulate(kernel, gpu, keep=Record.ALL)


def global_jobs(result: SimResult) -> list[tuple[int, int]]:
    """Issue and completion of each job."""
    assert result.jobs is not None
    return list(zip(result.jobs.issue.tolist(), result.jobs.completion.tolist(), strict=True))


@pytest.mark.usefixtures("engine")
def test_each_execution_of_each_warp_has_its_own_words(gpu: Gpu) -> None:
    table = np.zeros((2, 3, 32), dtype=np.int16)
    table[0, 1] = np.arange(32)  # no conflict
    table[1, 0] = 32 * np.arange(32)  # one bank, 32 words
    table[1, 1] = np.arange(32) // 4  # four lanes a word
    result = run(gpu, Loop(3, (Instruction("atomic-add", shared=RecordedWords(table)),)), warps=2)
    found = [result.jobs.passes[result.jobs.warp == w].tolist() for w in (0, 1)]
    assert found == [[32, 1, 32], [32, 4, 32]]
    loads = run(gpu, Loop(3, (Instruction("shared-load", shared=RecordedWords(table)),)), warps=2)
    assert [loads.jobs.passes[loads.jobs.warp == w].tolist() for w in (0, 1)] == [[1, 1, 1], [32, 1, 1]]


@given(st.integers(0, 2**32 - 1), st.sampled_from(["add", "popc_inc", "load"]), st.integers(1, 32))
def test_passes_are_what_counting_by_hand_gives(seed: int, operation: str, lanes: int) -> None:
    words = np.random.default_rng(seed).integers(0, 200, (5, lanes))
    for row, found in zip(words.tolist(), passes(operation, words, 32).tolist(), strict=True):
        asked = row if operation == "add" else set(row)
        assert found == max(sum(w % 32 == bank for w in asked) for bank in range(32))


def test_words_beyond_the_block_and_short_tables_are_refused(gpu: Gpu) -> None:
    def atomic(table: object) -> Instruction:
        return Instruction("atomic-add", shared=RecordedWords(table))  # type: ignore[arg-type]

    with pytest.raises(SmlabError, match="beyond the block's own"):
        run(gpu, atomic(np.full((1, 1, 32), 1024)))
    with pytest.raises(SmlabError, match="negative word"):
        run(gpu, atomic(np.full((1, 1, 32), -1)))
    with pytest.raises(SmlabError, match="too small"):
        run(gpu, atomic(np.zeros((1, 1, 32), dtype=int)), warps=2)
    with pytest.raises(SmlabError, match="not a table"):
        atomic(np.zeros(32))
    with pytest.raises(SmlabError, match="not a table"):
        RecordedBytes(np.full((1, 1, 1), -4))
    with pytest.raises(SmlabError, match="too small"):
        run(gpu, Instruction("global-load", memory=RecordedBytes(np.zeros((1, 1, 8), dtype=np.int64))))


@pytest.mark.usefixtures("engine")
def test_byte_loads_of_one_word_cost_the_traffic_of_one(gpu: Gpu) -> None:
    loads = [Instruction("global-load", name=f"b{c}", memory=Affine(4, 128, 0, c)) for c in range(4)]
    result = run(gpu, *loads, Instruction("int32", after=("b0", "b1", "b2", "b3")))
    issued, completed = zip(*global_jobs(result), strict=True)
    assert issued == (0, 1, 2, 3)
    assert len(set(completed)) == 1  # all when the first one's sectors come
    assert result.memory.l2_sector_misses == result.memory.dram_sectors == 4
    assert result.sms[0].l1_sector_misses == 16
    after = run(gpu, *(dataclasses.replace(i, after=("b0",) if i.name == "b1" else i.after) for i in loads))
    assert after.sms[0].l1_sector_hits == 12


@pytest.mark.usefixtures("engine")
def test_a_load_that_misses_more_than_is_on_its_way_asks_l2_for_that_alone(gpu: Gpu) -> None:
    first = Instruction("global-load", lanes=8, memory=Affine(4, 0))  # one sector
    more = Instruction("global-load", lanes=16, memory=Affine(4, 0))  # that one and the next
    assert run(gpu, first, more).memory.l2_sector_hits + run(gpu, first, more).memory.l2_sector_misses == 2
    other = run(gpu, first, warps=2)  # another warp's load is waited for as well
    assert (other.memory.l2_sector_hits, other.memory.l2_sector_misses) == (0, 1)


@pytest.mark.usefixtures("engine")
def test_a_reduction_fetches_what_l2_does_not_have_and_a_store_does_not(gpu: Gpu) -> None:
    def cycles(op: str, **options: object) -> tuple[int, int]:
        result = run(gpu, Instruction(op, memory=Affine(4, 0)), **options)
        issue, completion = global_jobs(result)[0]
        return completion - issue, result.memory.dram_sectors

    stored, reduced = cycles("global-store"), cycles("global-reduce")
    assert stored[1] == 0
    assert reduced[1] == 4
    assert reduced[0] > stored[0] + 100
    found = cycles("global-reduce", in_l2=(0, 128))
    assert found[1] == 0
    # A sector of 8 atomics takes L2 twice as long as one of a store, and its words a cycle more; the port
    # takes 128 bytes in 5 cycles and not in 2.
    assert stored[0] + 3 < found[0] <= stored[0] + 3 + 3


@pytest.mark.usefixtures("engine")
def test_atomics_on_one_word_follow_each_other_in_l2(gpu: Gpu) -> None:
    """Lanes and warps on one word are served one after the other; on words of their own, all at once."""

    def cycles(stride: int, warp_stride: int) -> int:
        slow = gpu.with_values({"l2.atomic_interval_cycles": 10}, source="test")
        body = Instruction("global-atomic", name="x", memory=Affine(stride, warp_stride))
        return run(slow, body, Instruction("int32", after=("x",)), warps=4, in_l2=(0, 4096)).cycles

    one_word, own_words = cycles(0, 0), cycles(4, 128)
    # The port takes 2 cycles for each of 32 packets of the first request on one word, whose 128 lanes then
    # follow each other; on own words the last of four requests of four packets has passed it after 32 cycles.
    assert one_word - own_words == pytest.approx((64 + 4 * 32 * 10) - (4 * 8 + 10), abs=10)


@pytest.mark.usefixtures("engine")
def test_what_l2_holds_at_launch_is_hit(gpu: Gpu) -> None:
    load = Instruction("global-load", name="x", memory=Affine(4, 0))
    warm = run(gpu, load, Instruction("int32", after=("x",)), in_l2=(0, 128))
    assert (warm.memory.l2_sector_hits, warm.memory.dram_sectors) == (4, 0)
    l2 = gpu.integer("l2.bytes")
    assert run(gpu, load, in_l2=(0, 2 * l2)).memory.l2_sector_hits == 0  # the beginning has gone again
    with pytest.raises(SmlabError, match="no range"):
        run(gpu, load, in_l2=(-1, 4))


def test_a_workload_file_can_hold_real_addresses() -> None:
    def kernel(words: object, addresses: object) -> Kernel:
        body = [
            {
                "op": "global-load",
                "name": "x",
                "lanes": 2,
                "address": {"pattern": "recorded", "bytes": addresses},
            },
            {"op": "atomic-add", "lanes": 2, "address": {"pattern": "recorded", "words": words}},
        ]
        raw = {
            "kernel": {"warps_per_block": 2, "shared_bytes_per_block": 256},
            "program": [{"body": [{"loop": 2, "body": body}]}],
        }
        return parse_workload(raw, "w.toml")

    words, addresses = [[[0, 32], [1, 2]], [[5, 5], [0, 1]]], [[[0, 4], [8, 64]], [[0, 0], [4, 4]]]
    result = simulate(kernel(words, addresses), load_gpu("v100"), keep=Record.ATOMICS)
    passes_of_warps = [result.jobs.passes[result.jobs.warp == w].tolist() for w in (0, 1)]
    assert passes_of_warps == [[2, 1], [2, 1]]
    for wrong in ([[[0, 32]], [[5, 5], [0, 1]]], [], [[[0, -1]]], [[["a"]]]):
        with pytest.raises(SmlabError, match=r"w\.toml: program\[0\]"):
            kernel(wrong, addresses)


@st.composite
def recorded_kernels(draw: st.DrawFn) -> Kernel:
    """Kernels with recorded addresses in few sectors, so that loads meet on their way, reductions and warm
    lines."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    blocks, places, times = draw(st.integers(1, 6)), draw(st.integers(1, 4)), draw(st.integers(1, 8))
    warps, spread = blocks * places, draw(st.sampled_from([64, 512, 4096, 1 << 16]))

    def memory(op: str, name: str) -> Instruction:
        lanes = draw(st.integers(1, 32))
        style = draw(st.sampled_from(["recorded", "affine"]))
        pattern = (
            RecordedBytes(rng.integers(0, spread, (warps, times, lanes)))
            if style == "recorded"
            else Affine(
                draw(st.sampled_from([1, 4, 32])),
                draw(st.sampled_from([0, 128])),
                draw(st.sampled_from([0, 128])),
            )
        )
        after = (name,) if op == "global-load" and draw(st.booleans()) else ()
        return Instruction(op, name=name, lanes=lanes, memory=pattern, after=after)

    ops = draw(
        st.lists(
            st.sampled_from(["global-load"] * 3 + ["global-store", "global-reduce"]), min_size=2, max_size=6
        )
    )
    body = [memory(op, f"m{i}") for i, op in enumerate(ops)]
    words = rng.integers(0, 1024, (warps, times, 32)).astype(np.int16)
    loaded = [i.name for i in body if i.op == "global-load"]
    body.append(
        Instruction("atomic-add", shared=RecordedWords(words), after=tuple(loaded[:2]), returns=False)
    )
    if draw(st.booleans()):
        body.append(Instruction("barrier"))
    held = (draw(st.integers(0, spread)), draw(st.integers(0, 2 * spread)))
    return Kernel(
        "recorded",
        (Program("p", (Loop(times, tuple(body)),)),),
        ((0,) * places,),
        blocks,
        4096,
        sms=draw(st.integers(1, 3)),
        in_l2=held,
    )


@given(machines(), recorded_kernels())
def test_both_engines_agree_on_recorded_addresses(machine: Machine, kernel: Kernel) -> None:
    lowered = lower(kernel, machine, 1)
    difference = first_difference(reference.run(lowered, Record.ALL), compiled.run(lowered, Record.ALL))
    assert difference is None, difference


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (Affine(warp_stride_bytes=-1), r"global-load: a negative byte address \(got -3;"),
        (Affine(lane_stride_bytes=-4, base_bytes=100), "a negative byte address"),
        (Affine(iteration_stride_bytes=2**48), "a byte address beyond a GPU's"),
    ],
)
def test_addresses_that_no_gpu_has_are_refused(pattern: Affine, message: str) -> None:
    body = (Loop(3, (Instruction("global-load", memory=pattern),)),)
    kernel = Kernel("k", (Program("p", body),), ((0,) * 4,))
    with pytest.raises(SmlabError, match=message):
        lower(kernel, machine_from(load_gpu("v100")))
