"""Barriers in shared memory and copies of the copy engine: PTX, against NumPy, on both engines."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bulk_kernels import kernel

from smlab import SmlabError
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.sim import Record
from smlab.sim.execution import functional
from smlab.sim.execution.run import run_machine_code
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.launch.launch_file import launch_of
from smlab.sim.isa.launch.tensor_map import TensorMap
from smlab.sim.isa.meanings.asynchronous_units import MemoryBarrier
from smlab.sim.machine import machine_from
from smlab.sim.traces.compare import first_difference

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

GPU = load_gpu("h100-pcie")
Run = Callable[[MachineLaunch], int]


def without_timing(launch: MachineLaunch) -> int:
    functional.run(launch)
    return 0


def timed(engine: str, gpu: Gpu = GPU) -> Run:
    return lambda launch: int(run_machine_code(launch, gpu, engine=engine).cycles)


RUNS: dict[str, Run] = {"untimed": without_timing, "compiled": timed("compiled"), "simpy": timed("simpy")}


WAIT = """
wait: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], {parity};
@!%p1 bra wait;
"""
COPY = "cp.async.bulk.tensor.{n}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
TO_SHARED = """
setp.ne.u32 %p0, %r0, 0;
@%p0 bra behind;
mbarrier.init.shared.b64 [%r1], 1;
fence.proxy.async;
mbarrier.arrive.expect_tx.shared.b64 _, [%r1], {size};
add.u32 %r2, %r1, 1024;
ld.param.u64 %w0, [map];
{coordinates}
{copy} [%r2], [%w0, {{{names}}}], [%r1];
behind: bar.sync 0;
""" + WAIT.format(parity=0)
OUT = """
ld.param.u64 %w1, [out]; mul.wide.u32 %w2, %r0, 4; add.u64 %w1, %w1, %w2;
mad.lo.u32 %r4, %r0, 4, %r1;
{words}
"""


PREFETCH = "cp.async.bulk.prefetch.tensor.{n}d.L2.global.tile [%w0, {{{names}}}];"


def copied(
    box: TensorMap, begin: tuple[int, ...], run: Run, threads: int = 64, prefetch: bool = False
) -> tuple[Any, int]:
    """What shared memory holds after a copy of a box, in words, and the cycles; L2 may be asked for it
    before."""
    size = int(np.prod(box.box)) * (box.element_bytes or box.array.itemsize)  # type: ignore[union-attr]
    names = [f"%r{10 + n}" for n in range(len(begin))]
    lines = [f"mov.s32 {name}, {place};" for name, place in zip(names, begin, strict=True)]
    if prefetch:
        lines.append(PREFETCH.format(n=len(begin), names=", ".join(names)))
    body = TO_SHARED.format(
        size=size, coordinates=" ".join(lines), names=", ".join(names), copy=COPY.format(n=len(begin))
    )
    step = 4 * threads
    assert size % step == 0
    words = [
        f"ld.shared.b32 %r5, [%r4+{1024 + at}]; st.global.b32 [%w1+{at}], %r5;" for at in range(0, size, step)
    ]
    image = kernel(".param .u64 map, .param .u64 out", body + OUT.format(words=" ".join(words)))
    out = np.zeros(size // 4, np.uint32)
    launch = MachineLaunch(image, (1, 1, 1), (threads, 1, 1), (box, out), dynamic_shared_bytes=2048 + size)
    return out, run(launch)


def wanted(array: Any, shape: tuple[int, ...], box: TensorMap, begin: tuple[int, ...]) -> Any:
    """The box of an array of this shape (innermost first), zeros outside, and pieces exchanged."""
    whole = array.reshape(shape[::-1])
    found = np.zeros(tuple(box.box)[::-1], dtype=array.dtype)
    for place in np.ndindex(found.shape):
        at = [p + b for p, b in zip(place, begin[::-1], strict=True)]
        if all(0 <= a < s for a, s in zip(at, whole.shape, strict=True)):
            found[place] = whole[tuple(at)]
    raw = found.reshape(-1).view(np.uint8)
    bits = {"none": 0, "32": 1, "64": 3, "128": 7}[box.swizzle]
    places = np.arange(len(raw))
    exchanged = np.zeros_like(raw)
    exchanged[places ^ ((places >> 7 & bits) << 4)] = raw
    return exchanged.view(np.uint32)


@pytest.mark.parametrize("which", RUNS)
@pytest.mark.parametrize(
    ("shape", "box", "begin", "swizzle", "kind"),
    [
        ((256,), (128,), (64,), "none", np.uint16),
        ((64, 24), (32, 16), (40, -3), "64", np.uint16),  # beyond both ends
        ((64, 24), (64, 8), (0, 20), "128", np.uint16),
        ((16, 8, 6), (8, 4, 4), (4, 6, 3), "32", np.float32),
        ((32, 4, 3, 5), (32, 2, 2, 4), (-16, 1, 2, 3), "none", np.uint8),
        ((16, 4, 3, 5, 2), (16, 4, 2, 4, 1), (0, 2, 1, 3, 1), "none", np.uint16),
    ],
)
def test_a_box_of_a_tensor(
    which: str, shape: tuple[int, ...], box: tuple[int, ...], begin: tuple[int, ...], swizzle: str, kind: Any
) -> None:
    array = np.arange(1, 1 + int(np.prod(shape))).astype(kind)
    described = TensorMap(array, shape, box, swizzle=swizzle)
    found, cycles = copied(described, begin, RUNS[which])
    assert np.array_equal(found, wanted(array, shape, described, begin))
    assert which == "untimed" or cycles > 600


def events(engine: str) -> Run:
    def run(launch: MachineLaunch) -> int:
        found = run_machine_code(launch, GPU, engine=engine, keep=Record.ALL).result
        RESULTS.append(found)
        return found.cycles

    return run


RESULTS: list[Any] = []


def test_both_engines_have_the_same_events() -> None:
    """Rows that begin in the middle of a sector, an array that DRAM has, and stores behind the copy."""
    described = TensorMap(np.arange(4096, dtype=np.uint16), (64, 64), (56, 32), swizzle="none")
    RESULTS.clear()
    for engine in ("simpy", "compiled"):
        copied(described, (5, 3), events(engine))
    assert first_difference(*RESULTS) is None


def test_a_copy_takes_what_a_load_takes_and_more() -> None:
    """From DRAM, and with more bytes than the port moves while the first are on their way."""
    m = machine_from(GPU)
    small = TensorMap(np.zeros(64 * 256, np.uint16), (64, 256), (64, 4), swizzle="none")
    large = TensorMap(np.zeros(64 * 256, np.uint16), (64, 256), (64, 256), swizzle="none")
    first, second = (copied(box, (0, 0), RUNS["compiled"])[1] for box in (small, large))
    assert first > m.dram_latency_cycles + m.bulk_extra_cycles
    sectors = 64 * 256 * 2 // m.sector_bytes
    ticks = max(m.bulk_sector_ticks, m.l2_sector_ticks, m.dram_sector_ticks)
    assert second - first >= (sectors - 4 * 4 - 32) * ticks >> 20


def test_a_copy_has_a_rate_of_its_own_in_both_engines() -> None:
    """Half the bytes a cycle, or twice the time for a line, takes a cycle more for each line."""
    box, lines = TensorMap(np.zeros(64 * 256, np.uint16), (64, 256), (64, 256), swizzle="none"), 256
    found = []
    for port, line in ((128, 1), (64, 1), (128, 2)):
        values = {"copy_engine.port_bytes_per_cycle": port, "copy_engine.line_interval_cycles": line}
        gpu = GPU.with_values(values, source="a test")
        cycles = {copied(box, (0, 0), timed(engine, gpu))[1] for engine in ("simpy", "compiled")}
        assert len(cycles) == 1
        found.append(cycles.pop())
    asked_again = GPU.integer("shared.phase_check_latency_cycles") + 5
    for slower in found[1:]:
        assert abs(slower - found[0] - lines) < asked_again


def test_a_copy_counts_in_l2() -> None:
    described = TensorMap(np.zeros(64 * 256, np.uint16), (64, 256), (64, 256), swizzle="none")
    RESULTS.clear()
    copied(described, (0, 0), events("compiled"))
    assert RESULTS[0].memory.l2_sector_misses >= 64 * 256 * 2 // 32
    assert RESULTS[0].memory.dram_sectors >= 64 * 256 * 2 // 32


def test_a_box_may_be_asked_of_l2_before() -> None:
    """The copy behind it finds it there or on its way, and copies the same."""
    array = np.arange(64 * 256, dtype=np.uint16)
    described = TensorMap(array, (64, 256), (64, 64), swizzle="128")
    for engine in ("compiled", "simpy"):
        RESULTS.clear()
        plain, _ = copied(described, (0, 230), events(engine))
        asked, _ = copied(described, (0, 230), events(engine), prefetch=True)
        assert np.array_equal(asked, plain)
        before, after = (result.memory for result in RESULTS)
        assert after.l2_sector_misses == before.l2_sector_misses
        assert after.l2_sector_hits == before.l2_sector_hits + 26 * 4
    assert np.array_equal(copied(described, (0, 230), RUNS["untimed"], prefetch=True)[0], plain)


@pytest.mark.parametrize("which", RUNS)
def test_two_warps_hand_each_other_a_number(which: str) -> None:
    """Phases alternate: one warp fills, the other one empties, each round by a barrier of its own."""
    body = """
