"""Kernels of one SM: what each kind of instruction takes, alone and beside others; caches of instructions;
short loops, calls, and where a grid's blocks begin and end.

Each warp reads the clock before and after so many links of a chain (or of four chains side by side). What is
told is the median over warps of the cycles a link: of the second turn, so that code and data are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.sass.nvrtc import compile_cuda
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.validation.campaigns.hopper.packing import HardwareLaunch

ARCHITECTURE: Final = "sm_90"
LINKS: Final = 32
ROUNDS: Final = 8
TURNS: Final = 6
_CLOCK: Final = r"""
typedef unsigned int u32; typedef unsigned long long u64;
__device__ __forceinline__ u32 now() {
  u32 t; asm volatile("mov.u32 %0, %%clock;" : "=r"(t) :: "memory"); return t; }
"""
_INT, _FLOAT, _DOUBLE, _LONG = ("int", "r"), ("float", "f"), ("double", "d"), ("long long", "l")
_NUMBERS: Final[Mapping[str, type[np.generic]]] = {
    "int": np.int32,
    "long long": np.int64,
    "float": np.float32,
    "double": np.float64,
}
LINK_OF: Final[Mapping[str, tuple[tuple[str, str], str]]] = {
    "iadd3": (_INT, "{ .reg .s32 t; add.s32 t, %0, %1; add.s32 %0, t, %2; }"),
    "imad": (_INT, "mad.lo.s32 %0, %0, %1, %2;"),
    "imul_hi": (_INT, "mul.hi.s32 %0, %0, %1;"),
    "imad_wide": (_LONG, "{ .reg .s32 t; cvt.u32.u64 t, %0; mad.wide.s32 %0, t, t, %1; }"),
    "lop3": (_INT, "lop3.b32 %0, %0, %1, %2, 0x96;"),
    "shl": (_INT, "shf.l.wrap.b32 %0, %0, %1, 7;"),
    "prmt": (_INT, "prmt.b32 %0, %0, %1, 0x4321;"),
    "imin": (_INT, "{ .reg .s32 t; min.s32 t, %0, %1; max.s32 %0, t, %2; }"),
    "popc": (_INT, "popc.b32 %0, %0;"),
    "brev": (_INT, "brev.b32 %0, %0;"),
    "flo": (_INT, "bfind.u32 %0, %0;"),
    "dp4a": (_INT, "dp4a.s32.s32 %0, %0, %1, %2;"),
    "selp": (_INT, "{ .reg .pred p; setp.lt.s32 p, %0, %1; selp.b32 %0, %2, %1, p; }"),
    "fadd": (_FLOAT, "add.f32 %0, %0, %1;"),
    "fmul": (_FLOAT, "mul.f32 %0, %0, %1;"),
    "ffma": (_FLOAT, "fma.rn.f32 %0, %0, %1, %2;"),
    "fmnmx": (_FLOAT, "{ .reg .f32 t; min.f32 t, %0, %1; max.f32 %0, t, %2; }"),
    "dadd": (_DOUBLE, "add.f64 %0, %0, %1;"),
    "dmul": (_DOUBLE, "mul.f64 %0, %0, %1;"),
    "dfma": (_DOUBLE, "fma.rn.f64 %0, %0, %1, %2;"),
    "hadd2": (_INT, "add.rn.f16x2 %0, %0, %1;"),
    "hfma2": (_INT, "fma.rn.f16x2 %0, %0, %1, %2;"),
    "bfma2": (_INT, "fma.rn.bf16x2 %0, %0, %1, %2;"),
    "ex2": (_FLOAT, "ex2.approx.ftz.f32 %0, %0;"),
    "lg2": (_FLOAT, "lg2.approx.ftz.f32 %0, %0;"),
    "rsqrt": (_FLOAT, "rsqrt.approx.ftz.f32 %0, %0;"),
    "sin": (_FLOAT, "sin.approx.ftz.f32 %0, %0;"),
    "tanh": (_FLOAT, "tanh.approx.f32 %0, %0;"),
    "i2f_f2i": (_INT, "{ .reg .f32 t; cvt.rn.f32.s32 t, %0; cvt.rni.s32.f32 %0, t; }"),
    "f2f16": (_FLOAT, "{ .reg .b16 t; cvt.rn.f16.f32 t, %0; cvt.f32.f16 %0, t; }"),
    "f2f64": (_FLOAT, "{ .reg .f64 t; cvt.f64.f32 t, %0; cvt.rn.f32.f64 %0, t; }"),
    "d2i": (_DOUBLE, "{ .reg .s32 t; cvt.rni.s32.f64 t, %0; cvt.rn.f64.s32 %0, t; }"),
    "vote": (_INT, "{ .reg .pred p; setp.ne.s32 p, %0, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }"),
    "redux": (_INT, "redux.sync.add.s32 %0, %0, 0xffffffff;"),
    "redux_min": (_INT, "redux.sync.min.s32 %0, %0, 0xffffffff;"),
    "shfl": (_INT, "shfl.sync.bfly.b32 %0, %0, 1, 31, 0xffffffff;"),
    "match_any": (_INT, "match.any.sync.b32 %0, %0, 0xffffffff;"),
    "s2r_clock": (_INT, "{ .reg .u32 t; mov.u32 t, %%clock; add.s32 %0, %0, t; }"),
    "bar": (_INT, "bar.sync 0; add.s32 %0, %0, %1;"),
    "warpsync": (_INT, "bar.warp.sync 0xffffffff; add.s32 %0, %0, %1;"),
    "membar_cta": (_INT, "fence.acq_rel.cta; add.s32 %0, %0, %1;"),
    "membar_gl": (_INT, "fence.acq_rel.gpu; add.s32 %0, %0, %1;"),
    "membar_sys": (_INT, "fence.acq_rel.sys; add.s32 %0, %0, %1;"),
    "nanosleep0": (_INT, "nanosleep.u32 0; add.s32 %0, %0, %1;"),
}
"""Of each link: its type in CUDA C and its letter in assembly, and the PTX with ``%0`` the chain."""
_OF_THE_BLOCK: Final = ("bar", "membar_cta", "membar_gl", "membar_sys")
_ONE_CHAIN: Final = (*_OF_THE_BLOCK, "nanosleep0", "warpsync")
STRAIGHT: Final = (256, 1024, 1536, 2048, 3072, 4096, 6144, 7168, 8192, 9216, 12288, 16384)
"""Instructions in a row, of 16 bytes each."""


@dataclass(frozen=True)
class PipeProbe:
    """So many warps of a block with so many chains of a link each, ``links`` in sum for each warp."""

    link: str
    chains: int
    warps: int

    @property
    def name(self) -> str:
        return f"core/{self.link}/chains{self.chains}/warps{self.warps}"

    @property
    def links(self) -> int:
        return LINKS * self._rounds * self.chains

    @property
    def _rounds(self) -> int:
        return 2 if self.link == "membar_sys" else ROUNDS

    def launch(self) -> HardwareLaunch:
        (kind, letter), text = LINK_OF[self.link]
        number: Any = _NUMBERS[kind]
        kernel = f"{self.link}_x{self.chains}"
        arguments = [
            np.zeros(64, np.uint32),
            np.zeros(1024, number),
            np.ones(64, number),
            *(number(3), number(5), np.int32(self._rounds)),
        ]
        source = _chains_source(kernel, kind, letter, text, self.chains)
        names = ("times", "sink", "in", "a", "b", "rounds")
        facts: dict[str, int | float | str] = {"links": self.links, "warps": self.warps}
        return _of_one_sm(self.name, "core", (source, kernel), self.warps, (arguments, names), facts)


def probes() -> Iterator[PipeProbe]:
    """All of them."""
    for link in LINK_OF:
        counts = (1, 2, 4, 8, 16, 32) if link in _OF_THE_BLOCK else (1, 4, 8, 32)
        yield from (PipeProbe(link, 1, warps) for warps in counts)
        if link not in _ONE_CHAIN:
            yield from (PipeProbe(link, 4, warps) for warps in (4, 16))


def straight(count: int, warps: int) -> HardwareLaunch:
    """So many multiply-adds in a row, `TURNS` times: what an instruction takes that L0, L1 or neither has."""
    kernel = f"straight_{count}"
    links = "".join(
        f'asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x{k % 4}) : "f"(a));\n' for k in range(count)
    )
    source = f"""{_CLOCK}
