"""Passes of asynchronous copies that go past L1 (SEMANTICS 9.10): one for each row of the banks that a line
goes to, in both engines; two layouts whose passes others counted with Nsight Compute."""

from typing import Any

import numpy as np
import pytest

from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass.tools import assemble
from smlab.sim import Record
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.instructions import CLASS_NAMES
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.traces.compare import first_difference

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

SOURCE = """.version 8.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 from, .param .u64 to, .param .u64 out)
{{
.reg .b64 %d<9>; .reg .b32 %r<9>; .reg .pred %p<2>; .shared .align 128 .b8 sh[40960];
ld.param.u64 %d0, [x]; ld.param.u64 %d1, [from]; ld.param.u64 %d2, [to]; ld.param.u64 %d3, [out];
mov.u32 %r0, sh; mov.u32 %r1, %tid.x; mul.wide.u32 %d4, %r1, 4;
add.u64 %d1, %d1, %d4; add.u64 %d2, %d2, %d4; add.u64 %d3, %d3, %d4;
ld.global.u32 %r2, [%d1]; ld.global.u32 %r3, [%d2]; add.u32 %r3, %r3, %r0;
cvt.u64.u32 %d4, %r2; add.u64 %d0, %d0, %d4; setp.lt.u32 %p0, %r1, {lanes};
@%p0 cp.async.{path}.shared.global [%r3], [%d0], 16;
cp.async.wait_all; bar.sync 0;
mov.u32 %r4, 0; @%p0 ld.shared.u32 %r4, [%r3]; st.global.u32 [%d3], %r4; ret; }}
"""
LANE = np.arange(32)
KEYS = 128  # bytes of a line, and of a row of the banks
ROWS, PARTS = LANE // 4, LANE % 4
WHOLE_ROWS, EIGHTHS = LANE // 8, LANE % 8
PADDED = [144 * ROWS + 32 * PARTS + 16 * half for half in range(2)]
TURNED = [2048 * PARTS + 32 * ROWS + 16 * (half ^ ROWS // 4) for half in range(2)]
LAYOUTS: dict[str, tuple[Any, Any, int]] = {
    "rows side by side": (128 * WHOLE_ROWS + 16 * EIGHTHS, 128 * WHOLE_ROWS + 16 * EIGHTHS, 4),
    "places exchanged in a row": (
        128 * WHOLE_ROWS + 16 * EIGHTHS,
        128 * WHOLE_ROWS + 16 * (EIGHTHS ^ WHOLE_ROWS),
        4,
    ),
    "padded rows of 128 bytes": (128 * WHOLE_ROWS + 16 * EIGHTHS, 144 * WHOLE_ROWS + 16 * EIGHTHS, 7),
    "padded rows of 64 bytes": (8192 * ROWS + 16 * PARTS, 80 * ROWS + 16 * PARTS, 11),
    "padded, each second 16 bytes": (128 * ROWS + 32 * PARTS, PADDED[0], 14),
    "padded, the others": (128 * ROWS + 32 * PARTS + 16, PADDED[1], 14),
    "by columns of 16": (128 * ROWS + 32 * PARTS, TURNED[0], 32),
}
"""Where each lane reads from and writes to, and the passes."""


def copied(name: str, engine: str, path: str = "cg", lanes: int = 32) -> Any:
    reads, writes, _ = LAYOUTS[name]
    x = np.arange(1 << 15, dtype=np.uint32) * np.uint32(2654435761)
    out = np.zeros(32, np.uint32)
    image = from_cubin(assemble(SOURCE.format(path=path, lanes=lanes), "sm_80")[0], "k", "k")
    arrays = (x, reads.astype(np.uint32), writes.astype(np.uint32), out)
    made = MachineLaunch(image, (1, 1, 1), (32, 1, 1), arrays)
    result = run_machine_code(made, load_gpu("a100-40"), engine=engine, keep=Record.ALL).result
    assert np.array_equal(out[:lanes], x[reads // 4][:lanes])
    return result


def passes_of_copies(result: Any) -> list[int]:
    return [int(p) for p in result.jobs.passes[result.jobs.op == CLASS_NAMES.index("async-copy")]]


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_pass_for_each_row_that_a_line_goes_to(name: str) -> None:
    reads, writes, expected = LAYOUTS[name]
    assert len(set(zip(reads // KEYS, writes // KEYS, strict=True))) == expected
    results = [copied(name, engine) for engine in ("simpy", "compiled")]
    assert [passes_of_copies(result) for result in results] == [[expected]] * 2
    assert first_difference(*results) is None


def test_lanes_that_take_no_part_make_no_pass() -> None:
    results = [copied("padded rows of 64 bytes", engine, lanes=8) for engine in ("simpy", "compiled")]
    assert [passes_of_copies(result) for result in results] == [[3]] * 2


def test_through_l1_a_line_is_a_pass() -> None:
    """What such copies write was counted for one kernel only, whose rows cross and make no more passes."""
    results = [copied("padded, the others", engine, "ca") for engine in ("simpy", "compiled")]
    assert [passes_of_copies(result) for result in results] == [[8]] * 2
    assert first_difference(*results) is None


def test_the_passes_that_others_counted() -> None:
    """Attention of 32 heads of 4,096 x 64 halves by 8 warps, tiles of 128 and 64 rows, on a card of sm_120:
    30.15 million passes with rows of 144 bytes, and 68.16 million by columns of 16."""
    blocks, copies_of_q, copies_of_k_and_v = 32 * 32, 32, 64 * 32
    q_rows, q_parts = LANE // 2, LANE % 2
    q_padded = [144 * q_rows + 64 * q_parts + 16 * n for n in range(4)]
    of_q = np.mean([len(set(zip(q_rows, to // KEYS, strict=True))) for to in q_padded])
    of_others = np.mean([LAYOUTS[name][2] for name in ("padded, each second 16 bytes", "padded, the others")])
    padded = blocks * (copies_of_q * of_q + copies_of_k_and_v * of_others)
    assert padded / 1e6 == pytest.approx(30.15, abs=0.005)
    turned = blocks * (copies_of_q + copies_of_k_and_v) * LAYOUTS["by columns of 16"][2]
    assert turned / 1e6 == pytest.approx(68.16, abs=0.005)
