"""Products by groups of warps wait in a queue for the tensor core, and for the banks of shared memory. Other
instructions read fewer registers meanwhile."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass.tools import assemble
from smlab.sim import Record
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.machine import PipeTiming, machine_from
from smlab.sim.reference.scheduler import Scheduler
from smlab.sim.traces.compare import first_difference

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

PRODUCTS = 10
INTERVAL = 32
"""Of a part of m64n64k16 in halves: 16,384 multiply-adds at 512 a cycle."""
GPU = load_gpu("h100-sxm")


SUMS = ", ".join(f"%f{n}" for n in range(32))
ONE_PRODUCT = f"wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {{{SUMS}}}, %w0, %w0, 1, 1, 1, 0, 0;\n"


def kernel(between: str) -> Any:
    text = f"""
.version 8.7
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 image[];
.visible .entry k(.param .u64 out) {{
.reg .b64 %w<4>; .reg .b32 %r<9>; .reg .f32 %f<64>; .reg .pred %p<2>;
mov.u32 %r0, %tid.x; ld.param.u64 %w1, [out]; mul.wide.u32 %w2, %r0, 16; add.u64 %w1, %w1, %w2;
mov.u64 %w0, 0x4000004000010040;
cvt.rn.f32.u32 %f63, %r0;
{" ".join(f"mov.f32 %f{n}, 0f00000000;" for n in range(32))}
{" ".join(f"fma.rn.f32 %f{n}, %f63, 0f3F0000{n}, %f63;" for n in range(40, 63))}
wgmma.fence.sync.aligned;
{ONE_PRODUCT * PRODUCTS}
wgmma.commit_group.sync.aligned;
{between}
wgmma.wait_group.sync.aligned 0;
cvt.rzi.u32.f32 %r5, %f0;
{" ".join(f"add.f32 %f40, %f40, %f{n};" for n in range(41, 60))}
cvt.rzi.u32.f32 %r6, %f40; add.u32 %r5, %r5, %r6;
st.global.v4.b32 [%w1], {{%r0, %r0, %r5, %r5}};
ret; }}"""
    return from_cubin(assemble(text, "sm_90a")[0], "k", "k")


MANY_READS = "\n".join(
    f"fma.rn.f32 %f{41 + n % 19}, %f{41 + n % 19}, %f{60 + n % 4}, %f40;" for n in range(76)
)


def issues(values: dict[str, float], between: str = "", engine: str = "compiled") -> tuple[Any, Any]:
    """When the first warp issues its products and additions (FFMA), by opcode; and the run's result."""
    out = np.zeros((128, 4), np.uint32)
    launch = MachineLaunch(
        kernel(between), (1, 1, 1), (128, 1, 1), [out], dynamic_shared_bytes=32768, check_shared=False
    )
    gpu = GPU.with_values(values, "a test")
    found = run_machine_code(launch, gpu, engine=engine, keep=Record.ALL).result
    trace = found.issues
    mine = trace.warp == trace.warp.min()
    opcodes = np.array([micro.instruction.opcode for micro in launch.code])[trace.slot[mine]]
    return {name: trace.cycle[mine][opcodes == name] for name in ("HGMMA", "FFMA")}, found


def queue(entries: int) -> dict[str, float]:
    return {"tensor.group_shared_queue_entries": entries}


def test_a_product_issues_while_the_queue_has_room() -> None:
    """So many are accepted that are not done; what they take in all stays."""
    alone, six, all_ = (issues(queue(n)) for n in (1, 6, PRODUCTS))
    spans = [int(at["HGMMA"][-1] - at["HGMMA"][0]) for at, _ in (alone, six, all_)]
    count = len(alone[0]["HGMMA"])
    assert count > 7
    assert spans[0] >= (count - 1) * INTERVAL
    assert spans[0] - spans[1] == pytest.approx(5 * INTERVAL, abs=INTERVAL)
    assert spans[2] <= spans[1]
    assert abs(alone[1].cycles - six[1].cycles) <= INTERVAL
    assert machine_from(GPU).group_queue_entries == (5, 6)