ld.param.u64 %w1, [out]; setp.ne.u32 %p0, %r0, 0; mov.u32 %r3, 0;
@%p0 bra begun; mbarrier.init.shared.b64 [%r1], 32; mbarrier.init.shared.b64 [%r1+8], 32;
begun: bar.sync 0; setp.ge.u32 %p2, %r0, 32; @%p2 bra second;
first: and.b32 %r4, %r3, 1; xor.b32 %r4, %r4, 1;
w1: mbarrier.try_wait.parity.shared.b64 %p1, [%r1+8], %r4; @!%p1 bra w1;
mad.lo.u32 %r6, %r3, 100, %r0; mad.lo.u32 %r7, %r0, 4, %r1; st.shared.b32 [%r7+64], %r6;
mbarrier.arrive.shared.b64 _, [%r1]; add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 5; @%p3 bra first; ret;
second: and.b32 %r4, %r3, 1;
w2: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r4; @!%p1 bra w2;
sub.u32 %r8, %r0, 32; mad.lo.u32 %r7, %r8, 4, %r1; ld.shared.b32 %r6, [%r7+64];
mad.lo.u32 %r9, %r3, 32, %r8; mul.wide.u32 %w2, %r9, 4; add.u64 %w2, %w2, %w1; st.global.b32 [%w2], %r6;
mbarrier.arrive.shared.b64 _, [%r1+8]; add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 5; @%p3 bra second;
"""
    out = np.zeros((5, 32), np.uint32)
    image = kernel(".param .u64 out", body)
    RUNS[which](MachineLaunch(image, (1, 1, 1), (64, 1, 1), (out,), dynamic_shared_bytes=256))
    assert np.array_equal(out, 100 * np.arange(5)[:, None] + np.arange(32))


@pytest.mark.parametrize("which", RUNS)
def test_a_missed_arrival_is_named(which: str) -> None:
    body = """
