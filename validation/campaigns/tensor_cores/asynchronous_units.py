"""Hopper's asynchronous units as a public benchmark times them on one SM: products by groups of warps by
shape and place of the first matrix, barriers in shared memory, and bulk copies by size.

A product is timed as its authors do: the clock is read before the issue, after the group is closed, and after
it is waited for. ``wait`` is from the second reading to the third, ``whole`` from the first to the third.
A loop of groups that leaves so many of them on their way (``wait0``, ``wait1``) is timed as a whole.
Barriers and copies are timed from one reading to the next, less what two readings with nothing between take.
A row of copies, each waited for before the next, is timed by copy (``l2`` or ``dram``: where the bytes are).
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.tools import assemble
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch

_PRODUCT: Final = re.compile(r"wgmma\.m64n(\d+)k16\.(?:(bf16)\.)?(ss|rs)")
_LEFT: Final = re.compile(r"wait(\d)")
_COPY: Final = re.compile(r"cp\.async\.bulk\.(\d+)")
_WAIT: Final = "{{ wait: mbarrier.try_wait.parity.shared.b64 %p1, [%bar{0}], {1}; @!%p1 bra wait; }}"
_ARRIVE: Final = "mbarrier.arrive.shared.b64 %w5, [%bar{0}];"
_EXPECT: Final = "mbarrier.arrive.expect_tx.shared.b64 %w5, [%bar{0}], {1};"
_BARRIERS: Final = {
    "mbarrier.arrive": ("", _ARRIVE.format(1)),
    "mbarrier.try_wait": (_ARRIVE.format(1), _WAIT.format(1, 0)),
    "mbarrier.expect_tx": ("", _EXPECT.format(1, 0) + _WAIT.format(1, 0)),
}
"""What is done before the first reading of the clock, and what between the readings."""
_ROUNDS: Final = 16
_LOOP_ROUNDS: Final = 16, 48
"""Of a loop of groups, in two runs. The authors have thousands of rounds, so that begin and end count for
nothing; here the difference of both runs has none of them."""
_COPIES: Final = 8
"""Of a row, each of other bytes."""
_EMPTY: Final = ("", "")


def is_asynchronous_unit(form: str) -> bool:
    """Whether a published form is one of these."""
    return form in _BARRIERS or bool(_PRODUCT.fullmatch(form) or _COPY.fullmatch(form))


def products_source(form: str, each: int, left: int | None = None, rounds: int = _ROUNDS) -> str:
    """The kernel ``timed``: ``rounds`` of ``each`` products m64nNk16 in one group, and its wait; or a
    loop (``left``) of such groups, of which so many may be on their way."""
    product = _PRODUCT.fullmatch(form)
    assert product is not None, form
    n, kind, place = int(product[1]), product[2] or "f16", product[3]
    sums = "{" + ", ".join(f"%d{k}" for k in range(n // 2)) + "}"
    first, turned = ("{%a0, %a1, %a2, %a3}", "0") if place == "rs" else ("%w3", "0, 0")
    one = (
        f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{kind}.{kind} {sums}, {first}, %w3, 1, 1, 1, {turned};"
    )
    if left is None:
        loop = (
            "NEXT: bar.sync 0; mov.u64 %w0, %clock64;",
            "wgmma.fence.sync.aligned;",
            *[one] * each,
            "wgmma.commit_group.sync.aligned; mov.u64 %w1, %clock64;",
            "wgmma.wait_group.sync.aligned 0; mov.u64 %w2, %clock64;",
            "sub.u64 %w4, %w2, %w1; add.u64 %w6, %w6, %w4; sub.u64 %w4, %w2, %w0; add.u64 %w7, %w7, %w4;",
            f"add.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, {rounds}; @%p0 bra NEXT;",
        )
    else:
        loop = (
            "wgmma.fence.sync.aligned; bar.sync 0; mov.u64 %w0, %clock64;",
            "NEXT:",
            *[one] * each,
            f"wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned {left};",
            f"add.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, {rounds}; @%p0 bra NEXT;",
            "wgmma.wait_group.sync.aligned 0; mov.u64 %w2, %clock64; sub.u64 %w6, %w2, %w0;",
        )
    return "\n".join(
        (
            ".version 8.7\n.target sm_90a\n.address_size 64",
            ".visible .entry timed(.param .u64 out) { .shared .align 1024 .b8 cells[32768];",
            f".reg .f32 %d<{n // 2}>; .reg .b32 %a<4>; .reg .b32 %r<9>; .reg .b64 %w<12>; .reg .pred %p<4>;",
            *(f"mov.f32 %d{k}, 0f00000000;" for k in range(n // 2)),
            *(f"mov.u32 %a{k}, 0;" for k in range(4)),
            "mov.u32 %r0, cells; shr.u32 %r0, %r0, 4; cvt.u64.u32 %w3, %r0; mov.u32 %r1, 0;",
            "or.b64 %w3, %w3, 0x0000004000080000; mov.u64 %w6, 0; mov.u64 %w7, 0;",  # no swizzle; rows of 8
            *loop,
            *(f"add.f32 %d0, %d0, %d{k};" for k in range(1, n // 2)),
            "ld.param.u64 %w8, [out]; st.global.u64 [%w8], %w6; st.global.u64 [%w8+8], %w7;",
            "st.global.f32 [%w8+16], %d0; ret; }",
        )
    )


def sequence_source(before: str, timed: str) -> str:
    """The kernel ``timed`` of one thread, with two barriers and 32 KB behind them."""
    return "\n".join(
        (
            ".version 8.7\n.target sm_90a\n.address_size 64",
            ".visible .entry timed(.param .u64 out, .param .u64 from) {",
            ".shared .align 1024 .b8 cells[32768]; .shared .align 8 .b8 bars[16];",
            ".reg .b32 %bar<2>; .reg .b32 %to; .reg .b64 %w<9>; .reg .pred %p<4>;",
            "mov.u32 %to, cells; mov.u32 %bar0, bars; add.u32 %bar1, %bar0, 8; ld.param.u64 %w4, [from];",
            "mbarrier.init.shared.b64 [%bar0], 1; mbarrier.init.shared.b64 [%bar1], 1;",
            "fence.proxy.async; bar.sync 0;",
            before,
            "mov.u64 %w0, %clock64;",
            timed,
            "mov.u64 %w1, %clock64; sub.u64 %w1, %w1, %w0;",
            "ld.param.u64 %w8, [out]; st.global.u64 [%w8], %w1; ret; }",
        )
    )


def _copy(bytes_: int, barrier: int, begin: int = 0, parity: int = 0) -> str:
    kind = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    return (
        _EXPECT.format(barrier, bytes_)
        + f"{kind} [%to], [%w4+{begin}], {bytes_}, [%bar{barrier}];"
        + _WAIT.format(barrier, parity)
    )


def _row_of_copies(bytes_: int, barrier: int) -> str:
    return "".join(_copy(bytes_, barrier, n * bytes_, n % 2) for n in range(_COPIES))


def _run(
    text: str, threads: int, gpu: Gpu, form: str, *more: object
) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    out = np.zeros(4, np.uint64)
    image = from_cubin(assemble(text, "sm_90a")[0], "timed", form)
    run_machine_code(MachineLaunch(image, (1, 1, 1), (threads, 1, 1), (out, *more)), gpu)
    return out


def simulated(form: str, warps: int, each: int, loop: str, gpu: Gpu) -> float:
    """Cycles of a form: of a round of ``each`` products (``loop``: ``wait`` or ``whole``), of a round of a
    loop of them (``wait1``), or of a sequence. A copy finds its bytes in L2, unless ``loop`` is ``dram``."""
    if _PRODUCT.fullmatch(form):
        if left := _LEFT.fullmatch(loop):
            texts = (products_source(form, each, int(left[1]), rounds) for rounds in _LOOP_ROUNDS)
            few, many = (float(_run(text, 32 * warps, gpu, form)[0]) for text in texts)
            return (many - few) / (_LOOP_ROUNDS[1] - _LOOP_ROUNDS[0])
        out = _run(products_source(form, each), 32 * warps, gpu, form)
        return float(out[("wait", "whole").index(loop)]) / _ROUNDS
    times, what = 1, _BARRIERS.get(form, _EMPTY)
    if copy := _COPY.fullmatch(form):
        bytes_, times = int(copy[1]), 1 if loop == "wait" else _COPIES
        one = _copy if times == 1 else _row_of_copies
        what = ("" if loop == "dram" else one(bytes_, 0), one(bytes_, 1))
    source = np.zeros(32768 * times, np.uint8)
    whole, nothing = (float(_run(sequence_source(*x), 1, gpu, form, source)[0]) for x in (what, _EMPTY))
    return (whole - nothing) / times
