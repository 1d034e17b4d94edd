"""Products on the simulated GPU against mmasim bit by bit, and against NumPy where they are whole numbers."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.validation.campaigns.tensor_cores.forms import FORMS, ProductForm
from smlab.validation.campaigns.tensor_cores.group_forms import GROUP_FORMS, GroupForm
from smlab.validation.campaigns.tensor_cores.group_products import group_matrices, run_group_products
from smlab.validation.campaigns.tensor_cores.products import Words, matrices, run_products
from smlab.validation.campaigns.tensor_cores.scaled_forms import (
    SCALED_FORMS,
    run_scaled_products,
    scaled_factors,
    wanted_products,
)
from smlab.validation.campaigns.tensor_memory.forms import MEMORY_FORMS, MemoryForm
from smlab.validation.campaigns.tensor_memory.products import run_memory_products
from smlab.validation.campaigns.tensor_memory.scaled_forms import (
    SCALED_MEMORY_FORMS,
    run_scaled_memory_products,
    scaled_memory_factors,
    wanted_memory_products,
)

RESULTS: Final = Path(__file__).with_name("results.json")
PRODUCTS: Final = 2000
GROUP_PRODUCTS: Final = 100
MEMORY_PRODUCTS: Final = 16
SHORT: Final = 40
GROUP_SHORT: Final = 2
MEMORY_SHORT: Final = 1
"""Products whose digest is kept, for tests that have no mmasim."""
SCALED_PRODUCTS: Final = 2000
ROW_SETS: Final = ("rows", "group_rows", "memory_rows", "scaled_rows", "scaled_memory_rows")
"""Of the results: products by a warp, by groups of warps, in tensor memory, and with scales of blocks: by a
warp, and in tensor memory."""
ARCHITECTURES: Final = {
    70: "Volta",
    75: "Turing",
    80: "Ampere",
    86: "Ampere",
    89: "Ada Lovelace",
    90: "Hopper",
    120: "RTX Blackwell",
}


def factors_of(number: int, capability: int, warps: int) -> tuple[Words, Words, Words]:
    """The matrices of a form on an architecture, the same at each call."""
    return matrices(FORMS[number], warps, np.random.default_rng([number, capability]))


def digest(products: Words) -> str:
    return hashlib.sha256(np.ascontiguousarray(products).astype("<u8").tobytes()).hexdigest()[:16]


def _signed(values: Words, kind: str) -> np.ndarray[Any, Any]:
    bits = {"s8": 8, "s4": 4, "s32": 32}.get(kind)
    whole = values.astype(np.int64)
    return whole if bits is None else np.where(whole >> (bits - 1) & 1, whole - (1 << bits), whole)


def whole_products(form: ProductForm | GroupForm, a: Words, b: Words, c: Words) -> Words:
    """What NumPy says of whole numbers."""
    if form.a == "b1" and isinstance(form, ProductForm) and "xor" in form.extra:
        total = np.bitwise_xor(a[:, :, :, None], b[:, None, :, :]).sum(axis=2).astype(np.int64)
    else:
        total = _signed(a, form.a) @ _signed(b, form.b)
    total = total + _signed(c, "s32")
    if form.saturates:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return np.asarray(total & 0xFFFFFFFF, dtype=np.uint64)


def _tensor(values: Words, kind: str) -> Any:
    """Bits as a tensor of mmasim's type."""
    import torch

    if kind in ("tf32", "f32", "f64", "f16"):
        words, floats = {
            "f64": (np.uint64, np.float64),
            "f16": (np.uint16, np.float16),
        }.get(kind, (np.uint32, np.float32))
        return torch.from_numpy(values.astype(words).view(floats).copy())
    if kind == "bf16":
        return torch.from_numpy(values.astype(np.uint16).view(np.int16).copy()).view(torch.bfloat16)
    small = torch.from_numpy(values.astype(np.uint8).copy())
    kinds = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
    return small.view(kinds[kind]) if kind in kinds else small


def float_products(form: ProductForm, capability: int, a: Words, b: Words, c: Words) -> Words:
    """What mmasim says of floats."""
    from mmasim import nv_ptx

    return _summed(nv_ptx.MMA(ARCHITECTURES[capability], form.name), form, a, b, c)


def _summed(operation: Any, form: ProductForm | GroupForm, a: Words, b: Words, c: Words) -> Words:
    import torch

    first, second = _tensor(a, form.a), _tensor(b, form.b).transpose(-1, -2)
    first, second = first[..., :, None, :], second[..., None, :, :]
    shape = torch.broadcast_shapes(first.shape, second.shape)
    factors = (x.expand(shape).contiguous() for x in (first, second))
    found = operation.dpa(*factors, _tensor(c, form.total)).contiguous().numpy()
    words = found.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[found.itemsize])
    return np.asarray(words, dtype=np.uint64)


def group_factors_of(number: int, blocks: int) -> tuple[Words, Words, Words]:
    """The matrices of a form of a group of warps, the same at each call."""
    return group_matrices(GROUP_FORMS[number], blocks, np.random.default_rng([number, 90]))


def memory_factors_of(number: int, blocks: int) -> tuple[Words, Words, Words]:
    """The same of a form in tensor memory."""
    return group_matrices(MEMORY_FORMS[number], blocks, np.random.default_rng([number, 100]))


