"""Random products of matrices on the simulated GPU: their fragments in registers, and what comes out."""

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
from smlab.validation.campaigns.tensor_cores.forms import ProductForm

Words = NDArray[np.uint64]
GPUS: Final = {
    70: "v100",
    75: "t4",
    80: "a100-40",
    86: "rtx-3090",
    89: "rtx-4090",
    90: "h100-pcie",
    120: "rtx-5090",
}
_FIELDS: Final = {
    "f16": (5, 10),
    "bf16": (8, 7),
    "tf32": (8, 23),
    "f32": (8, 23),
    "f64": (11, 52),
    "e4m3": (4, 3),
    "e5m2": (5, 2),
    "e3m2": (3, 2),
    "e2m3": (2, 3),
    "e2m1": (2, 1),
}
LANES: Final = np.arange(32)


def random_matrix(kind: str, shape: tuple[int, ...], random: np.random.Generator) -> Words:
    """Elements as bits. Of each product's matrices some have near exponents, some any; zeros, subnormals, the
    largest numbers, infinities and NaN are among them here and there."""
    if kind not in _FIELDS:
        bits = {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "s32": 32}[kind]
        found = random.integers(0, 1 << bits, shape, dtype=np.uint64)
        if kind == "s32":  # near the ends of 32 bits here and there
            small = random.integers(0, 1 << 20, shape, dtype=np.uint64) - np.uint64(1 << 19)
            ends = np.where(found & 1, 0x7FFFFFFF, 0x80000000).astype(np.uint64)
            found = np.choose(random.integers(0, 3, shape), [found, small, ends]) & np.uint64(0xFFFFFFFF)
        return found
    exponent_bits, digits = _FIELDS[kind]
    top, middle = (1 << exponent_bits) - 1, (1 << (exponent_bits - 1)) - 1
    reach = random.choice([1, 3, middle], (shape[0], *[1] * (len(shape) - 1)))
    exponent = np.clip(middle + random.integers(-reach, reach + 1, shape), 0, top - 1)
    fraction = random.integers(0, 1 << digits, shape)
    kinds = random.random(shape) * random.choice([40, 4], (shape[0], *[1] * (len(shape) - 1)))
    exponent = np.where(kinds < 0.1, 0, exponent)  # zeros and subnormals
    fraction = np.where(kinds < 0.05, 0, fraction)
    exponent = np.where((kinds >= 0.1) & (kinds < 0.14), top, exponent)  # infinities, NaN, the largest
    fraction = np.where((kinds >= 0.1) & (kinds < 0.12), 0, fraction)
    sign = random.integers(0, 2, shape)
    whole = sign << (exponent_bits + digits) | exponent << digits | fraction
    return np.asarray(whole << (2 if kind == "e2m1" else 0), dtype=np.uint64)


def _places(form: ProductForm, matrix: str) -> NDArray[np.int64]:
    """Where in a matrix each lane's elements are: ``(registers, lanes, elements, 2)``, or with the number of
    the product first for Volta's; see the PTX ISA, "Matrix fragments for mma"."""
    group, t = LANES >> 2, LANES & 3
    if form.is_quads:
        quads, high = LANES >> 2 & 3, 4 * (LANES >> 4)
        line = (LANES & 3) + high
        if matrix != "c":
            i = np.arange(4).reshape(2, 1, 2)
            line, k, which = np.broadcast_arrays(line[None, :, None], i, quads[None, :, None])
            return np.stack((which, line, k) if matrix == "a" else (which, k, line), axis=-1)
        i = np.arange(8).reshape(-1, 1, 2 if form.total == "f16" else 1)
        row = (
            line[None, :, None]
            if form.total == "f16"
            else (LANES & 1)[None, :, None] + (i & 2) + high[:, None]
        )
        column = i if form.total == "f16" else (i & 4) + (LANES & 2)[None, :, None] + (i & 1)
        return np.stack(np.broadcast_arrays(quads[None, :, None], row, column), axis=-1)
    count = form.registers(matrix)
    register = np.arange(count)[:, None, None]
    if matrix == "c":
        if form.total == "f16":
            row, column = group[None, :, None] + 8 * register, 2 * t[None, :, None] + np.arange(2)
        else:
            row = group[None, :, None] + 8 * (register >> 1)
            column = 2 * t[None, :, None] + (register & 1)
        return np.stack(np.broadcast_arrays(row, column), axis=-1)
    bits = 64 if form.a == "f64" else 32 * count * 32 // (form.m if matrix == "a" else form.n) // form.k
    pack = max(1, (64 if form.a == "f64" else 32) // bits)
    groups = form.m // 8 if matrix == "a" else 1
    k = register // groups * 4 * pack + t[None, :, None] * pack + np.arange(pack)
    line = group[None, :, None] + 8 * (register % groups)
    return np.stack(np.broadcast_arrays(*((line, k) if matrix == "a" else (k, line))), axis=-1)


def to_registers(form: ProductForm, matrix: str, values: Words) -> NDArray[Any]:
    """Matrices as what the lanes hold: ``(warps, registers, lanes)``."""
    places = _places(form, matrix)
    taken = values[:, *np.moveaxis(places, -1, 0)]
    pack = taken.shape[-1]
    bits = (64 if form.total == "f64" else 32) // pack
    shifts = (np.arange(pack) * bits).astype(np.uint64)
    words = (taken << shifts).sum(axis=-1, dtype=np.uint64)
    return np.asarray(words, dtype=np.uint64 if form.total == "f64" else np.uint32)


def from_registers(form: ProductForm, words: NDArray[Any], values: Words) -> Words:
    """Results as matrices of the shape of ``values``."""
    places = _places(form, "c")
    pack = places.shape[-2]
    bits = (64 if form.total == "f64" else 32) // pack
    parts = words.astype(np.uint64)[..., None] >> (np.arange(pack) * bits).astype(np.uint64)
    if bits < 64:
        parts &= np.uint64((1 << bits) - 1)
    found = np.zeros_like(values)
    found[:, *np.moveaxis(places, -1, 0)] = parts
    return found


def matrices(form: ProductForm, warps: int, random: np.random.Generator) -> tuple[Words, Words, Words]:
    """Random matrices of so many warps: ``(warps, rows, columns)``, or of four products each for Volta's."""
    shapes = ((form.m, form.k), (form.k, form.n), (form.m, form.n))
    kinds = (form.a, form.b, form.total)
    several = (4,) if form.is_quads else ()
    a, b, c = (random_matrix(x, (warps, *several, *s), random) for x, s in zip(kinds, shapes, strict=True))
    return a, b, c


def run_products(
    form: ProductForm, capability: int, factors: tuple[Words, Words, Words], readable: bool = False
) -> Words:
    """The products by one warp a block: without timing, or by the ``readable`` engine."""
    architecture = f"sm_{capability}" + "a" * bool(form.kind)
    warps = len(factors[0])
    cubin, _ = assemble(form.source(architecture), architecture)
    image = from_cubin(cubin, "product", form.name)
    a, b, c = (np.ascontiguousarray(to_registers(form, x, v)) for x, v in zip("abc", factors, strict=True))
    out = np.zeros_like(c)
    launch = MachineLaunch(image, (warps, 1, 1), (32, 1, 1), (a, b, c, out))
    if readable:
        run_machine_code(launch, load_gpu(GPUS[capability]), engine="simpy")
    else:
        functional.run(launch)
    return from_registers(form, out, factors[2])
