"""What an H100 was measured to take for fences, clusters' barriers, bulk stores and accesses past L1, on both
engines."""

from typing import Any

import numpy as np
import pytest

from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.sass.operations import TensorProduct
from smlab.hw_bench.sass.tools import assemble
from smlab.sim import Record
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.machine import machine_from
from smlab.sim.traces.compare import first_difference

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

GPU = load_gpu("h100-sxm")
MACHINE = machine_from(GPU)
ROUNDS = 4
STORE = "cp.async.bulk.global.shared::cta.bulk_group [%w5], [%r1], {0}; cp.async.bulk.commit_group;"


def cycles(body: str, blocks: int = 1, gpu: Gpu = GPU) -> int:
    """SM clocks from before ``body`` to behind it, in the last of some rounds; both engines agree on all
    events."""
    cluster = f".explicitcluster .reqnctapercluster {blocks}, 1, 1" if blocks > 1 else ""
    text = f"""
.version 8.7
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 image[];
.visible .entry k(.param .u64 out, .param .u64 data) {cluster} {{
.reg .b64 %w<9>; .reg .b32 %r<9>; .reg .pred %p<6>;
mov.u32 %r0, %tid.x; mov.u32 %r1, image; ld.param.u64 %w5, [data]; mov.u32 %r2, 0;
NEXT:
bar.sync 0; mov.u64 %w1, %clock64;
{body}
mov.u64 %w2, %clock64; sub.u64 %w2, %w2, %w1;
add.u32 %r2, %r2, 1; setp.lt.u32 %p0, %r2, {ROUNDS}; @%p0 bra NEXT;
ld.param.u64 %w3, [out]; st.global.u64 [%w3], %w2;
OUT: ret; }}"""
    image = from_cubin(assemble(text, "sm_90a")[0], "k", "k")
    found: list[Any] = []
    counts = set()
    for engine in ("simpy", "compiled"):
        out, data = np.zeros(1, np.uint64), np.zeros(65536, np.uint8)
        launch = MachineLaunch(
            image, (blocks, 1, 1), (1, 1, 1), (out, data), dynamic_shared_bytes=65536, check_shared=False
        )
        found.append(run_machine_code(launch, gpu, engine=engine, keep=Record.ALL).result)
        counts.add(int(out[0]))
    assert first_difference(*found) is None
    assert len(counts) == 1
    return counts.pop()


def test_a_fence_takes_its_own_way_beside_what_it_waits_for() -> None:
    """Stores that are on their way are in the fence's time, and do not come before it."""
    alone, behind = (cycles(f"{store} membar.gl;") for store in ("", "st.global.u64 [%w5], %w1;"))
    least = MACHINE.fence_cycles + MACHINE.error_barrier_cycles
    assert least < alone < least + 40
    assert alone <= behind < alone + 40
    assert cycles("membar.cta;") < 40
    assert MACHINE.fence_cycles < cycles("fence.proxy.async;") < MACHINE.fence_cycles + 40


def test_a_bulk_store_is_waited_for_until_it_is_read() -> None:
    """At its rate, with ``.read`` or without; a reduction at its own."""
    timing = MACHINE.bulk_writes["store"]
    for read in ("", ".read"):
        small, large = (
            cycles(STORE.format(size) + f"cp.async.bulk.wait_group{read} 0;") for size in (4096, 16384)
        )
        assert large - small == 12288 // GPU.number("copy_engine.store_bytes_per_cycle")
    assert timing.read_cycles < small - 4096 / 32 < timing.read_cycles + 30
    assert cycles(STORE.format(16384) + f"cp.async.bulk.wait_group.read {ROUNDS};") < 40
    reduce = STORE.replace("cp.async", "cp.reduce.async", 1).replace("bulk_group [", "bulk_group.add.u32 [")
    small, large = (cycles(reduce.format(size) + "cp.async.bulk.wait_group 0;") for size in (4096, 16384))
    assert large - small == 12288 / GPU.number("copy_engine.reduce_bytes_per_cycle")


def test_the_barrier_of_a_cluster_is_faster_than_its_network() -> None:
    relaxed = cycles("barrier.cluster.arrive.relaxed; barrier.cluster.wait;", blocks=2)
    assert MACHINE.cluster_barrier_cycles < relaxed < MACHINE.network_cycles
    ordered = cycles("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;", blocks=2)
    assert ordered > relaxed + MACHINE.fence_cycles


def test_what_goes_past_l1_asks_l2_each_time() -> None:
    load = "ld.global.{0}.u32 %r5, [%w5]; setp.eq.u32 %p1, %r5, 77; @%p1 bra OUT;"
    copy = "cp.async.{0}.shared.global [%r1], [%w5], 16; cp.async.commit_group; cp.async.wait_group 0;"
    for one, kept, past in ((load, "ca", "cg"), (copy, "ca", "cg")):
        near, far = cycles(one.format(kept)), cycles(one.format(past))
        assert far > near + 200


def test_small_products_take_what_the_tensor_core_takes_at_least() -> None:
    def interval(type_: str, shape: tuple[int, int, int], gpu: str) -> float:
        timing = machine_from(load_gpu(gpu)).tensor_timing(TensorProduct(type_, *shape))
        assert timing is not None
        return timing.interval_cycles + timing.fraction_ticks / 2**20

    assert interval("fp16_fp32", (16, 8, 8), "h100-sxm") == pytest.approx(4.15)
    assert interval("fp16_fp32", (16, 8, 16), "h100-sxm") == pytest.approx(6.11, abs=0.01)
    assert interval("fp64", (8, 8, 4), "h100-sxm") == 16
    assert interval("fp64", (16, 8, 8), "h100-sxm") == 32
    assert interval("fp64", (8, 8, 4), "a100-40") == 16  # of half the rate


@pytest.mark.parametrize("gpu", ["b200", "rtx-5090"])
def test_what_was_measured_on_hopper_alone_is_not_taken_over(gpu: str) -> None:
    machine = machine_from(load_gpu(gpu))
    assert machine.fence_cycles == machine.error_barrier_cycles == 0
    assert machine.cluster_barrier_cycles == machine.network_cycles
    assert machine.bulk_writes["store"].read_cycles == 0