extern "C" __global__ void {kernel}(u32 *times, float *sink, float a) {{
  float x0 = a, x1 = a, x2 = a, x3 = a;
  #pragma unroll 1
  for (int r = 0; r < {TURNS}; r++) {{
    u32 first = now();
    {links}
    u32 last = now();
    if (threadIdx.x == 0) {{ times[2 * r] = first; times[2 * r + 1] = last; }}
  }}
  sink[threadIdx.x] = x0 + x1 + x2 + x3;
}}
"""
    arguments = [np.zeros(64, np.uint32), np.zeros(1024, np.float32), np.float32(1)]
    facts: dict[str, int | float | str] = {"links": count, "warps": warps}
    name, names = f"core/straight/{count}/warps{warps}", ("times", "sink", "a")
    return _of_one_sm(name, "icache", (source, kernel), warps, (arguments, names), facts)


def cycles_a_link(times: NDArray[Any], warps: int, links: int) -> float:
    """The median over warps of the cycles of a link, from the readings that a `PipeProbe` returns."""
    readings = np.asarray(times).reshape(-1).view(np.uint32)[: 2 * warps].reshape(-1, 2).astype(np.int64)
    return float(np.median((readings[:, 1] - readings[:, 0]) & 0xFFFFFFFF)) / links


def launches() -> Iterator[HardwareLaunch]:
    """What `packing.write_pack` takes."""
    yield from (probe.launch() for probe in probes())
    yield from (straight(count, warps) for count in STRAIGHT for warps in (1, 4))


def _chains_source(kernel: str, kind: str, letter: str, text: str, chains: int) -> str:
    one = "".join(
        f'asm volatile("{text}" : "+{letter}"(x{k}) : "{letter}"(a), "{letter}"(b));\n'
        for _ in range(LINKS)
        for k in range(chains)
    )
    chain = "".join(f"{kind} x{k} = in[threadIdx.x % 32 + {k}];\n" for k in range(chains))
    return f"""{_CLOCK}
