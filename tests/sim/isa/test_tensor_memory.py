"""Tensor memory: how registers lie in it, who has which columns, and when products are there; on both
engines."""

from typing import Any

import numpy as np
import pytest

from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.sass.tools import assemble
from smlab.sim import Record
from smlab.sim.execution import functional
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.matrix_products import BYTES, E5M2, HALVES, memory_product
from smlab.sim.machine import machine_from
from smlab.sim.traces.compare import first_difference

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

GPU = load_gpu("b200")
LANES = 128
BY_READING = 64
"""Columns of all products of a kernel that the readable engine executes as well: it takes a second for 64."""
HEAD = """
.version 8.7
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 image[];
.visible .entry k(.param .u64 out, .param .u64 data) {
.shared .align 8 .b8 words[32];
.reg .b64 %w<12>; .reg .b32 %r<24>; .reg .b32 %v<256>; .reg .pred %p<9>;
mov.u32 %r0, %tid.x; mov.u32 %r1, image; mov.u32 %r2, words;
ld.param.u64 %w0, [out]; ld.param.u64 %w1, [data];
mov.u32 %r9, %ctaid.x; mov.u32 %r8, %ntid.x; mad.lo.u32 %r8, %r9, %r8, %r0;
setp.ge.u32 %p0, %r0, 32; setp.ne.u32 %p1, %r0, 0;
"""
ALLOCATE = """
@%p0 bra ALLOCATED; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], {0}; ALLOCATED:
@!%p1 mbarrier.init.shared::cta.b64 [%r2+8], 1;
bar.sync 0; ld.shared.b32 %r3, [%r2];
shr.u32 %r4, %r0, 5; and.b32 %r4, %r4, 3; shl.b32 %r4, %r4, 21; add.u32 %r4, %r4, %r3;
"""
FREE = "bar.sync 0; @%p0 bra END; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, {0}; END: ret; }}"


def launched(text: str, out: Any, data: Any, blocks: int = 1, threads: int = LANES) -> MachineLaunch:
    image = from_cubin(assemble(text, "sm_100a")[0], "k", "k")
    return MachineLaunch(
        image, (blocks, 1, 1), (threads, 1, 1), (out, data), dynamic_shared_bytes=65536, check_shared=False
    )


def on_both(text: str, out: Any, data: Any, blocks: int = 1, gpu: Gpu = GPU) -> tuple[Any, int]:
    """What ``out`` holds in the end, and the cycles: alike on both engines, and without timing."""
    results, outs = [], []
    for engine in ("simpy", "compiled"):
        mine = out.copy()
        launch = launched(text, mine, data.copy(), blocks)
        results.append(run_machine_code(launch, gpu, engine=engine, keep=Record.ALL).result)
        outs.append(mine)
    assert first_difference(*results) is None
    untimed = out.copy()
    functional.run(launched(text, untimed, data.copy(), blocks))
    assert np.array_equal(outs[0], outs[1])
    if "clock64" not in text:
        assert np.array_equal(outs[0], untimed)
    return outs[0], results[0].cycles


