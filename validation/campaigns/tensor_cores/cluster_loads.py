"""Loads from the shared memory of another block of a cluster, as published benchmarks have them: one thread
that follows pointers, or 32 warps that load 16 bytes a thread."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.tools import assemble
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch

_NAME: Final = re.compile(r"ld\.shared::cluster\.(u32|v4)")
_LOOP: Final = re.compile(r"cluster(\d+)(own)?")
_TURNS: Final = 32
_WIDE_TURNS: Final = 4
"""Fewer, as the other blocks wait meanwhile, and are not taken for stuck for so long."""
_LOADS: Final = 16
_BYTES: Final = 16384
_SYNC: Final = "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;"


def is_cluster_load(form: str) -> bool:
    """Whether a published form is such a load."""
    return _NAME.fullmatch(form) is not None


def source_of(form: str, loop: str, architecture: str) -> tuple[str, int]:
    """The kernel, and the blocks of its cluster: the first block loads from the last one, or its own."""
    match = _LOOP.fullmatch(loop)
    if match is None:
        raise ValueError(f"{loop}: not a cluster's size, such as cluster2 or cluster2own")
    blocks, wide = int(match[1]), form.endswith("v4")
    target = 0 if match[2] else blocks - 1
    if wide:
        names = [", ".join(f"%a{4 * n + k}" for k in range(4)) for n in range(_LOADS)]
        one = [f"ld.volatile.shared::cluster.v4.u32 {{{four}}}, [%r3];" for four in names]
        after = [f"xor.b32 %r5, %r5, %a{n};" for n in range(4 * _LOADS)]
        place = "mad.lo.u32 %r3, %r0, 16, %r3;"
    else:
        one, after, place = ["ld.shared::cluster.u32 %r3, [%r3];"] * _LOADS, [], ""
    lines = [
        f".version 8.7\n.target {architecture}\n.address_size 64",
        f".visible .entry timed(.param .u64 out) .explicitcluster .reqnctapercluster {blocks}, 1, 1 {{",
        f".shared .align 128 .b8 cells[{_BYTES}];",
        f".reg .b32 %r<9>; .reg .b32 %a<{4 * _LOADS}>; .reg .b64 %w<9>; .reg .pred %p<4>;",
        "mov.u32 %r0, %tid.x; mov.u32 %r1, cells; mov.u32 %r2, %cluster_ctarank; mov.u32 %r5, 0;",
        "mapa.shared::cluster.u32 %r4, %r1, %r2; mad.lo.u32 %r6, %r0, 4, %r1; st.shared.u32 [%r6], %r4;",
        _SYNC,
        "setp.ne.u32 %p0, %r2, 0; @%p0 bra BEHIND;",
        f"mapa.shared::cluster.u32 %r3, %r1, {target}; {place} mov.u32 %r7, 0;",
        "bar.sync 0; mov.u64 %w0, %clock64;",
        "NEXT:",
        '.pragma "nounroll";',
        *one,
        *after,
        f"add.u32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, {_WIDE_TURNS if wide else _TURNS}; @%p1 bra NEXT;",
        "bar.sync 0; mov.u64 %w1, %clock64; sub.u64 %w1, %w1, %w0;",
        "ld.param.u64 %w2, [out]; st.global.u64 [%w2], %w1; xor.b32 %r5, %r5, %r3;",
        "st.global.u32 [%w2+8], %r5;",
        f"BEHIND: {_SYNC}",
        "ret; }",
    ]
    return "\n".join(lines), blocks


def simulated(form: str, warps: int, loop: str, gpu: Gpu, architecture: str) -> float:
    """Cycles of a load by one thread, or the bytes a cycle that all warps of a block get."""
    text, blocks = source_of(form, loop, architecture)
    image = from_cubin(assemble(text, architecture)[0], "timed", form)
    out = np.zeros(2, np.uint64)
    threads = 32 * warps if form.endswith("v4") else 1
    run_machine_code(MachineLaunch(image, (blocks, 1, 1), (threads, 1, 1), (out,)), gpu)
    wide = form.endswith("v4")
    cycles, loads = float(out[0]), (_WIDE_TURNS if wide else _TURNS) * _LOADS
    return 16 * threads * loads / cycles if wide else cycles / loads
