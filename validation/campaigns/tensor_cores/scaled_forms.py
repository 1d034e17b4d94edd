"""Products with scales of blocks (PTX's ``mma.sync`` with ``block_scale``): forms, random matrices and
scales, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass.tools import assemble
from smlab.sim.execution import functional
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.validation.campaigns.tensor_cores.forms import ProductForm
from smlab.validation.campaigns.tensor_cores.products import (
    LANES,
    Words,
    from_registers,
    matrices,
    random_matrix,
    to_registers,
)

ARCHITECTURE: Final = "sm_120a"
GPU: Final = "rtx-5090"
_SMALL: Final = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
Scaled = tuple[Words, Words, Words, Words, Words]
"""The two matrices, the sum before, and the scales of rows and of columns: ``(warps, lines, blocks)``."""


@dataclass(frozen=True)
class ScaledForm:
    """A product of 16 x 8 x ``k``: types of the matrices and of their scales, how many scales a row has, and
    from which byte of which lanes they come, of rows and of columns."""

    k: int
    a: str
    b: str
    kind: str
    scale: str
    blocks: int
    from_row: tuple[int, int]
    from_column: tuple[int, int]

    @property
    def name(self) -> str:
        """As mmasim names it."""
        size = self.k // self.blocks
        return f"m16n8k{self.k}.kind::{self.kind}.block{size}.f32.{self.a}.{self.b}.f32.{self.scale}"

    @property
    def plain(self) -> ProductForm:
        """Without its scales: how the matrices lie in registers."""
        a, b = ("s4", "s4") if self.k == 64 else (self.a, self.b)
        return ProductForm(16, 8, self.k, "f32", a, b, (120,))

    @property
    def source(self) -> str:
        """The kernel ``product``: that of the form without scales, with two registers of scales more."""
        plain = self.plain.source(ARCHITECTURE)
        before = ".param .u64 d) {"
        with_scales = plain.replace(before, ".param .u64 d, .param .u64 first, .param .u64 second) {")
        reads = [".reg .b32 %scale<2>;"]
        for n, name in enumerate(("first", "second")):
            reads += [
                "mad.lo.u32 %r2, %r1, 32, %r0; mul.wide.u32 %at4, %r2, 4;",
                f"ld.param.u64 %at8, [{name}]; add.u64 %at4, %at4, %at8; ld.global.b32 %scale{n}, [%at4];",
            ]
        line = next(text for text in with_scales.splitlines() if text.startswith("mma.sync"))
        lists = line[line.index("{") :].rstrip(";")
        vector = f"scale_vec::{self.blocks}X"
        op = f"mma.sync.aligned.m16n8k{self.k}.row.col.kind::{self.kind}.block_scale.{vector}"
        chosen = [f"%scale{n}, {{{byte}, {lane}}}" for n, (byte, lane) in enumerate(self.choices)]
        types = f"f32.{self.a}.{self.b}.f32.{self.scale}"
        product = f"{op}.{types} {lists}, {', '.join(chosen)};"
        return with_scales.replace(line, "\n".join([*reads, product]))

    @property
    def choices(self) -> tuple[tuple[int, int], tuple[int, int]]:
        return self.from_row, self.from_column


def _forms() -> tuple[ScaledForm, ...]:
    """All types; which bytes and lanes have the scales changes from form to form."""
    found = []
    for n, (a, b) in enumerate((a, b) for a in _SMALL for b in _SMALL):
        places = (n % 4, n // 4 % 2), (n // 2 % 4, n // 3 % 4)
        found.append(ScaledForm(32, a, b, "mxf8f6f4", "ue8m0", 1, *places))
    fours = ScaledForm(64, "e2m1", "e2m1", "mxf4", "ue8m0", 2, (2, 1), (0, 3))
    found += [fours, replace(fours, from_row=(0, 0), from_column=(2, 1))]
    found += [replace(form, kind="mxf4nvf4") for form in found[-2:]]
    found.append(ScaledForm(64, "e2m1", "e2m1", "mxf4nvf4", "ue4m3", 4, (0, 1), (0, 2)))
    return tuple(found)


SCALED_FORMS: Final = _forms()


def scaled_factors(number: int, warps: int) -> Scaled:
    """The same at each call. Of some products the scales are near each other, of some any number."""
    form, random = SCALED_FORMS[number], np.random.default_rng([number, 121])
    a, b, c = matrices(form.plain, warps, random)
    if form.k == 64:
        c = random_matrix("f32", c.shape, random)
    scales = []
    for lines in (16, 8):
        near = random.integers(110, 145, (warps, lines, form.blocks), dtype=np.uint64)
        if form.scale == "ue4m3":
            near = random.integers(40, 72, near.shape, dtype=np.uint64)
        wild = random.random((warps, 1, 1)) < 0.2
        scales.append(np.where(wild, random.integers(0, 256, near.shape, dtype=np.uint64), near))
    return a, b, c, scales[0], scales[1]


def _scale_registers(form: ScaledForm, scales: Words, of_rows: bool) -> NDArray[np.uint32]:
    """Scales where the instruction looks for them, other bytes beside them."""
    byte, lane = form.choices[0 if of_rows else 1]
    words = np.random.default_rng(1).integers(0, 256, (len(scales), 32, 4), dtype=np.uint8)
    lines = np.arange(scales.shape[1])
    lanes = 4 * (lines & 7) + (2 * lane + (lines >> 3) if of_rows else lane)
    words[:, lanes, byte : byte + form.blocks] = scales
    return words.view(np.uint32)[:, None, :, 0]


def run_scaled_products(form: ScaledForm, factors: Scaled, engine: str | None = None) -> Words:
    """The products by one warp a block: without timing, or by an engine."""
    cubin, _ = assemble(form.source, ARCHITECTURE)
    image = from_cubin(cubin, "product", form.name)
    plain, (a, b, c, rows, columns) = form.plain, factors
    of_lanes = [
        np.ascontiguousarray(to_registers(plain, x, v)) for x, v in zip("abc", (a, b, c), strict=True)
    ]
    out = np.zeros_like(of_lanes[2])
    more = [np.ascontiguousarray(_scale_registers(form, x, x is rows)) for x in (rows, columns)]
    assert all(len(LANES) == x.shape[-1] for x in more)
    launch = MachineLaunch(image, (len(a), 1, 1), (32, 1, 1), (*of_lanes, out, *more))
    if engine is None:
        functional.run(launch)
    else:
        run_machine_code(launch, load_gpu(GPU), engine=engine)
    return from_registers(plain, out, c)


def tensor_of_bytes(values: Words, kind: str) -> Any:
    """Bits as mmasim takes floats and scales of 8 bits and fewer."""
    import torch

    kinds: dict[str, Any] = {
        "e4m3": torch.float8_e4m3fn,
        "e5m2": torch.float8_e5m2,
        "ue8m0": torch.float8_e8m0fnu,
        "ue4m3": torch.float8_e4m3fn,
    }
    return torch.from_numpy(np.ascontiguousarray(values.astype(np.uint8))).view(kinds.get(kind, torch.uint8))


def pairs_for_mmasim(lines: Words) -> Words:
    """Floats of four bits, two in a byte: the first of two is in the upper half there."""
    return lines[:, 0::2] << np.uint64(4) | lines[:, 1::2]


def wanted_products(form: ScaledForm, factors: Scaled) -> Words:
    """What mmasim says."""
    import torch
    from mmasim import nv_ptx

    tensor = tensor_of_bytes
    operation = nv_ptx.MMABlockScale("RTX Blackwell", form.name)
    made = []
    for a, b, c, rows, columns in zip(*factors, strict=True):
        columns_of_b = b.T
        if form.k == 64:
            a, columns_of_b = pairs_for_mmasim(a), pairs_for_mmasim(columns_of_b)
        before = torch.from_numpy(c.astype(np.uint32).view(np.float32).copy())
        scales = tensor(rows, form.scale), tensor(columns, form.scale).T
        found = operation(tensor(a, form.a), tensor(columns_of_b, form.b).T, before, *scales)
        made.append(found.contiguous().numpy().view(np.uint32).astype(np.uint64))
    return np.array(made)