def place(shape: str, register: int, thread: int) -> tuple[int, int]:
    """The lane of a quarter and the column of a thread's register (PTX ISA, "tcgen05 data movement
    shape")."""
    row, other = divmod(thread, 4)
    if shape == "32x32b":
        return thread, register
    if shape == "16x64b":
        return row + 8 * (other & 1), (other >> 1) + 2 * register
    if shape == "16x128b":
        return row + 8 * (register % 2), other + 4 * (register // 2)
    return row + 8 * (register // 2 % 2), 2 * other + register % 2 + 8 * (register // 4)


SHAPES = [
    ("32x32b", 1, 4),
    ("32x32b", 1, 32),
    ("16x64b", 1, 2),
    ("16x128b", 2, 4),
    ("16x256b", 4, 1),
    ("16x256b", 4, 4),
]


@pytest.mark.parametrize(("shape", "each", "times"), SHAPES)
@pytest.mark.parametrize("packed", [False, True])
def test_registers_lie_as_the_isa_says(shape: str, each: int, times: int, packed: bool) -> None:
    """Stored in a shape and read lane by lane, and the other way round."""
    count = each * times
    columns = count * (1 if shape == "32x32b" else 2) * (2 if packed else 1)
    if columns > 64:
        pytest.skip("more columns than are looked at")
    listed = ", ".join(f"%v{n}" for n in range(count))
    lines = [HEAD, ALLOCATE.format(64)]
    lines += [
        "mad.lo.u32 %r5, %r0, 4, 0; cvt.u64.u32 %w2, %r5; add.u64 %w3, %w1, %w2; add.u64 %w4, %w0, %w2;"
    ]
    lines += [f"ld.global.b32 %v{n}, [%w3+{512 * n}];" for n in range(count)]
    zeros = ", ".join(["%r20"] * 64)
    lines.append(f"mov.u32 %r20, 0; tcgen05.st.sync.aligned.32x32b.x64.b32 [%r4], {{{zeros}}};")
    lines.append(
        f"tcgen05.st.sync.aligned.{shape}.x{times}{'.unpack::16b' * packed}.b32 [%r4], {{{listed}}};"
    )
    lines.append("tcgen05.wait::st.sync.aligned;")
    for n in range(64):
        lines.append(
            f"tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%v200}}, [%r4+{n}]; tcgen05.wait::ld.sync.aligned;"
        )
        lines.append(f"st.global.b32 [%w4+{512 * n}], %v200;")
    lines.append(f"tcgen05.ld.sync.aligned.{shape}.x{times}{'.pack::16b' * packed}.b32 {{{listed}}}, [%r4];")
    lines.append("tcgen05.wait::ld.sync.aligned;")
    lines += [f"st.global.b32 [%w4+{512 * (64 + n)}], %v{n};" for n in range(count)]
    data = np.random.default_rng(0).integers(0, 1 << 32, (count, LANES), dtype=np.uint32)
    found, _ = on_both("\n".join([*lines, FREE.format(64)]), np.zeros((64 + count, LANES), np.uint32), data)
    wanted = np.zeros((64, LANES), np.uint32)
    for thread in range(LANES):
        for register in range(count):
            lane, column = place(shape, register, thread % 32)
            lane += thread // 32 * 32
            word = data[register, thread]
            if packed:
                wanted[2 * column, lane], wanted[2 * column + 1, lane] = word & 0xFFFF, word >> 16
            else:
                wanted[column, lane] = word
    assert np.array_equal(found[:64], wanted)
    assert np.array_equal(found[64:], data)


def test_a_warp_reaches_its_own_quarter_alone() -> None:
    """The lane of an address is its quarter's, whichever it names."""
    body = f"""
{ALLOCATE.format(32)}
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {{%r0}}; tcgen05.wait::st.sync.aligned;
tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%v0}}, [%r4]; tcgen05.wait::ld.sync.aligned;
mul.wide.u32 %w2, %r0, 4; add.u64 %w2, %w2, %w0; st.global.b32 [%w2], %v0;
{FREE.format(32)}"""
    found, _ = on_both(HEAD + body, np.zeros(LANES, np.uint32), np.zeros(1, np.uint32))
    assert found.tolist() == list(range(LANES))


def product(columns: int, many: int, gpu: Gpu = GPU, rows: int = 128) -> int:
    """Cycles of so many products, their commit and the wait, when their code has been fetched."""
    described = 1 << 4 | 1 << 7 | 1 << 10 | columns >> 3 << 17 | rows >> 4 << 24
    body = f"""
{ALLOCATE.format(256)}
@%p0 bra DONE; elect.sync _|%p5, 0xffffffff; @!%p5 bra DONE;
shr.u32 %r5, %r1, 4; cvt.u64.u32 %w2, %r5; or.b64 %w2, %w2, {1 << 46 | 16 << 32 | 8 << 16};
add.u64 %w3, %w2, 256;
mov.b32 %r6, {described}; mov.u32 %r10, 0; setp.ne.u32 %p2, %r10, 0;
ROUND: and.b32 %r11, %r10, 1; mov.u64 %w4, %clock64;
{"tcgen05.mma.cta_group::1.kind::f16 [%r3], %w2, %w3, %r6, %p2;" * many}
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r2+8];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r2+8], %r11; @!%p3 bra WAIT;
mov.u64 %w5, %clock64; sub.u64 %w5, %w5, %w4; st.global.u64 [%w0], %w5;
add.u32 %r10, %r10, 1; setp.lt.u32 %p4, %r10, 3; @%p4 bra ROUND;
DONE: {FREE.format(256)}"""
    out, data = np.zeros(1, np.uint64), np.zeros(1, np.uint32)
    if many * columns <= BY_READING:
        return int(on_both(HEAD + body, out, data, gpu=gpu)[0][0])
    run_machine_code(launched(HEAD + body, out, data), gpu)
    return int(out[0])


def test_products_follow_each_other_at_the_rate_of_banks_or_tensor_cores() -> None:
    """128 rows: 32 cycles of the banks for the first matrix, and a quarter of the columns for the second."""
    for columns, each in ((32, 44), (64, 48), (128, 64), (256, 128)):
        assert product(columns, 5) - product(columns, 3) == 2 * each
    assert product(64, 5, rows=64) - product(64, 3, rows=64) == 2 * 32


def test_a_waiting_warp_wakes_when_its_phase_is_complete() -> None:
    """The wait rises with the columns, cycle by cycle; without the rule it goes by iterations of a loop."""
    waits = [product(columns, 1) for columns in (64, 80, 96, 112, 128)]
    assert np.diff(waits).tolist() == [8, 8, 8, 8]
    asks = GPU.with_values({"shared.phase_check_wakes": 0}, "a test")
    asked = [product(columns, 1, asks) for columns in (64, 80, 96, 112, 128)]
    assert np.diff(asked).tolist() != [8, 8, 8, 8]


def test_blocks_of_an_sm_wait_for_each_others_columns() -> None:
    """Two blocks want more than there is: one after the other. With half each they run side by side."""
    cycles: dict[int, int] = {}
    for columns in (256, 512):
        body = f"""
{ALLOCATE.format(columns)}
mul.wide.u32 %w2, %r8, 8; add.u64 %w2, %w2, %w0; mov.u64 %w3, %clock64; st.global.u64 [%w2], %w3;
mov.u32 %r10, 0; AGAIN: add.u32 %r10, %r10, 1; setp.lt.u32 %p4, %r10, 300; @%p4 bra AGAIN;
{FREE.format(columns)}"""
        out = np.zeros((2, LANES), np.uint64)
        one = GPU.with_values({"gpu.sms": 1}, "a test")
        found, _ = on_both(HEAD + body, out, np.zeros(1, np.uint32), blocks=2, gpu=one)
        cycles[columns] = abs(int(found[1, 0]) - int(found[0, 0]))
    assert cycles[256] < 50
    assert cycles[512] > 300


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("{a}\nbar.sync 0; ret; }}", "a block that ends and has not freed its tensor memory"),
        ("{a}\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {{%v0}}, [%r4+40]; tcgen05.wait::ld.sync.aligned;"
         "st.global.b32 [%w0], %v0; {f}", "column 40"),
        ("{a}\n@%p1 bra DONE; mov.u64 %w2, 0; mov.u32 %r6, 0x8100010;"
         "tcgen05.mma.cta_group::1.kind::f16 [%r3], %w2, %w2, %r6, %p0; DONE: {f}",
         "a place in tensor memory that the warp does not reach, or its block has not allocated"),
        ("{a}\n@%p1 bra DONE; mov.u64 %w2, 0; mov.u32 %r6, 0x8040014;"
         "tcgen05.mma.cta_group::1.kind::f16 [%r3], %w2, %w2, %r6, %p0; DONE: {f}",
         "an instruction descriptor of a product that is not executed here: 0x08040014"),
        ("{a}\n@%p0 bra DONE; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 512; DONE: {f}",
         "an allocation of tensor memory that waits for ever: 512 columns"),
    ],
)  # fmt: skip
def test_misuse_ends_with_one_line(body: str, told: str) -> None:
    text = HEAD + body.format(a=ALLOCATE.format(32), f=FREE.format(32))
    messages = set()
    for engine in ("compiled", "simpy"):
        launch = launched(text, np.zeros(4, np.uint32), np.zeros(1, np.uint32))
        launch.most_checks = 500
        with pytest.raises(SmlabError) as found:
            run_machine_code(launch, GPU, engine=engine)
        messages.add(str(found.value))
    assert len(messages) == 1
    assert told in messages.pop()


def test_a_card_without_tensor_memory_refuses() -> None:
    text = HEAD + ALLOCATE.format(32) + FREE.format(32)
    with pytest.raises(SmlabError, match="this GPU has no tensor memory"):
        run_machine_code(launched(text, np.zeros(1, np.uint32), np.zeros(1, np.uint32)), load_gpu("h100-sxm"))


@pytest.mark.parametrize("bit", [2, 3, 30, 31])
@pytest.mark.parametrize("family", [HALVES, E5M2])
def test_descriptors_that_are_not_executed(bit: int, family: int) -> None:
    """Sparse products, saturation of floats, and shifted rows."""
    plain = 1 << 4 | 8 << 17 | 8 << 24
    assert memory_product(plain, family) is not None
    assert memory_product(plain | 1 << bit, family) is None
    assert memory_product(2 << 4 | 8 << 17 | 8 << 24, BYTES) is not None


def test_the_time_of_a_product_is_told_by_its_shape() -> None:
    machine = machine_from(GPU)
    timing = machine.memory_product_timing(256 | 128 << 16 | 1 << 32)
    assert (timing.interval_cycles, timing.spare_cycles) == (128, 128 - 32 - 64)
    assert machine.memory_product_timing(64 | 128 << 16).interval_cycles == 32