def test_other_instructions_have_fewer_registers_meanwhile() -> None:
    """One that reads three of them keeps its scheduler for three cycles; with room for any it does not."""
    spans = []
    for left in (1, 2, 64):
        values = {"tensor.group_reads_left_per_cycle": left, **queue(PRODUCTS)}
        at = issues(values, MANY_READS)[0]["FFMA"]
        spans.append(int(at[-1] - at[0]))
    assert spans[0] > spans[1] > spans[2]


@pytest.mark.parametrize("values", [{}, queue(1), {"tensor.group_reads_left_per_cycle": 0.5}])
def test_both_engines_have_the_same_events(values: dict[str, float]) -> None:
    results = [issues(values, MANY_READS, engine)[1] for engine in ("compiled", "simpy")]
    assert first_difference(*results) is None


FEW, STORES = 2, 12
AGAIN = PRODUCTS


def last_product_is_done(values: dict[str, float], stores: int, engine: str = "compiled") -> tuple[int, Any]:
    """The cycle in which a kernel with products, stores of 128 bits to shared memory, and products again is
    done; and its result. All is in the queue at once."""
    store = "st.volatile.shared.v4.b32 [%r7], {%r0, %r0, %r0, %r0};\n"
    between = f"shl.b32 %r7, %r0, 4; add.u32 %r7, %r7, 16384;\n{store * stores}{ONE_PRODUCT * AGAIN}"
    between += "wgmma.commit_group.sync.aligned;\n"
    at, found = issues({**queue(2 * PRODUCTS), **values}, between, engine)
    assert len(at["HGMMA"]) > PRODUCTS + AGAIN // 2
    return found.cycles, found


def test_products_wait_for_banks_that_give_something_else() -> None:
    """Two matrices of m64n64k16 take the banks all the time, so that what stores take of them is missing: a
    cycle for each 128 bytes, of four warps. A tensor core that takes twice as long leaves the banks free."""
    few, more = (last_product_is_done({}, stores)[0] for stores in (FEW, FEW + STORES))
    assert more - few == pytest.approx(4 * 4 * STORES, rel=0.1)
    slow = {"tensor.group_fp16_fp32_fma_per_cycle": 256.0}
    few, more = (last_product_is_done(slow, stores)[0] for stores in (FEW, FEW + STORES))
    assert more == few


def test_copies_take_what_is_to_spare_and_nothing_else() -> None:
    """A copy leaves less for accesses, and makes no product longer by itself."""
    timing = PipeTiming(interval_cycles=64, latency_cycles=107, per_sm=False, spare_cycles=16)
    taken = {}
    for awaited, owed in ((0, 0), (10, 0), (10, 8), (100, 0), (100, 8)):
        scheduler = Scheduler(SimpleNamespace(machine=machine_from(GPU)), 0)  # type: ignore[arg-type]
        scheduler.take_product(timing, 0)
        scheduler.banks_awaited = awaited
        scheduler.take_product(timing, 0)
        scheduler.banks_owed += 16 + owed  # what the first product had to spare, and more
        taken[awaited, owed] = scheduler.take_product(timing, 0)[1], scheduler.banks_awaited
    assert taken == {
        (0, 0): (64, 0),
        (10, 0): (64, 0),
        (10, 8): (64 + 8 - 6, 0),
        (100, 0): (64, 100 - 32),
        (100, 8): (64 + 8, 100 - 32),
    }


@pytest.mark.parametrize("rate", [512.0, 400.0, 256.0])
def test_both_engines_agree_on_the_banks(rate: float) -> None:
    values = {"tensor.group_fp16_fp32_fma_per_cycle": rate}
    results = [last_product_is_done(values, STORES, engine)[1] for engine in ("compiled", "simpy")]
    assert first_difference(*results) is None


def test_a_description_without_the_figures_has_no_queue() -> None:
    machine = machine_from(load_gpu("a100-40"))
    assert machine.group_queue_entries == (1, 1)
    assert machine.group_read_ticks == 0
