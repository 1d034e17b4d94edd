"""Clusters of blocks: places, barriers, each other's shared memory, copies to several, on both engines."""

from typing import Any

import numpy as np
import pytest

from smlab import SmlabError
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass.tools import assemble
from smlab.sim import Record
from smlab.sim.execution import functional
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.launch.tensor_map import TensorMap
from smlab.sim.machine import groups_of_sms
from smlab.sim.traces.compare import first_difference

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

GPU = load_gpu("h100-pcie")
ENGINES = ("untimed", "compiled", "simpy")


def kernel(
    body: str,
    parameters: str = ".param .u64 out",
    shape: str = ".reqnctapercluster 4, 1, 1",
    architecture: str = "sm_90a",
) -> Any:
    text = f"""
.version 8.7
.target {architecture}
.address_size 64
.extern .shared .align 1024 .b8 image[];
.visible .entry k({parameters}) {".explicitcluster" if shape else ""} {shape} {{
.reg .b64 %w<9>; .reg .b32 %r<40>; .reg .b16 %h<3>; .reg .pred %p<6>;
mov.u32 %r0, %tid.x; mov.u32 %r1, image; mov.u32 %r2, %cluster_ctarank;
mov.u32 %r30, %ctaid.x; mov.u32 %r31, %ctaid.y; mov.u32 %r32, %nctaid.x; mad.lo.u32 %r30, %r31, %r32, %r30;
{body}
ret; }}"""
    return from_cubin(assemble(text, architecture)[0], "k", "k")


def run(launch: MachineLaunch, engine: str) -> Any:
    if engine == "untimed":
        functional.run(launch)
        return None
    return run_machine_code(launch, GPU, engine=engine, keep=Record.ALL).result


SYNC = "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;"
NEIGHBOURS = f"""
setp.ne.u32 %p0, %r0, 0; @%p0 bra begun; mbarrier.init.shared.b64 [%r1], 64; begun:
mad.lo.u32 %r3, %r0, 4, %r1; add.u32 %r3, %r3, 64;
mad.lo.u32 %r4, %r30, 1000, %r0; st.shared.b32 [%r3], %r4; mov.u32 %r5, 0; st.shared.b32 [%r3+512], %r5;
{SYNC}
add.u32 %r6, %r2, 1; and.b32 %r6, %r6, 3; mapa.shared::cluster.u32 %r7, %r3, %r6;
ld.shared::cluster.u32 %r8, [%r7];
atom.shared::cluster.add.u32 %r9, [%r7+512], %r4;
mapa.shared::cluster.u32 %r10, %r1, %r6;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r10];
w: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra w;
ld.shared.b32 %r11, [%r3+512];
st.shared::cluster.b32 [%r7+1024], %r8;
{SYNC}
ld.shared.b32 %r12, [%r3+1024];
ld.param.u64 %w1, [out]; mad.lo.u32 %r13, %r30, 64, %r0; mul.wide.u32 %w2, %r13, 32; add.u64 %w1, %w1, %w2;
mov.u32 %r14, %clusterid.x; mov.u32 %r15, %nclusterid.x; mov.u32 %r16, %cluster_ctaid.x;
mov.u32 %r17, %cluster_nctarank;
st.global.v4.u32 [%w1], {{%r8, %r9, %r11, %r12}}; st.global.v4.u32 [%w1+16], {{%r14, %r15, %r16, %r17}};
"""