def group_judged(number: int, blocks: int) -> dict[str, Any]:
    """One form of a group of warps: how many elements differ."""
    form, factors = GROUP_FORMS[number], group_factors_of(number, blocks)
    short, _ = run_group_products(form, group_factors_of(number, GROUP_SHORT))
    return _judged_group(form, factors, run_group_products(form, factors)[0], digest(short))


def memory_judged(number: int, blocks: int) -> dict[str, Any]:
    """The same of a form in tensor memory."""
    form, factors = MEMORY_FORMS[number], memory_factors_of(number, blocks)
    short, _ = run_memory_products(form, memory_factors_of(number, MEMORY_SHORT))
    return _judged_group(form, factors, run_memory_products(form, factors)[0], digest(short))


def _judged_group(
    form: GroupForm, factors: tuple[Words, Words, Words], made: Words, short: str
) -> dict[str, Any]:
    a, b, c = factors
    c = c if form.adds else np.zeros_like(c)
    if form.total == "s32":
        wanted, judge = whole_products(form, a, b, c), "NumPy"
    else:
        from mmasim import nv_ptx

        sign = np.uint64({"tf32": 1 << 31, "f16": 1 << 15, "bf16": 1 << 15}.get(form.a, 1 << 7))
        a, b = a ^ sign * np.uint64(form.a_negated), b ^ sign * np.uint64(form.b_negated)
        in_memory = isinstance(form, MemoryForm)
        operation = (
            nv_ptx.TCGen05MMA("Blackwell", form.shape) if in_memory else nv_ptx.WGMMA("Hopper", form.shape)
        )
        wanted, judge = _summed(operation, form, a, b, c), "mmasim"
    return {
        "form": form.name,
        "judge": judge,
        "products": len(a),
        "elements": made.size,
        "different": int((made != wanted).sum()),
        "digest": short,
    }


def scaled_judged(number: int, warps: int) -> dict[str, Any]:
    """One form with scales of blocks."""
    form, factors = SCALED_FORMS[number], scaled_factors(number, warps)
    made, wanted = run_scaled_products(form, factors), wanted_products(form, factors)
    return {
        "form": form.name,
        "judge": "mmasim",
        "products": warps,
        "elements": made.size,
        "different": int((made != wanted).sum()),
        "digest": digest(run_scaled_products(form, scaled_factors(number, SHORT))),
    }


def scaled_memory_judged(number: int, blocks: int) -> dict[str, Any]:
    """One form in tensor memory with scales of blocks."""
    form, factors = SCALED_MEMORY_FORMS[number], scaled_memory_factors(number, blocks)
    made, wanted = run_scaled_memory_products(form, factors)[0], wanted_memory_products(form, factors)
    short, _ = run_scaled_memory_products(form, scaled_memory_factors(number, MEMORY_SHORT))
    return {
        "form": form.name,
        "judge": "mmasim",
        "products": blocks,
        "elements": made.size,
        "different": int((made != wanted).sum()),
        "digest": digest(short),
    }


def judged(number: int, capability: int, warps: int) -> dict[str, Any]:
    """One form on one architecture: how many elements differ."""
    form, factors = FORMS[number], factors_of(number, capability, warps)
    made = run_products(form, capability, factors)
    if form.total == "s32":
        wanted, judge = whole_products(form, *factors), "NumPy"
    else:
        wanted, judge = float_products(form, capability, *factors), "mmasim"
    if form.total == "f64":  # which NaN a processor makes is not the tensor core's
        both = np.isnan(made.view(np.float64)) & np.isnan(wanted.view(np.float64))
        wanted = np.where(both, made, wanted)
    short = run_products(form, capability, factors_of(number, capability, SHORT))
    return {
        "form": form.name,
        "compute_capability": capability,
        "judge": judge,
        "products": warps * form.products,
        "elements": made.size,
        "different": int((made != wanted).sum()),
        "digest": digest(short),
    }


def _told(row: dict[str, Any]) -> dict[str, Any]:
    print(row, file=sys.stderr, flush=True)
    return row


def main() -> None:
    """All forms on all architectures, or those of the parts that are named; writes `RESULTS`, other parts as
    they were."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=ROW_SETS)
    asked = parser.parse_args().parts or ROW_SETS
    found = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    found["mmasim"] = "2.1.1"
    if "rows" in asked:
        pairs = [(n, c) for n, form in enumerate(FORMS) for c in form.since]
        found["rows"] = [_told(judged(*pair, PRODUCTS)) for pair in pairs]
    if "group_rows" in asked:
        found["group_rows"] = [_told(group_judged(n, GROUP_PRODUCTS)) for n in range(len(GROUP_FORMS))]
    if "memory_rows" in asked:
        found["memory_rows"] = [_told(memory_judged(n, MEMORY_PRODUCTS)) for n in range(len(MEMORY_FORMS))]
    if "scaled_rows" in asked:
        found["scaled_rows"] = [_told(scaled_judged(n, SCALED_PRODUCTS)) for n in range(len(SCALED_FORMS))]
    if "scaled_memory_rows" in asked:
        numbers = range(len(SCALED_MEMORY_FORMS))
        found["scaled_memory_rows"] = [_told(scaled_memory_judged(n, MEMORY_PRODUCTS)) for n in numbers]
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    wrong = sum(bool(row["different"]) for part in ROW_SETS for row in found[part])
    counts = ", ".join(f"{len(found[part])} {part.replace('_', ' ')}" for part in ROW_SETS)
    print(f"{counts}: {wrong} with differences")


if __name__ == "__main__":
    main()
