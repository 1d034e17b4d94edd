"""FlashAttention-2 and -3 as published: their forward kernels compiled from the packages that carry their
source, and launches of them as their own code makes them.

A program of the host (`host/`) includes a version's headers and launches its kernel. It is linked with a
recorder in place of CUDA's run-time library, which prints the launch; no GPU is asked. `attention_launch`
puts arrays where the recorded parameters point to, and tensor maps where they are.
"""

from __future__ import annotations

import functools
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass.image import KernelImage
from smlab.sim.execution import functional
from smlab.sim.execution.device import as_dim
from smlab.sim.frontends.cuda_c import INSTALL, find_nvcc
from smlab.sim.frontends.host_binary import load_binary
from smlab.sim.frontends.protocol import KernelSource
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.launch.structure import Structure
from smlab.sim.isa.launch.tensor_map import TensorMap

HOST: Final = Path(__file__).parent / "host"
VERSIONS: Final = {
    2: (
        "sm_90",
        ("csrc/flash_attn/src",),
        "-U__CUDA_NO_HALF_OPERATORS__ -U__CUDA_NO_HALF_CONVERSIONS__ -U__CUDA_NO_HALF2_OPERATORS__"
        " -DFLASH_NAMESPACE=flash",
    ),
    3: (
        "sm_90a",
        ("third_party/flash-attention/hopper",),
        "-DCUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED -DCUTLASS_ENABLE_GDC_FOR_SM90 -DCUTLASS_DEBUG_TRACE_LEVEL=0",
    ),
}
"""Of each version: the architecture, where its headers lie in the unpacked source distribution (flash-attn's
for 2, xformers' for 3), and what its setup.py tells nvcc beside `_FLAGS`."""
_FLAGS: Final = (
    "-O3 -std=c++17 --expt-relaxed-constexpr --expt-extended-lambda --use_fast_math -DNDEBUG -w -cudart=none"
)
_PLACE_BITS: Final = 44
_MAP_BEGINS: Final = b"RECORDED"
ARRAYS: Final = ("q", "k", "v", "o", "lse", "counter")
"""By the number of their place in the recorded parameters, from 1 on."""


@dataclass(frozen=True)
class Attention:
    """A case: version of FlashAttention, sizes, and whether a query sees later keys."""

    version: int
    batch: int
    sequence: int
    heads: int
    head_dim: int
    causal: bool

    @property
    def operations(self) -> int:
        """Multiplications and additions of both products, as the authors count them."""
        whole = 4 * self.batch * self.heads * self.sequence**2 * self.head_dim
        return whole // 2 if self.causal else whole


@dataclass(frozen=True)
class Sources:
    """Where the unpacked packages lie: a source distribution of flash-attn (2) or xformers (3), and CUTLASS's
    headers."""

    package: Path
    cutlass: Path


