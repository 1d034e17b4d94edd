"""Kernels made by chance, on which blame is judged: nobody chose what is in them.

Nine families in the manner of the rounds of `kernels.toml` (tables that all threads read, arrays in
local memory, stencils, templates, rows, counters in shared memory, gathers, mixtures), each with its
numbers drawn: loads of a burst, steps, unrolling, launch. The same seed gives the same kernel. Rules are
chosen on `SHAPED` and judged on `JUDGED`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from smlab.hw_bench.sass.image import KernelImage
from smlab.hw_bench.sass.nvrtc import compile_cuda
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.validation.campaigns.advisor.kernels import SIZE, Change, StudyKernel, source_head

SHAPED: Final = range(90)
JUDGED: Final = range(1000, 1090)
MARGIN: Final = 40_960
"""Elements behind each array's `SIZE`, that the farthest address needs."""
LAUNCHES: Final = ((16, 256), (16, 256), (8, 256), (8, 128), (4, 128), (32, 128), (16, 512))
ROUNDS: Final = (2, 4, 6, 8, 12, 16, 24, 32)
MOST_STENCIL_ROUNDS: Final = 8
UNROLL_ONE: Final = "#pragma unroll 1\n"
UNROLL: Final = "#pragma unroll\n"


@dataclass(frozen=True)
class GeneratedKernel(StudyKernel):
    """A kernel with its text."""

    body: str = ""

    @property
    def source(self) -> str:
        """The CUDA C, behind what all kernels of the study begin with."""
        return f"{source_head()}#line 1\nKERNEL({self.name}) {{\n{self.body}\n}}\n"

    def image(self, architecture: str, change: Change | None = None) -> KernelImage:
        """The machine code, compiled with NVRTC; there are no changes."""
        assert change is None
        return from_cubin(compile_cuda(self.source, architecture, [], "g.cu"), self.name, "g.cu")

    def launch(self, architecture: str, change: Change | None = None) -> MachineLaunch:
        """A launch with arrays of its own, always the same content."""
        drawn = np.random.default_rng(20240607)
        a, b = (drawn.random(SIZE + MARGIN, dtype=np.float32) for _ in range(2))
        k = drawn.integers(0, SIZE, SIZE + MARGIN, dtype=np.int32)
        arrays = [a, b, np.zeros_like(a), k, np.zeros(SIZE, dtype=np.int32)]
        return MachineLaunch(
            self.image(architecture, change),
            (self.blocks, 1, 1),
            (self.threads, 1, 1),
            [*arrays, np.int32(self.n), np.int32(self.m)],
            names=("a", "b", "c", "k", "h", "n", "m"),
        )


def generated(seed: int) -> GeneratedKernel:
    """The kernel of a seed."""
    r = random.Random(seed)
    family = r.choice(FAMILIES)
    body = family(r)
    blocks, threads = r.choice(LAUNCHES)
    m = r.choice(ROUNDS)
    n = blocks * threads * r.choice([1, 2, 4, 8])
    if family is _stencil:
        m = min(m, MOST_STENCIL_ROUNDS)
    name = f"g{seed}{family.__name__}"
    return GeneratedKernel(name, "generated", m, blocks=blocks, threads=threads, n=n, body=body)


def _table(r: random.Random) -> str:
    n = r.choice([4, 6, 8, 12, 16, 24, 32, 48])
    step = r.choice(["0", f"r * {n}", f"(r & 1) * {n}", "(r & 1)", "(r & 3) * 8", "r * 3"])
    unrolled = r.choice([n, n, n, 4, 2])
    at = f"b[t + {step}]"
    work = r.choice([f"s = s * x + {at};", f"s += (x - {at}) * 0.5f;", f"s = fmaxf(s, x * {at});"])
    own = r.choice(["", "x = a[ME + r * ALL];", "x += a[ME + r];"])
    return (
        f"float x = a[ME], s = 0;\n{UNROLL_ONE}for (int r = 0; r < m; r++) {{ {own}\n"
        f"#pragma unroll {unrolled}\nfor (int t = 0; t < {n}; t++) {{ {work} }} }}\nc[ME] = s;"
    )


def _local(r: random.Random) -> str:
    n = r.choice([4, 6, 8, 10, 12, 16])
    at = r.choice(["ME + t", "ME + t * ALL", f"ME * {r.choice([2, 4, 8])} + t", "t * 32 + T"])
    exchange = f"own[at % {n}u] = s; s = s * 0.5f + own[(at >> 4) % {n}u]; at = at * 5 + 7;"
    work = r.choice([exchange, f"s += own[(at + r) % {n}u] * 0.25f; at = at * 3 + 1;"])
    first = r.choice(["unsigned at = k[ME];", "unsigned at = ME;", "unsigned at = k[ME] + k[ME + ALL];"])
    return (
        f"float own[{n}];\n{UNROLL}for (int t = 0; t < {n}; t++) own[t] = b[{at}];\n{first} float s = 0;\n"
        f"{UNROLL_ONE}for (int r = 0; r < m; r++) {{ {work} }}\nc[ME] = s;"
    )