def test_blocks_reach_each_others_shared_memory() -> None:
    """Each thread reads, adds to, and writes what the next block of its cluster has, and arrives there."""
    found = []
    for engine in ENGINES:
        out = np.zeros((2, 8, 64, 8), np.uint32)
        launch = MachineLaunch(kernel(NEIGHBOURS), (8, 2, 1), (64, 1, 1), (out,), dynamic_shared_bytes=2048)
        found.append(run(launch, engine))
        y, x, thread = np.indices((2, 8, 64))
        number = 8 * y + x
        following, before = (number & ~3 | (number + step) & 3 for step in (1, 3))
        assert np.array_equal(out[..., 0], 1000 * following + thread)
        assert not out[..., 1].any()
        assert np.array_equal(out[..., 2], 1000 * before + thread)
        assert np.array_equal(out[..., 3], 1000 * number + thread)  # what the one before read here
        assert np.array_equal(out[..., 4:], np.stack([x // 4, 0 * x + 2, x % 4, 0 * x + 4], axis=-1))
    assert first_difference(found[2], found[1]) is None


@pytest.mark.parametrize("architecture", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 1, 1), (2, 3, 1), (1, 2, 2)])
def test_blocks_know_their_place_in_clusters(shape: tuple[int, int, int], architecture: str) -> None:
    """A program of Triton's that several blocks work on is told by its cluster's index."""
    names = [f"%{name}.{axis}" for name in ("clusterid", "nclusterid", "cluster_ctaid") for axis in "xyz"]
    reads = "".join(f"mov.u32 %r3, {name}; st.global.u32 [%w1+{4 * n}], %r3;" for n, name in enumerate(names))
    body = f"""ld.param.u64 %w1, [out]; mov.u32 %r33, %ctaid.z; mov.u32 %r34, %ctaid.x;
mov.u32 %r35, %nctaid.y; mad.lo.u32 %r36, %r33, %r35, %r31; mad.lo.u32 %r36, %r36, %r32, %r34;
mul.wide.u32 %w2, %r36, 36; add.u64 %w1, %w1, %w2; {reads}"""
    grid = (4, 6, 2)
    asked = "" if shape == (1, 1, 1) else f".reqnctapercluster {', '.join(map(str, shape))}"
    out = np.zeros((2, 6, 4, 3, 3), np.uint32)
    functional.run(
        MachineLaunch(kernel(body, shape=asked, architecture=architecture), grid, (1, 1, 1), (out,))
    )
    z, y, x = np.indices((2, 6, 4))
    place = np.stack([x, y, z], axis=-1)
    assert np.array_equal(out[..., 0, :], place // shape)
    assert (out[..., 1, :] == [g // c for g, c in zip(grid, shape, strict=True)]).all()
    assert np.array_equal(out[..., 2, :], place % shape)


def test_the_blocks_of_a_cluster_are_launched_at_once_on_several_sms_of_a_group() -> None:
    out = np.zeros((2, 8, 64, 8), np.uint32)
    launch = MachineLaunch(kernel(NEIGHBOURS), (8, 2, 1), (64, 1, 1), (out,), dynamic_shared_bytes=2048)
    blocks = run(launch, "compiled").blocks
    sms, begun = blocks.sm.reshape(4, 4), blocks.launch.reshape(4, 4)
    assert all(len(set(row)) == 4 for row in sms.tolist())
    assert (begun == begun[:, :1]).all()
    groups = groups_of_sms(GPU.integer("gpu.sms"), GPU.integer("gpu.group_sms"))
    assert all(sum(set(row) <= set(group) for group in groups) == 1 for row in sms.tolist())


def test_clusters_go_to_the_groups_of_sms_in_turn() -> None:
    blocks = run(neighbours(136), "compiled").blocks
    groups = groups_of_sms(GPU.integer("gpu.sms"), GPU.integer("gpu.group_sms"))
    of_cluster = [next(n for n, group in enumerate(groups) if sm in group) for sm in blocks.sm[::4].tolist()]
    assert of_cluster[: 2 * len(groups)] == 2 * [*range(len(groups))]


MULTICAST = f"""
setp.ne.u32 %p0, %r0, 0; @%p0 bra begun;
mbarrier.init.shared.b64 [%r1], 1; fence.proxy.async; mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 4096;
begun: {SYNC}
or.b32 %r3, %r0, %r2; setp.ne.u32 %p0, %r3, 0; @%p0 bra wait;
ld.param.u64 %w0, [map]; add.u32 %r4, %r1, 1024; mov.u32 %r5, 0; mov.u16 %h0, 13;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
    [%r4], [%w0, {{%r5, %r5}}], [%r1], %h0;
wait: setp.eq.u32 %p2, %r2, 1; @%p2 bra done;
w: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0; @!%p1 bra w;
done: mad.lo.u32 %r6, %r0, 4, %r1; ld.shared.b32 %r7, [%r6+1024];
ld.param.u64 %w1, [out]; mad.lo.u32 %r8, %r30, 64, %r0; mul.wide.u32 %w2, %r8, 4; add.u64 %w1, %w1, %w2;
st.global.b32 [%w1], %r7;
"""


def test_a_copy_of_bytes_to_several_blocks() -> None:
    """The same of consecutive bytes, without a tensor map."""
    box, bytes_ = (f"cp.async.bulk.{x}shared::cluster.global" for x in ("tensor.2d.", ""))
    text = MULTICAST.replace(box + ".tile", bytes_).replace("[%w0, {%r5, %r5}]", "[%w0], 4096")
    results = []
    for engine in ENGINES:
        a, out = np.arange(1, 2049, dtype=np.uint16), np.zeros((4, 64), np.uint32)
        image = kernel(text, ".param .u64 map, .param .u64 out")
        launch = MachineLaunch(
            image, (4, 1, 1), (64, 1, 1), (a, out), dynamic_shared_bytes=8192, check_shared=False
        )
        results.append(run(launch, engine))
        expected = np.tile(a.view(np.uint32)[:64], (4, 1))
        expected[1] = 0
        assert np.array_equal(out, expected)
    assert first_difference(results[2], results[1]) is None


def test_a_copy_to_several_blocks() -> None:
    """Blocks 0, 2 and 3 get the box, by one copy; its bytes are asked for once."""
    parameters, results = ".param .u64 map, .param .u64 out", []
    for engine in ENGINES:
        a, out = np.arange(1, 2049, dtype=np.uint16), np.zeros((4, 64), np.uint32)
        arguments = (TensorMap(a, (64, 32), (64, 32)), out)
        image = kernel(MULTICAST, parameters)
        launch = MachineLaunch(
            image, (4, 1, 1), (64, 1, 1), arguments, dynamic_shared_bytes=8192, check_shared=False
        )
        results.append(run(launch, engine))
        expected = np.tile(a.view(np.uint32)[:64], (4, 1))
        expected[1] = 0
        assert np.array_equal(out, expected)
    assert first_difference(results[2], results[1]) is None
    asked = results[1].memory.l2_sector_hits + results[1].memory.l2_sector_misses
    assert asked < 2 * 4096 // 32


@pytest.mark.parametrize("engine", ENGINES)
def test_a_block_that_does_not_come_is_named(engine: str) -> None:
    body = "setp.eq.u32 %p0, %r2, 2; @%p0 bra w; barrier.cluster.arrive; barrier.cluster.wait; bra done; " + (
        "w: mbarrier.init.shared.b64 [%r1], 1; "
        "v: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0; @!%p1 bra v; done:"
    )
    launch = MachineLaunch(kernel(body, ""), (4, 1, 1), (32, 1, 1), dynamic_shared_bytes=64, most_checks=1000)
    told = "barrier of a cluster that never opens: warps of the block of rank 2 do not come; at 0x.* UCGABAR"
    told += "|never completes: the one at 0x400, phase 0, lacks 1 arrival and 0 bytes"
    with pytest.raises(SmlabError, match=told):
        run(launch, engine)


def test_a_launch_says_the_shape_of_clusters() -> None:
    body = "ld.param.u64 %w1, [out]; mul.wide.u32 %w2, %r30, 4; add.u64 %w1, %w1, %w2; "
    body += "st.global.b32 [%w1], %r2;"
    image, out = kernel(body, shape=""), np.zeros(16, np.uint32)
    functional.run(MachineLaunch(image, (4, 4, 1), (1, 1, 1), (out,), cluster_shape=(2, 2, 1)))
    ranks = np.array([[0, 1], [2, 3]], np.uint32)
    assert np.array_equal(out.reshape(4, 4), np.tile(ranks, (2, 2)))


@pytest.mark.parametrize(
    ("grid", "shape", "told"),
    [
        ((6, 1, 1), None, "x of the grid is no multiple of the cluster's 4"),
        ((8, 1, 1), (2, 1, 1), "not what the kernel was compiled for"),
    ],
)
def test_shapes_that_no_gpu_takes(grid: Any, shape: Any, told: str) -> None:
    with pytest.raises(SmlabError, match=told):
        MachineLaunch(kernel(""), grid, (32, 1, 1), (np.zeros(8, np.uint32),), cluster_shape=shape)


STREAM = f"""
mad.lo.u32 %r3, %r0, 4, %r1; st.shared.b32 [%r3], %r0;
{SYNC}
xor.b32 %r6, %r2, 1; mapa.shared::cluster.u32 %r7, %r3, %r6; mov.u32 %r8, 0; mov.u32 %r9, 0;
again: {" ".join(f"ld.volatile.shared::cluster.u32 %r{10 + n}, [%r7];" for n in range(8))}
{" ".join(f"add.u32 %r8, %r8, %r{10 + n};" for n in range(8))}
add.u32 %r9, %r9, 1; setp.lt.u32 %p0, %r9, 16; @%p0 bra again;
{SYNC}
ld.param.u64 %w1, [out]; mad.lo.u32 %r13, %r30, 512, %r0; mul.wide.u32 %w2, %r13, 4; add.u64 %w1, %w1, %w2;
st.global.u32 [%w1], %r8;
"""


def test_the_network_between_sms_carries_what_its_port_takes() -> None:
    """Sixteen warps of each of two blocks load 128 lines of the other's shared memory each."""
    cycles = {}
    for rate in (4.0, 16.3):
        gpu = GPU.with_values({"gpu.network_bytes_per_cycle": rate}, "assumed: a test")
        found = []
        for engine in ("compiled", "simpy"):
            out = np.zeros((2, 512), np.uint32)
            image = kernel(STREAM, shape=".reqnctapercluster 2, 1, 1")
            launch = MachineLaunch(image, (2, 1, 1), (512, 1, 1), (out,), dynamic_shared_bytes=4096)
            found.append(run_machine_code(launch, gpu, engine=engine, keep=Record.ALL).result)
            assert np.array_equal(out, np.tile(128 * np.arange(512, dtype=np.uint32), (2, 1)))
        assert first_difference(found[1], found[0]) is None
        cycles[rate] = found[0].cycles
    taken = 16 * 128 * 128
    for rate, took in cycles.items():
        assert taken / rate < took < 1.15 * taken / rate + 2000


def neighbours(blocks: int) -> MachineLaunch:
    out = np.zeros((blocks, 64, 8), np.uint32)
    return MachineLaunch(kernel(NEIGHBOURS), (blocks, 1, 1), (64, 1, 1), (out,), dynamic_shared_bytes=16384)


def test_a_sample_of_clusters_tells_the_time_of_the_grid() -> None:
    # Some waves, of whose last part a sample knows least: blocks that wait for fences are long.
    blocks = 12288
    whole = run_machine_code(neighbours(blocks), GPU, sms="all")
    for sms in (4, 8):
        sample = run_machine_code(neighbours(blocks), GPU, sms=sms)
        assert sample.blocks_simulated < blocks / 8
        assert sample.cycles == pytest.approx(whole.cycles, rel=0.1)


def test_a_sample_has_whole_clusters_in_one_group_on_both_engines() -> None:
    """Three SMs are no whole clusters of four blocks; each block of a sample meets its neighbour."""
    found = []
    for engine in ("compiled", "simpy"):
        launch = neighbours(4096)
        run = run_machine_code(launch, GPU, sms=3, engine=engine, keep=Record.ALL, samples=1)
        (out,) = launch.arguments
        blocks = np.flatnonzero(out[:, 0, 3])
        assert run.sms == 4
        assert len(blocks) == run.blocks_simulated
        assert all(np.isin(blocks & ~3 | rank, blocks).all() for rank in range(4))
        ranks = run.result.blocks.sm.reshape(-1, 4)
        assert all(len(set(row)) == 4 for row in ranks.tolist())
        wrote = out[blocks, :, 0]
        following = blocks & ~3 | (blocks + 1) & 3
        assert np.array_equal(wrote, (1000 * following[:, None] + np.arange(64)).astype(np.uint32))
        found.append(run.result)
    assert first_difference(found[1], found[0]) is None


def test_where_there_are_no_clusters_they_are_refused() -> None:
    launch = MachineLaunch(kernel("", ""), (8, 1, 1), (32, 1, 1))
    with pytest.raises(SmlabError, match="this GPU has no clusters of blocks"):
        run_machine_code(launch, load_gpu("a100-40"))


def test_a_cluster_of_one_block_has_its_barrier() -> None:
    """A block that was compiled for a cluster of its own waits there for its warps, one of which exits."""
    body = f"""
setp.lt.u32 %p0, %r0, 32; @%p0 bra behind;
{SYNC} {SYNC}
mapa.shared::cluster.u32 %r3, %r1, 0; mad.lo.u32 %r3, %r0, 4, %r3; st.shared::cluster.b32 [%r3], %r0; {SYNC}
mad.lo.u32 %r4, %r0, 4, %r1; ld.shared.b32 %r5, [%r4]; ld.param.u64 %w1, [out]; mul.wide.u32 %w2, %r0, 4;
add.u64 %w1, %w1, %w2; st.global.u32 [%w1], %r5;
behind:"""
    results = []
    for engine in ENGINES:
        out = np.zeros(96, np.uint32)
        shape = ".reqnctapercluster 1, 1, 1"
        launch = MachineLaunch(
            kernel(body, shape=shape), (1, 1, 1), (96, 1, 1), (out,), dynamic_shared_bytes=512
        )
        results.append(run(launch, engine))
        assert out.tolist() == [0] * 32 + list(range(32, 96)), engine
    assert first_difference(*results[1:]) is None
