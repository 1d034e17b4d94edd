"""Kernels ``timed`` of the published chains of loads and copies, and of loads of matrices beside products."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

SLOTS: Final = 4096
"""Pointers of a chain through L2, 256 bytes apart: more lines than an L1 holds."""
STREAM_ITERATIONS: Final = 24
_COPY: Final = re.compile(r"cp\.async\.(c[ag])\.(\d+)")
_STREAM: Final = re.compile(r"stages(\d+)blocks(\d+)")
MIX: Final = re.compile(r"loads(\d+)barriers(\d+)blocks(\d+)")
_PARAMETERS: Final = ".param .u64 zeros, .param .u64 begins, .param .u64 ends"
_PRODUCT: Final = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"


@dataclass(frozen=True)
class AccessKernel:
    """PTX's text, how many iterations it takes between its two readings of the clock, and its launch.

    ``blocks`` is how many blocks an SM runs, ``whole`` whether all SMs do; ``words`` those of memory an SM.
    """

    text: str
    iterations: int
    blocks: int = 1
    whole: bool = False
    threads: int | None = None
    words: int = 4096


def access_kernel(form: str, loop: str, architecture: str, warps: int) -> AccessKernel | None:
    """The kernel of a row; None for a form or loop of another kind."""
    if MIX.fullmatch(loop):
        return _mix(loop, architecture)
    if loop == "through-l2":
        return _through_l2(form, architecture)
    if _STREAM.fullmatch(loop):
        return _stream(form, loop, architecture, warps)
    if loop in ("add", "and240", "next16") or loop.startswith("ways"):
        return _chain(form, loop, architecture)
    return None


def _text(architecture: str, before: list[str], body: list[str], iterations: int, after: list[str]) -> str:
    return "\n".join(
        [
            f".version 8.7\n.target {architecture}\n.address_size 64",
            f".visible .entry timed({_PARAMETERS}) {{",
            ".shared .align 128 .b8 rows[32768];",
            ".reg .b32 %r<9>; .reg .b32 %m<5>; .reg .b64 %at<9>; .reg .b64 %clock<2>; .reg .pred %again;",
            "mov.u32 %r0, %tid.x; mov.u32 %r3, rows; ld.param.u64 %at0, [zeros];",
            *before,
            "mov.u32 %r1, 0; bar.sync 0; mov.u64 %clock0, %clock64;",
            "NEXT:",
            '.pragma "nounroll";',
            *body,
            f"add.u32 %r1, %r1, 1; setp.lt.u32 %again, %r1, {iterations}; @%again bra NEXT;",
            "mov.u64 %clock1, %clock64;",
            *after,
            "mov.u32 %r2, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.u32 %r2, %r2, %r4, %r0;",
            "ld.param.u64 %at1, [begins]; ld.param.u64 %at2, [ends]; mul.wide.u32 %at3, %r2, 8;",
            "add.u64 %at1, %at1, %at3; add.u64 %at2, %at2, %at3;",
            "st.global.u64 [%at1], %clock0; st.global.u64 [%at2], %clock1;",
            "ret; }",
        ]
    )


def _chain(form: str, loop: str, architecture: str) -> AccessKernel:
    """One warp's chain of loads from shared memory.

    ``next16``: words hold the addresses of rows 16 bytes apart, a ``__syncwarp`` each turn (Sun et al.);
    ``and240`` and ``add``: words hold zeros, and so much arithmetic makes the next address; ``waysN``: lanes
    N words apart, each word holds the address N words on.
    """
    iterations, unroll = 1024, 16
    word = "mov.u32 %r5, 0;"
    start = "and.b32 %m0, %r0, 7; shl.b32 %m0, %m0, 4; add.u32 %m0, %m0, %r3;"
    address, after = "%m0", ""
    if loop == "next16":
        word = "shl.b32 %r5, %r4, 4; and.b32 %r5, %r5, 2047; add.u32 %r5, %r5, %r3;"
        start = "shl.b32 %m0, %r0, 4; add.u32 %m0, %m0, %r3;"
        after, unroll = "bar.warp.sync 0xffffffff;", 4
    elif loop == "add":
        start, address, after = start.replace("%m0", "%m4"), "%m4", "add.u32 %m4, %m4, %m0;"
    elif loop == "and240":
        after = "and.b32 %m0, %m0, 240; add.u32 %m0, %m0, %r3;"  # an instruction where %r3 is 0
    else:
        ways = int(loop.removeprefix("ways"))
        word = (
            f"add.u32 %r5, %r4, {ways}; and.b32 %r5, %r5, 4095; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r3;"
        )
        start = f"mul.lo.u32 %m0, %r0, {4 * ways}; add.u32 %m0, %m0, %r3;"
    if form.startswith("ldmatrix"):
        results = ", ".join(f"%m{n}" for n in range(int(form[-1])))
        load = f"ldmatrix.sync.aligned.m8n8.{form[-2:]}.shared.b16 {{{results}}}, [{address}];"
    else:
        load = f"ld.volatile.shared.u32 %m0, [{address}];"
    before = [
        "mov.u32 %r4, %r0;",
        "FILL:",
        word,
        "shl.b32 %r6, %r4, 2; add.u32 %r6, %r6, %r3; st.shared.u32 [%r6], %r5;",
        "add.u32 %r4, %r4, 32; setp.lt.u32 %again, %r4, 4096; @%again bra FILL;",
        start,
    ]
    stored = ["st.global.u32 [%at0], %m0;", f"st.global.u32 [%at0+4], {address};"]
    return AccessKernel(
        _text(architecture, before, [load, after] * unroll, iterations // unroll, stored), iterations
    )


def _through_l2(form: str, architecture: str) -> AccessKernel:
    """One thread's chain of pointers in L2: a load; a load and a store to shared memory that is loaded
    (``ld.st.shared``); or an asynchronous copy there that is waited for."""
    copy = _COPY.fullmatch(form)
    back = "ld.volatile.shared.u64 %at8, [%r3];"
    if copy:
        step = [f"cp.async.{copy[1]}.shared.global [%r3], [%at8], {copy[2]};"]
        step += ["cp.async.commit_group;", "cp.async.wait_group 0;", back]
    elif form == "ld.st.shared":
        step = ["ld.global.cg.u64 %at7, [%at8];", "st.volatile.shared.u64 [%r5], %at7;", back]
    else:
        step = ["ld.global.cg.u64 %at8, [%at8];"]
    before = [
        "ld.global.u32 %r5, [%at0]; add.u32 %r5, %r5, %r3;",
        "mov.u32 %r1, 0;",
        "FILL:",
        f"add.u32 %r2, %r1, 1237; and.b32 %r2, %r2, {SLOTS - 1}; mul.wide.u32 %at1, %r2, 256;",
        "add.u64 %at1, %at1, %at0; mul.wide.u32 %at2, %r1, 256; add.u64 %at2, %at2, %at0;",
        f"st.global.u64 [%at2], %at1; add.u32 %r1, %r1, 1; setp.lt.u32 %again, %r1, {SLOTS};",
        "@%again bra FILL;",
        "membar.gl; mov.u64 %at8, %at0;",
        *step * 16,
    ]
    text = _text(architecture, before, step * 8, 64, ["st.global.u64 [%at0+8], %at8;"])
    return AccessKernel(text, 512, threads=1, words=SLOTS * 32)


def _stream(form: str, loop: str, architecture: str, warps: int) -> AccessKernel:
    """Each block copies its own part of memory that nothing has touched, a copy a thread and stage; the
    oldest stage is waited for before the next is asked for."""
    copy, shape = _COPY.fullmatch(form), _STREAM.fullmatch(loop)
    assert copy
    assert shape
    size, stages, blocks = int(copy[2]), int(shape[1]), int(shape[2])
    threads, iterations = 32 * warps, STREAM_ITERATIONS
    one = [
        f"cp.async.{copy[1]}.shared.global [%r5], [%at8], {size};",
        f"add.u64 %at8, %at8, {size * threads}; cp.async.commit_group;",
    ]
    before = [
        f"mul.lo.u32 %r5, %r0, {size}; add.u32 %r5, %r5, %r3; mov.u32 %r4, %ctaid.x;",
        f"mul.lo.u32 %r4, %r4, {iterations + stages - 1}; mad.lo.u32 %r4, %r4, {threads}, %r0;",
        f"mul.wide.u32 %at8, %r4, {size}; add.u64 %at8, %at8, %at0;",
        *one * (stages - 1),
    ]
    body = [*one, f"cp.async.wait_group {stages - 1};", "ld.volatile.shared.u32 %r6, [%r5];"]
    text = _text(architecture, before, body, iterations, ["cp.async.wait_group 0;"])
    return AccessKernel(
        text, iterations, blocks, whole=True, words=(iterations + stages) * threads * blocks * size // 8 + 8
    )


def _mix(loop: str, architecture: str) -> AccessKernel:
    """Iterations of 32 products of a warp (64 x 32 of a block's 128 x 128, 32 deep), with loads of matrices
    and barriers among them."""
    shape = MIX.fullmatch(loop)
    assert shape
    loads, barriers, blocks = (int(x) for x in shape.groups())
    before = [
        ".reg .f32 %f<64>; .reg .b32 %x<24>; .reg .b32 %row;",
        "and.b32 %row, %r0, 31; shl.b32 %row, %row, 4; add.u32 %row, %row, %r3;",
        *(f"mov.f32 %f{n}, 0f00000000;" for n in range(64)),
        *(f"ld.volatile.global.u32 %x{n}, [%at0+{4 * n}];" for n in range(24)),
    ]
    body = []
    barrier_at = range(0, 32, 32 // barriers) if barriers else ()
    for half in range(2):
        if 16 * half in barrier_at:
            body.append("bar.sync 0;")  # before the loads, as a tile in shared memory asks for
        for n in range(6 if loads else 0):
            names = ", ".join(f"%x{4 * n + i}" for i in range(4))
            at = f"[%row+{512 * (n + 6 * half)}]"
            body.append(f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{names}}}, {at};")
        for n in range(16):
            if n and 16 * half + n in barrier_at:
                body.append("bar.sync 0;")
            a = ", ".join(f"%x{4 * (n // 4) + i}" for i in range(4))
            b = ", ".join(f"%x{16 + 2 * (n % 4) + i}" for i in range(2))
            c = ", ".join(f"%f{4 * n + i}" for i in range(4))
            body.append(f"{_PRODUCT} {{{c}}}, {{{a}}}, {{{b}}}, {{{c}}};")
    assert loads in (0, 12), loop
    after = [f"st.volatile.global.f32 [%at0+{4 * n}], %f{n};" for n in range(64)]
    return AccessKernel(_text(architecture, before, body, 128, after), 128, blocks)