extern "C" __global__ void {kernel}(
    u32 *times, {kind} *sink, const {kind} *in, {kind} a, {kind} b, int rounds) {{
  {chain}
  u32 first = 0, last = 0;
  __syncthreads();
  for (int turn = 0; turn < 2; turn++) {{
    __syncthreads();
    first = now();
    #pragma unroll 1
    for (int r = 0; r < rounds; r++) {{
      {one}
    }}
    last = now();
  }}
  sink[threadIdx.x] = {" + ".join(f"x{k}" for k in range(chains))};
  if (threadIdx.x % 32 == 0) {{
    times[threadIdx.x / 32 * 2] = first;
    times[threadIdx.x / 32 * 2 + 1] = last;
  }}
}}
"""


def _of_one_sm(
    name: str,
    group: str,
    code: tuple[str, str],
    warps: int,
    given: tuple[list[Any], tuple[str, ...]],
    facts: dict[str, int | float | str],
) -> HardwareLaunch:
    source, kernel = code
    cubin = compile_cuda(source, ARCHITECTURE, [], kernel)
    image, block = from_cubin(cubin, kernel, kernel), (32 * warps, 1, 1)
    launch = MachineLaunch(image, (1, 1, 1), block, *given, check_shared=False)
    return HardwareLaunch(name, group, cubin, launch, 3, ("times",), facts=facts)