setp.ne.u32 %p0, %r0, 0;
@%p0 bra begun; mbarrier.init.shared.b64 [%r1], 33; mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1], 64;
begun: bar.sync 0; mbarrier.arrive.shared.b64 _, [%r1];
""" + WAIT.format(parity=0)
    launch = MachineLaunch(kernel("", body), (1, 1, 1), (32, 1, 1), dynamic_shared_bytes=64, most_checks=200)
    told = "never completes: the one at 0x400, phase 0, lacks 1 arrival and 64 bytes; at 0x.* SYNCS.PHASECHK"
    with pytest.raises(SmlabError, match=told):
        RUNS[which](launch)


@pytest.mark.parametrize("which", RUNS)
def test_more_arrivals_than_expected_are_named(which: str) -> None:
    body = "mbarrier.init.shared.b64 [%r1], 2; mbarrier.arrive.noComplete.shared.b64 %w0, [%r1], 1;"
    body = "mbarrier.init.shared.b64 [%r1], 2; mbarrier.arrive.shared.b64 _, [%r1], 3;"
    launch = MachineLaunch(kernel("", body), (1, 1, 1), (1, 1, 1), dynamic_shared_bytes=64)
    with pytest.raises(SmlabError, match="more arrivals at a barrier in shared memory than it expects"):
        RUNS[which](launch)


@pytest.mark.parametrize("which", RUNS)
def test_consecutive_bytes_there_and_back(which: str) -> None:
    body = (
        """
