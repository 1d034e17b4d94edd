"""Barriers in shared memory that copies by lanes arrive at when they are back, on both engines."""

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
from smlab.sim.traces.compare import first_difference

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

THREADS, ROUNDS, STEP = 128, 3, 1 << 14
GPUS = {"sm_80": "a100-40", "sm_90": "h100-pcie"}
HEAD = """.version 8.4
.target {architecture}
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 out)
{{
.reg .b64 %d<9>; .reg .b32 %r<19>; .reg .pred %p<4>; .shared .align 128 .b8 sh[8192];
ld.param.u64 %d0, [x]; ld.param.u64 %d1, [out];
mov.u32 %r0, sh; mov.u32 %r1, %tid.x; mov.u32 %r9, %ntid.x;
setp.ne.u32 %p0, %r1, 0; @%p0 bra begun;
mbarrier.init.shared.b64 [%r0], %r9; mbarrier.init.shared.b64 [%r0+8], %r9;
begun: bar.sync 0;
mul.wide.u32 %d2, %r1, 16; add.u64 %d0, %d0, %d2; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;
mad.lo.u32 %r2, %r1, 16, %r0; mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u32 %r12, 0;
"""
# Of two barriers one counts each lane's arrival alone, the other what was added to its count before; a copy
# is issued behind both, into the place of the first one. What the neighbour copied is read at last.
ROUND = """
again:
cp.async.ca.shared.global [%r2+64], [%d0], 16;
cp.async.cg.shared.global [%r2+4096], [%d0+4096], 16;
cp.async.mbarrier.arrive.noinc.shared.b64 [%r0];
cp.async.mbarrier.arrive.shared.b64 [%r0+8];
cp.async.ca.shared.global [%r2+64], [%d0+8192], 16;
mbarrier.arrive.shared.b64 %d6, [%r0+8];
first: mbarrier.test_wait.parity.shared.b64 %p1, [%r0], %r12; @!%p1 bra first;
second: mbarrier.test_wait.shared.b64 %p1, [%r0+8], %d6; @!%p1 bra second;
cp.async.wait_all; bar.sync 0;
xor.b32 %r4, %r2, 16; xor.b32 %r12, %r12, 1; add.u64 %d0, %d0, 16384;
ld.shared.u32 %r3, [%r4+64]; add.u32 %r10, %r10, %r3;
ld.shared.u32 %r3, [%r4+4096]; add.u32 %r10, %r10, %r3;
bar.sync 0; add.u32 %r11, %r11, 1; setp.lt.u32 %p2, %r11, 3; @%p2 bra again;
st.global.u32 [%d1], %r10; ret; }
"""
# One warp in four does not come: the barrier lacks its arrivals.
MISSED = """
cp.async.ca.shared.global [%r2+64], [%d0], 16;
setp.gt.u32 %p2, %r1, 95; @%p2 bra wait;
cp.async.mbarrier.arrive.noinc.shared.b64 [%r0];
wait: mbarrier.try_wait.parity.shared.b64 %p1, [%r0], 0; @!%p1 bra wait;
ret; }
"""


def launch(architecture: str, body: str, checks: int = 1 << 18) -> tuple[MachineLaunch, Any, Any]:
    cubin = assemble(HEAD.format(architecture=architecture) + body, architecture)[0]
    x = np.arange(ROUNDS * STEP // 4, dtype=np.uint32) * np.uint32(2654435761)
    out = np.zeros(THREADS, np.uint32)
    image = from_cubin(cubin, "k", "k")
    return MachineLaunch(image, (1, 1, 1), (THREADS, 1, 1), (x, out), most_checks=checks), x, out


@pytest.mark.parametrize("architecture", GPUS)
def test_barriers_tell_when_copies_are_back(architecture: str) -> None:
    results = []
    for engine in ("simpy", "compiled"):
        made, x, out = launch(architecture, ROUND)
        gpu = load_gpu(GPUS[architecture])
        results.append(run_machine_code(made, gpu, engine=engine, keep=Record.ALL).result)
        mine, rounds = np.arange(THREADS) ^ 1, x.reshape(ROUNDS, STEP // 4)
        assert np.array_equal(
            out, (rounds[:, 2048 + 4 * mine] + rounds[:, 1024 + 4 * mine]).sum(0, np.uint32)
        )
        assert results[-1].cycles > 3 * gpu.integer("l2.latency_cycles")
    assert first_difference(*results) is None


@pytest.mark.parametrize("architecture", GPUS)
def test_without_timing_warps_wait_for_each_other_too(architecture: str) -> None:
    made, _, out = launch(architecture, ROUND)
    functional.run(made)
    assert np.count_nonzero(out) == THREADS


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_an_arrival_that_never_comes_is_named(engine: str) -> None:
    made, _, _ = launch("sm_90", MISSED, checks=2000)
    with pytest.raises(SmlabError, match=r"the one at 0x400, phase 0, lacks 32 arrivals and 0 bytes"):
        run_machine_code(made, load_gpu("h100-pcie"), engine=engine)
