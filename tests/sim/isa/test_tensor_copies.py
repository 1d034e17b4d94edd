"""Copies from shared to tensor memory (``tcgen05.cp``): which lanes and columns get which bytes, in both
engines."""

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass.tools import assemble
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

BYTES, LANES, COLUMNS = 8192, 128, 8
LEADING, STRIDE = 128, 256
"""Distances of a descriptor without an exchange: from the first 16 bytes of a row to the next ones, and from
eight rows to the next eight."""
SHAPES = {
    "128x256b": (128, 2, lambda row: [row]),
    "128x128b": (128, 1, lambda row: [row]),
    "64x128b.warpx2::02_13": (64, 1, lambda row: [row, row + 64]),
    "64x128b.warpx2::01_23": (64, 1, lambda row: [row % 32 + 64 * (row // 32) + n for n in (0, 32)]),
    "32x128b.warpx4": (32, 1, lambda row: [row + 32 * n for n in range(4)]),
}
"""Rows, pieces of 16 bytes in each, and the lanes that get a row (PTX ISA, "tcgen05.cp")."""


@cache
def kernel(shape: str, column: int) -> bytes:
    """Fill shared memory, copy it by one thread, and write the first columns of all lanes."""
    described = LEADING >> 4 << 16 | STRIDE >> 4 << 32 | 1 << 46
    lines = [
        ".version 8.7\n.target sm_100a\n.address_size 64",
        ".extern .shared .align 1024 .b8 image[];",
        ".visible .entry copy(.param .u64 s, .param .u64 d) {",
        ".shared .align 8 .b8 words[16];",
        ".reg .b32 %r<8>; .reg .b32 %v<8>; .reg .b64 %at<4>; .reg .b64 %desc; .reg .pred %p<4>;",
        "mov.u32 %r0, %tid.x; mov.u32 %r3, image; mov.u32 %r4, words;",
        "ld.param.u64 %at0, [s]; mul.wide.u32 %at1, %r0, 4; add.u64 %at0, %at0, %at1;",
        "mad.lo.u32 %r2, %r0, 4, %r3;",
    ]
    for at in range(0, BYTES, 4 * LANES):
        lines.append(f"ld.global.b32 %v0, [%at0+{at}]; st.shared.b32 [%r2+{at}], %v0;")
    zeros = ", ".join(["%v0"] * COLUMNS)
    lines += [
        "setp.ge.u32 %p0, %r0, 32; setp.ne.u32 %p1, %r0, 0; @%p0 bra after;",
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4], 32; after:",
        "@!%p1 mbarrier.init.shared::cta.b64 [%r4+8], 1; bar.sync 0; ld.shared.b32 %r5, [%r4];",
        "shr.u32 %r6, %r0, 5; shl.b32 %r6, %r6, 21; add.u32 %r6, %r6, %r5; mov.b32 %v0, 0;",
        f"tcgen05.st.sync.aligned.32x32b.x{COLUMNS}.b32 [%r6], {{{zeros}}};",
        "tcgen05.wait::st.sync.aligned; fence.proxy.async.shared::cta; bar.sync 0;",
        f"shr.u32 %r3, %r3, 4; cvt.u64.u32 %desc, %r3; add.u64 %desc, %desc, {described:#x};",
        f"add.u32 %r7, %r5, {column}; @%p1 bra wait;",
        f"tcgen05.cp.cta_group::1.{shape} [%r7], %desc;",
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4+8];",
        "wait: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r4+8], 0; @!%p3 bra wait;",
        f"tcgen05.ld.sync.aligned.32x32b.x{COLUMNS}.b32 "
        f"{{{', '.join(f'%v{n}' for n in range(COLUMNS))}}}, [%r6]; tcgen05.wait::ld.sync.aligned;",
        f"ld.param.u64 %at2, [d]; mul.wide.u32 %at1, %r0, {4 * COLUMNS}; add.u64 %at2, %at2, %at1;",
        *(f"st.global.b32 [%at2+{4 * n}], %v{n};" for n in range(COLUMNS)),
        "bar.sync 0; @%p0 bra end; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, 32; end: ret; }",
    ]
    return assemble("\n".join(lines), "sm_100a")[0]


def copied(shape: str, engine: str, column: int = 0) -> tuple[NDArray[np.uint32], int]:
    """What the lanes hold: ``(lanes, columns)``; and the cycles."""
    image = np.arange(1, BYTES // 4 + 1, dtype=np.uint32)
    out = np.zeros((LANES, COLUMNS), np.uint32)
    code = from_cubin(kernel(shape, column), "copy", shape)
    launch = MachineLaunch(code, (1, 1, 1), (LANES, 1, 1), (image, out), dynamic_shared_bytes=BYTES)
    return out, int(run_machine_code(launch, load_gpu("b200"), engine=engine).cycles)


@pytest.mark.parametrize("shape", SHAPES)
def test_each_lane_gets_its_row(shape: str) -> None:
    rows, pieces, lanes_of = SHAPES[shape]
    wanted = np.zeros((LANES, COLUMNS), np.uint32)
    for row in range(rows):
        for piece in range(pieces):
            first = (row // 8 * STRIDE + row % 8 * 16 + piece * LEADING) // 4
            for lane in lanes_of(row):
                wanted[lane, 4 * piece : 4 * piece + 4] = np.arange(first + 1, first + 5)
    readable, cycles = copied(shape, "simpy")
    compiled, same = copied(shape, "compiled")
    assert np.array_equal(readable, wanted)
    assert np.array_equal(compiled, wanted)
    assert cycles == same


def test_a_longer_copy_takes_longer() -> None:
    """4,096 bytes take 64 cycles of the banks, 512 the 12 that anything takes; the waiting warp adds some."""
    (_, long), (_, short) = copied("128x256b", "compiled"), copied("32x128b.warpx4", "compiled")
    assert 64 - 12 <= long - short <= 64 - 12 + 8


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_columns_that_the_block_has_not_are_one_line(engine: str) -> None:
    with pytest.raises(SmlabError, match="tensor memory"):
        copied("128x256b", engine, column=28)