ld.param.u64 %w0, [a]; ld.param.u64 %w1, [b]; add.u32 %r2, %r1, 64;
mbarrier.init.shared.b64 [%r1], 1; fence.proxy.async;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%w0], 480, [%r1];
mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 480;
"""
        + WAIT.format(parity=0)
        + """
cp.async.bulk.global.shared::cta.bulk_group [%w1], [%r2], 480; cp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;
"""
    )
    a, b = np.arange(120, dtype=np.int32), np.zeros(120, np.int32)
    image = kernel(".param .u64 a, .param .u64 b", body)
    RUNS[which](MachineLaunch(image, (1, 1, 1), (1, 1, 1), (a, b), dynamic_shared_bytes=1024))
    assert np.array_equal(a, b)


EXPECTED_THERE = """
setp.ne.u32 %p0, %r0, 0; @%p0 bra begun; mbarrier.init.shared.b64 [%r1], 32; fence.proxy.async;
begun: barrier.cluster.arrive; barrier.cluster.wait;
mov.u32 %r2, %cluster_ctarank; xor.b32 %r3, %r2, 1; mapa.shared::cluster.u32 %r4, %r1, %r3;
mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r4], 8;
setp.ne.u32 %p0, %r0, 5; @%p0 bra wait;
ld.param.u64 %w0, [x]; add.u32 %r5, %r1, 1024;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%w0], 256, [%r1];
wait: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0; @!%p1 bra wait;
ld.param.u64 %w1, [out]; mad.lo.u32 %r6, %r2, 32, %r0; mul.wide.u32 %w2, %r6, 4; add.u64 %w1, %w1, %w2;
mad.lo.u32 %r7, %r0, 4, %r1; ld.shared.u32 %r8, [%r7+1024]; st.global.u32 [%w1], %r8;
barrier.cluster.arrive; barrier.cluster.wait;
"""


@pytest.mark.parametrize("which", RUNS)
def test_bytes_for_another_blocks_barrier(which: str) -> None:
    """Each lane tells the other block's barrier of 8 bytes that are to come, which a copy there brings."""
    x, out = np.arange(64, dtype=np.uint32) * 7, np.zeros(64, np.uint32)
    image = kernel(".param .u64 x, .param .u64 out", EXPECTED_THERE)
    launch = MachineLaunch(
        image, (2, 1, 1), (32, 1, 1), (x, out), dynamic_shared_bytes=2048, cluster_shape=(2, 1, 1)
    )
    RUNS[which](launch)
    assert np.array_equal(out, np.tile(x[:32], 2))