def _stencil(r: random.Random) -> str:
    n, stride = r.choice([3, 5, 7, 9, 12]), r.choice([1, 32, 512, 4096, 8])
    weight = r.choice(["b[t]", "0.25f", "w[t]"])
    kept = f"float w[{n}];\n{UNROLL}for (int t = 0; t < {n}; t++) w[t] = b[t];\n" if weight == "w[t]" else ""
    return (
        f"{kept}for (int i = ME; i < n; i += ALL) {{ float s = 0;\n{UNROLL}"
        f"for (int t = 0; t < {n}; t++) s += a[i + t * {stride}] * {weight};\n c[i] = s; }}"
    )


def _match(r: random.Random) -> str:
    n, wide, unrolled = r.choice([4, 8, 16]), r.choice([64, 512]), r.choice([1, 2, 4])
    return (
        f"float s = 0;\n{UNROLL_ONE}for (int y = 0; y < m; y++)\n#pragma unroll {unrolled}\nfor (int x = 0; "
        f"x < {n}; x++) {{ float d = a[ME + y * {wide} + x] - b[y * {n} + x]; s += d * d; }}\nc[ME] = s;"
    )


def _rows(r: random.Random) -> str:
    step, unrolled = r.choice([1, 2, 4, 8, 32]), r.choice([1, 2, 4])
    work = r.choice(
        [
            "sum += (x - b[r]) * (x - b[r]) * 0.02f;",
            f"sum = sum * x + b[r * {step}];",
            "sum += x * b[r] + a[ME + r * 32];",
            "sum += __expf(x * b[r]);",
        ]
    )
    return (
        f"for (int i = ME; i < n; i += ALL * {r.choice([1, 2])}) {{ float x = a[i], sum = 0;\n"
        f"#pragma unroll {unrolled}\nfor (int r = 0; r < m; r++) {{ {work} }}\nc[i] = sum; }}"
    )


def _shared(r: random.Random) -> str:
    stride, n = r.choice([1, 2, 4, 16, 32, 33]), r.choice([2, 4, 8])
    counts = r.choice([True, False])
    load = r.choice(["int v = k[ME + r * ALL];", "int v = k[ME] + r * 7;"])
    if counts:
        adds = (f"((v + {q}) * {stride} + T * {r.choice([0, 1])}) & 1023" for q in range(n))
        work = "\n".join(f"atomicAdd(&s[{at}], v & 7);" for at in adds)
    else:
        work = f"\n{UNROLL}for (int t = 0; t < {n}; t++) x += s[(v * {stride} + t * 5 + T) & 1023];"
    return (
        "__shared__ int s[1024];\nfor (int i = T; i < 1024; i += blockDim.x) s[i] = i;\n"
        f"__syncthreads(); int x = 0;\n{UNROLL_ONE}for (int r = 0; r < m; r++) {{ {load} {work} }}\n"
        "__syncthreads(); h[ME] = s[T & 1023] + x;"
    )


def _gather(r: random.Random) -> str:
    n, unrolled, mask = r.choice([2, 4, 8]), r.choice([1, 2, 4]), r.choice([255, 4095, SIZE - 1])
    stride = r.choice([1, 8, 97])
    return (
        f"float s = 0;\n#pragma unroll {unrolled}\nfor (int r = 0; r < m; r++) {{ int j = k[ME + r * "
        f"ALL];\n{UNROLL}for (int t = 0; t < {n}; t++) s += a[(j + t * {stride}) & {mask}]; }}\nc[ME] = s;"
    )


def _mixed(r: random.Random) -> str:
    n, wide = r.choice([4, 8, 12]), r.choice([1, 2, 4])
    step, row = r.choice([0, n]), r.choice([1, 4, 32])
    return (
        f"float s = 0, x = a[ME];\n{UNROLL_ONE}for (int r = 0; r < m; r++) {{ float y = a[ME * {wide} + r * "
        f"ALL];\n{UNROLL}for (int t = 0; t < {n}; t++) {{ s = s * x + b[t + r * {step}]; }}\ns += y * a[ME + "
        f"r * {row}]; }}\nc[ME] = s;"
    )


FAMILIES: Final[tuple[Callable[[random.Random], str], ...]] = (
    _table,
    _table,
    _local,
    _stencil,
    _match,
    _rows,
    _shared,
    _gather,
    _mixed,
)