def build(case: Attention, sources: Sources, folder: Path) -> Path:
    """The program that launches a case's kernel; in ``folder``, where it is found the next time.

    Raises:
        SmlabError: no nvcc, or it does not compile.
    """
    folder = folder.absolute()
    program = folder / f"flash-attention-{case.version}-{case.head_dim}-{int(case.causal)}"
    if program.exists():
        return program
    nvcc = find_nvcc()
    if nvcc is None:
        raise SmlabError(f"FlashAttention: no nvcc: {INSTALL}")
    architecture, includes, more = VERSIONS[case.version]
    number = architecture.removeprefix("sm_")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        made = Path(work) / "program"
        command = [
            *(str(nvcc), *_FLAGS.split(), *more.split()),
            f"-gencode=arch=compute_{number},code=sm_{number}",
            *(f"-DHEAD={case.head_dim}", f"-DCAUSAL={int(case.causal)}"),
            *(f"-I{folder}" for folder in (HOST, *(sources.package / i for i in includes), sources.cutlass)),
            *("-o", str(made)),
            *(str(HOST / name) for name in (f"flash_attention_{case.version}.cu", "launch_recorder.cpp")),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SmlabError(f"FlashAttention-{case.version}: nvcc: {done.stderr.strip()[-400:]}")
        shutil.move(made, program)
    return program


@functools.lru_cache(maxsize=8)
def _image(program: Path) -> KernelImage:
    return load_binary(KernelSource(program, "sm_90")).image


def attention_launch(
    case: Attention, program: Path, sms: int = 132, arrays: Mapping[str, NDArray[Any]] | None = None
) -> MachineLaunch:
    """A case's launch on so many SMs, each of which has a block of version 3, that stays.

    ``arrays`` are ``q``, ``k`` and ``v`` of shape (batch, sequence, heads, head_dim) in FP16; without them,
    numbers by a fixed seed. They and the results ``o``, of that shape, and ``lse`` (batch, heads, sequence)
    are arguments by these names.
    """
    image = _image(program)
    (parameter,) = image.parameters or ()
    told = subprocess.run(
        [program, str(case.batch), str(case.sequence), str(case.heads)],
        env={**os.environ, "PARAMETER_BYTES": str(parameter.size)},
        capture_output=True,
        text=True,
        check=False,
    )
    if told.returncode:
        raise SmlabError.at("FlashAttention", "a length that its launch does not take", case.sequence)
    given = dict(arrays) if arrays is not None else drawn_arrays(case)
    shape = (case.batch, case.sequence, case.heads, case.head_dim)
    given["o"] = np.zeros(shape, np.float16)
    given["lse"] = np.zeros((case.batch, case.heads, case.sequence), np.float32)
    given["counter"] = np.zeros(2, np.int64)
    lines = [line.split() for line in told.stdout.splitlines()]
    says = {words[0]: words[1:] for words in lines if words[0] != "map"}
    maps = [_map(words[2:], given) for words in lines if words[0] == "map"]
    content = bytes.fromhex(says["bytes"][0])
    fields: dict[int, Any] = {}
    for at in range(0, len(content) - 7, 8):
        (number,) = struct.unpack_from("<Q", content, at)
        if content[at : at + 8] == _MAP_BEGINS:
            fields[at] = maps[struct.unpack_from("<Q", content, at + 8)[0]]
        elif number in _ADDRESSES:
            fields[at] = given[_ADDRESSES[number]]
    pointed = [value.array if isinstance(value, TensorMap) else value for value in fields.values()]
    given = {name: array for name, array in given.items() if any(array is other for other in pointed)}
    grid, block, cluster = (as_dim(tuple(map(int, says[key]))) for key in ("grid", "block", "cluster"))
    return MachineLaunch(
        image,
        (sms, 1, 1) if case.version == 3 else grid,
        block,
        [Structure(content, fields), *given.values()],
        ("parameters", *given),
        dynamic_shared_bytes=int(says["shared"][0]),
        cluster_shape=cluster if cluster != (1, 1, 1) else None,
        check_shared=False,
    )


_ADDRESSES: Final = {n << _PLACE_BITS: name for n, name in enumerate(ARRAYS, start=1)}


def _map(words: list[str], arrays: Mapping[str, NDArray[Any]]) -> TensorMap:
    """A tensor map as the recorder tells it: address, swizzle, sizes / strides / edges of the box."""
    first, second = (n for n, word in enumerate(words) if word == "/")
    sizes, strides, box = (
        [int(n) for n in words[a:b]] for a, b in ((2, first), (first + 1, second), (second + 1, len(words)))
    )
    return TensorMap(arrays[_ADDRESSES[int(words[0])]], sizes, box, strides, words[1])


def drawn_arrays(case: Attention) -> dict[str, NDArray[Any]]:
    """Queries, keys and values, normal numbers by a fixed seed."""
    draw = np.random.default_rng(1)
    shape = (case.batch, case.sequence, case.heads, case.head_dim)
    return {name: draw.standard_normal(shape, np.float32).astype(np.float16) for name in "qkv"}


def attended(
    q: NDArray[Any], k: NDArray[Any], v: NDArray[Any], causal: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What attention is: (batch, sequence, heads, head_dim) from arrays of that shape, and the logarithms of
    the sums, (batch, heads, sequence)."""
    scores = np.einsum("bihd,bjhd->bhij", q.astype(np.float64), k.astype(np.float64)) / q.shape[-1] ** 0.5
    if causal:
        scores = np.where(np.tri(q.shape[1], dtype=bool), scores, -np.inf)
    most = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - most)
    sums = powers.sum(axis=-1, keepdims=True)
    return np.einsum("bhij,bjhd->bihd", powers / sums, v.astype(np.float64)), (most + np.log(sums))[..., 0]


def worst_difference(case: Attention, program: Path) -> float:
    """The greatest difference between what the kernel computes on four SMs and `attended`."""
    launch = attention_launch(case, program, 4)
    functional.run(launch)
    arrays = dict(zip(launch.names, launch.arguments, strict=True))
    out, logarithms = attended(arrays["q"], arrays["k"], arrays["v"], case.causal)
    return float(max(np.abs(out - arrays["o"]).max(), np.abs(logarithms - arrays["lse"]).max()))