def test_a_barriers_word_is_what_compiled_code_sets() -> None:
    """Arrivals are counted down from 2^20, twice: of a phase, and those that lack."""
    count = 100
    word = ((1 << 20) - count) << 1 | ((1 << 20) - count) << 11 << 32
    assert MemoryBarrier.of(word) == MemoryBarrier(0, count, 0, count)
    assert MemoryBarrier.of(word).word() == word


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"box": (300, 1)}, "an edge out of range"),
        ({"box": (8,)}, "as many numbers as the shape"),
        ({"swizzle": "96"}, "swizzle: unknown"),
        ({"shape": ()}, "dimensions"),
    ],
)
def test_maps_that_no_gpu_takes(change: dict[str, Any], told: str) -> None:
    form: dict[str, Any] = {"shape": (64, 64), "box": (32, 8), **change}
    with pytest.raises(SmlabError, match=told):
        TensorMap(np.zeros(4096, np.uint16), **form)


def test_rows_of_a_box_fit_the_exchange() -> None:
    with pytest.raises(SmlabError, match="at most 32"):
        TensorMap(np.zeros(4096, np.uint16), (64, 64), (32, 8), swizzle="32").content(0, "u16")


def test_a_launch_file_has_tensor_maps() -> None:
    argument = [
        {"name": "a", "dtype": "uint16", "shape": [64, 64], "make": "arange"},
        {"name": "m", "tensor_map": {"array": "a", "shape": [64, 64], "box": [64, 8], "swizzle": "128"}},
    ]
    raw = {"launch": {"grid": 1, "block": 64}, "argument": argument}
    launch = launch_of("launch", raw, Path())
    assert launch.arguments[1].array is launch.arguments[0]
    assert replace(launch.arguments[1], array="a") == TensorMap("a", [64, 64], [64, 8], swizzle="128")
    argument[1]["tensor_map"] = {"array": "a", "shape": [64, 64]}
    with pytest.raises(SmlabError, match="tensor_map: box: is missing"):
        launch_of("launch", raw, Path())


ROWS = """
mov.u32 %r10, 8; mov.u32 %r11, 5; mov.u32 %r12, 30; mov.u32 %r13, 0; mov.u32 %r14, 17;
setp.ne.u32 %p0, %r0, 0; add.u32 %r2, %r1, 1024; @%p0 bra behind;
mbarrier.init.shared.b64 [%r1], 1; fence.proxy.async;
mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 512;
ld.param.u64 %w0, [map]; ld.param.u64 %w1, [other];
cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes
  [%r2], [%w0, {%r10, %r11, %r12, %r13, %r14}], [%r1];
behind: bar.sync 0;
wait: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0; @!%p1 bra wait;
mov.u32 %r10, 0; mov.u32 %r12, 3; @%p0 bra end;
cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group
  [%w1, {%r10, %r11, %r12, %r13, %r14}], [%r2];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
end:
"""


@pytest.mark.parametrize("which", RUNS)
@pytest.mark.parametrize("swizzle", ["none", "128"])
def test_four_named_rows(which: str, swizzle: str) -> None:
    """Gathered from rows of a matrix, one of them behind its end, and scattered to others of another."""
    matrix = np.arange(1, 1 + 24 * 48, dtype=np.float32).reshape(24, 48)
    made = np.zeros((18, 32), np.float32)
    shapes = (matrix, (48, 24)), (made, (32, 18))
    maps = [TensorMap(array, shape, (32, 1), swizzle=swizzle) for array, shape in shapes]
    image = kernel(".param .u64 map, .param .u64 other", ROWS, "sm_100a")
    launch = MachineLaunch(image, (1, 1, 1), (32, 1, 1), maps, dynamic_shared_bytes=2048)
    run = without_timing if which == "untimed" else timed(which, load_gpu("b200"))
    cycles = run(launch)
    wanted = np.zeros_like(made)
    wanted[[5, 0, 17]] = matrix[[5, 0, 17], 8:40]
    assert np.array_equal(made, wanted)
    assert which == "untimed" or cycles > 600
