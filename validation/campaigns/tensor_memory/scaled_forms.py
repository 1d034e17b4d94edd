"""Products in tensor memory with scales of blocks (PTX's ``tcgen05.mma`` with ``block_scale``): forms, and a
kernel of one product whose scales ``tcgen05.cp`` brings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass.tools import assemble
from smlab.sim.execution import functional
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.validation.campaigns.tensor_cores.group_products import group_matrices, images, line_bytes
from smlab.validation.campaigns.tensor_cores.products import Words, random_matrix
from smlab.validation.campaigns.tensor_cores.scaled_forms import pairs_for_mmasim, tensor_of_bytes
from smlab.validation.campaigns.tensor_memory.forms import LANES, MemoryForm

_SCALE_BYTES: Final = 512
"""Of 128 rows, four scales each."""
_SCALES_AT: Final = 320
"""The first column of the scales in tensor memory; those of columns are behind those of rows."""
Scaled = tuple[Words, Words, Words, Words, Words]
"""The two matrices, the sum before, and words of four scales of rows and columns: ``(blocks, lines, 4)``."""


@dataclass(frozen=True)
class ScaledMemoryForm(MemoryForm):
    """One with ``blocks`` scales a row, from a byte of a word on: ``first_byte`` of rows, ``second_byte`` of
    columns."""

    scale: str = "ue8m0"
    blocks: int = 1
    first_byte: int = 0
    second_byte: int = 0

    @property
    def kind(self) -> str:
        return "mxf8f6f4" if self.a != "e2m1" else "mxf4" if self.scale == "ue8m0" else "mxf4nvf4"

    @property
    def shape(self) -> str:
        """As mmasim names it."""
        size = self.k // self.blocks
        return f"m128n{self.n}k{self.k}.kind::{self.kind}.block{size}.f32.{self.a}.{self.b}.{self.scale}"

    @property
    def name(self) -> str:
        return f"{super().name}.bytes{self.first_byte}{self.second_byte}"

    @property
    def instruction_descriptor(self) -> int:
        """PTX ISA, "Instruction descriptor", kinds with ``mx``."""
        types = {"e4m3": 0, "e5m2": 1, "e2m1": 1}
        fields = (
            *((self.second_byte, 4), (types[self.a], 7), (types[self.b], 10)),
            *((self.a_negated, 13), (self.b_negated, 14), (self.n >> 3, 17)),
            *((self.scale == "ue8m0", 23), (self.rows >> 4, 24), (self.first_byte, 29)),
        )
        return sum(int(value) << at for value, at in fields)

    @property
    def copies(self) -> int:
        """Of 128 rows' or columns' scales."""
        return 1 + -(-self.n // LANES)

    @property
    def scales_at(self) -> int:
        """Where the scales begin in shared memory."""
        return sum(self.image_bytes(x) for x in "ab")

    @property
    def shared_bytes(self) -> int:
        size = self.scales_at + _SCALE_BYTES * self.copies
        return -(-size // 2048) * 2048

    def source(self) -> str:
        """That of a form without scales; their copies come before the product."""
        plain = super().source()
        product = next(line for line in plain.splitlines() if line.startswith("tcgen05.mma"))
        copies = [".reg .b64 %scales; .reg .b32 %s<3>;", f"add.u32 %s0, %r5, {_SCALES_AT};"]
        for n in range(self.copies):
            # rows of 16 bytes, eight together
            described = (self.scales_at + _SCALE_BYTES * n) >> 4 | 128 >> 4 << 32 | 1 << 46
            copies += [
                f"add.u64 %scales, %at8, {described:#x}; add.u32 %s1, %s0, {4 * n};",
                "tcgen05.cp.cta_group::1.32x128b.warpx4 [%s1], %scales;",
            ]
        copies.append("add.u32 %s1, %s0, 4;")
        kind = f"kind::{self.kind}.block_scale.scale_vec::{self.blocks}X"
        scaled = product.replace(f"kind::{self.kind}", kind).replace("%r8, %p2", "%r8, [%s0], [%s1], %p2")
        return plain.replace(product, "\n".join([*copies, scaled]))


def _forms() -> tuple[ScaledMemoryForm, ...]:
    found = []
    for n, (a, b) in enumerate((a, b) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")):
        for in_shared in (True, False):
            places: dict[str, Any] = {"first_byte": (n + in_shared) % 4, "second_byte": (2 * n + 1) % 4}
            more = {**places, "a_negated": n == 1, "b_negated": n == 2, "adds": n != 3}
            found.append(ScaledMemoryForm((16, 48)[n % 2], "f32", a, b, in_shared, 1, rows=128, **more))
    found.append(ScaledMemoryForm(256, "f32", "e4m3", "e4m3", True, 1, rows=128, second_byte=2))
    for n, (scale, blocks) in enumerate((("ue8m0", 2), ("ue8m0", 2), ("ue4m3", 4), ("ue4m3", 4))):
        places = {"first_byte": 2 * (n % 2), "second_byte": 2 - 2 * (n % 2)} if blocks == 2 else {}
        more = {"rows": 128, "scale": scale, "blocks": blocks, **places}
        types: tuple[Any, ...] = ((16, 40, 32, 136)[n], "f32", "e2m1", "e2m1", n % 2 == 0, (1, 2, 0, 3)[n])
        found.append(ScaledMemoryForm(*types, **more))
    return tuple(found)


SCALED_MEMORY_FORMS: Final = _forms()


def scaled_memory_factors(number: int, blocks: int) -> Scaled:
    """The same at each call; of some products the scales are near each other, of some any number."""
    form, random = SCALED_MEMORY_FORMS[number], np.random.default_rng([number, 101])
    if form.a == "e2m1":
        shapes = ((form.rows, form.k), (form.k, form.n))
        a, b = (random.integers(0, 16, (blocks, *s), dtype=np.uint64) for s in shapes)
        c = random_matrix("f32", (blocks, form.rows, form.n), random)
    else:
        a, b, c = group_matrices(form, blocks, random)
    scales = []
    for lines in (form.rows, form.n):
        low, high = (110, 145) if form.scale == "ue8m0" else (40, 72)
        near = random.integers(low, high, (blocks, lines, 4), dtype=np.uint64)
        wild = random.random((blocks, 1, 1)) < 0.2
        scales.append(np.where(wild, random.integers(0, 256, near.shape, dtype=np.uint64), near))
    return a, b, c, scales[0], scales[1]


def _image(form: ScaledMemoryForm, factors: Scaled) -> NDArray[np.uint8]:
    """Each block's shared memory: of scales, 32 rows of 16 bytes for each 128 lines, four lines a row."""
    a, b, _, *scales = factors
    found = np.zeros((len(a), form.shared_bytes), np.uint8)
    plain = images(form, a, b)
    found[:, : form.scales_at] = plain[:, : form.scales_at]
    at = form.scales_at
    for values in scales:
        whole = np.zeros((len(a), -(-values.shape[1] // LANES) * LANES, 4), np.uint8)
        whole[:, : values.shape[1]] = values
        packed = whole.reshape(len(a), -1, 4, 32, 4).transpose(0, 1, 3, 2, 4).reshape(len(a), -1)
        found[:, at : at + packed.shape[1]] = packed
        at += packed.shape[1]
    return found


def run_scaled_memory_products(
    form: ScaledMemoryForm, factors: Scaled, engine: str | None = None
) -> tuple[Words, int]:
    """The products, one a block, without timing or by an ``engine``; and the cycles, or 0."""
    cubin, _ = assemble(form.source(), "sm_100a")
    image = from_cubin(cubin, "product", form.name)
    a, _, c, *_ = factors
    first = np.ascontiguousarray(line_bytes(a, form.a).view(np.uint32).transpose(0, 2, 1))
    sums = np.ascontiguousarray(c.transpose(0, 2, 1).astype(np.uint32))
    out = np.zeros_like(sums)
    arguments = (_image(form, factors), first, sums, out)
    size, grid = form.shared_bytes, (len(a), 1, 1)
    launch = MachineLaunch(
        image, grid, (LANES, 1, 1), arguments, dynamic_shared_bytes=size, check_shared=False
    )
    cycles = 0
    if engine is None:
        functional.run(launch)
    else:
        cycles = int(run_machine_code(launch, load_gpu("b200"), engine=engine).cycles)
    return out.transpose(0, 2, 1).astype(np.uint64), cycles


def wanted_memory_products(form: ScaledMemoryForm, factors: Scaled) -> Words:
    """What mmasim says."""
    import torch
    from mmasim import nv_ptx

    tensor = tensor_of_bytes
    operation = nv_ptx.TCGen05MMABlockScale("Blackwell", form.shape)
    sign = np.uint64(8 if form.a == "e2m1" else 0x80)
    made = []
    for a, b, c, rows, columns in zip(*factors, strict=True):
        first, second = a ^ sign * np.uint64(form.a_negated), b.T ^ sign * np.uint64(form.b_negated)
        if form.a == "e2m1":
            first, second = pairs_for_mmasim(first), pairs_for_mmasim(second)
        before = torch.from_numpy((c * np.uint64(form.adds)).astype(np.uint32).view(np.float32).copy())
        used = (
            tensor(x[:, at : at + form.blocks], form.scale)
            for x, at in ((rows, form.first_byte), (columns, form.second_byte))
        )
        of_rows, of_columns = used
        found = operation(tensor(first, form.a), tensor(second, form.b).T, before, of_rows, of_columns.T)
        made.append(found.contiguous().numpy().view(np.uint32).astype(np.uint64))
    return np.array(made)
