"""Random products of matrices by groups of four warps on the simulated GPU."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass.tools import assemble
from smlab.sim.execution import functional
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.validation.campaigns.tensor_cores.group_forms import SIZES, GroupForm
from smlab.validation.campaigns.tensor_cores.products import Words, random_matrix

_LANES: Final = np.arange(128)
_GROUP, _T, _ROW = _LANES % 32 >> 2, _LANES & 3, _LANES // 32 * 16


def group_matrices(form: GroupForm, blocks: int, random: np.random.Generator) -> tuple[Words, Words, Words]:
    """Random matrices of so many products: ``(blocks, rows, columns)``."""
    shapes = ((form.rows, form.k), (form.k, form.n), (form.rows, form.n))
    kinds = (form.a, form.b, form.total)
    a, b, c = (random_matrix(kind, (blocks, *s), random) for kind, s in zip(kinds, shapes, strict=True))
    return a, b, c


def line_bytes(values: Words, kind: str) -> NDArray[np.uint8]:
    """The bytes of lines of elements, ``(blocks, lines, 32)``."""
    if kind == "b1":
        return np.packbits(values.astype(np.uint8), axis=-1, bitorder="little")
    if kind == "e2m1":  # two in a byte
        return (values[..., 0::2] | values[..., 1::2] << np.uint64(4)).astype(np.uint8)
    words: Any = {1: np.uint8, 2: np.uint16, 4: np.uint32}[int(SIZES[kind])]
    return np.ascontiguousarray(values.astype(words)).view(np.uint8)


def images(form: GroupForm, a: Words, b: Words) -> NDArray[np.uint8]:
    """Each block's shared memory."""
    found = np.zeros((len(a), form.shared_bytes), dtype=np.uint8)
    found[:, form.places("a")] = line_bytes(a, form.a)
    found[:, form.image_bytes("a") + form.places("b")] = line_bytes(b.transpose(0, 2, 1), form.b)
    return found


def _first_registers(form: GroupForm, a: Words) -> NDArray[np.uint32]:
    words = line_bytes(a, form.a).view(np.uint32)
    register = np.arange(4)[:, None]
    found: NDArray[np.uint32] = words[:, _ROW + _GROUP + 8 * (register & 1), 4 * (register >> 1) + _T]
    return np.ascontiguousarray(found)


def _sum_places(form: GroupForm) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns of what the lanes hold of a sum: ``(registers, lanes, elements)``."""
    register = np.arange(form.registers("c"))[:, None, None]
    row, column = (_ROW + _GROUP)[None, :, None], 2 * _T[None, :, None]
    if form.total == "f16":
        row, column = row + 8 * (register & 1), column + 8 * (register >> 1) + np.arange(2)
    else:
        row = row + 8 * (register >> 1 & 1)
        column = column + 8 * (register >> 2) + (register & 1)
    rows, columns = np.broadcast_arrays(row, column)
    return rows, columns


def run_group_products(
    form: GroupForm, factors: tuple[Words, Words, Words], readable: bool = False
) -> tuple[Words, int]:
    """The products by one group of warps a block, without timing or by the ``readable`` engine; and the
    cycles, or 0."""
    cubin, _ = assemble(form.source(), "sm_90a")
    image = from_cubin(cubin, "product", form.name)
    a, b, c = factors
    places = _sum_places(form)
    bits = 16 if form.total == "f16" else 32
    shifts = (np.arange(32 // bits) * bits).astype(np.uint64)
    sums = np.ascontiguousarray((c[:, *places] << shifts).sum(axis=-1, dtype=np.uint64).astype(np.uint32))
    out = np.zeros_like(sums)
    arguments = (images(form, a, b), _first_registers(form, a), sums, out)
    size = form.shared_bytes
    launch = MachineLaunch(
        image, (len(a), 1, 1), (128, 1, 1), arguments, dynamic_shared_bytes=size, check_shared=False
    )
    cycles = 0
    if readable:
        cycles = int(run_machine_code(launch, load_gpu("h100-pcie"), engine="simpy").cycles)
    else:
        functional.run(launch)
    found = np.zeros_like(c)
    found[:, *places] = out.astype(np.uint64)[..., None] >> shifts & np.uint64((1 << bits) - 1)
    return found, cycles
