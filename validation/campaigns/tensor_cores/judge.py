"""Products on the simulated GPU against mmasim bit by bit, and against NumPy where they are whole numbers."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.validation.campaigns.tensor_cores.forms import FORMS, ProductForm
from smlab.validation.campaigns.tensor_cores.products import Words, matrices, run_products

RESULTS: Final = Path(__file__).with_name("results.json")
PRODUCTS: Final = 2000
SHORT: Final = 40
"""Products whose digest is kept, for tests that have no mmasim."""
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


def whole_products(form: ProductForm, a: Words, b: Words, c: Words) -> Words:
    """What NumPy says of whole numbers."""
    if form.a == "b1":
        combine = np.bitwise_xor if "xor" in form.extra else np.bitwise_and
        total = combine(a[:, :, :, None], b[:, None, :, :]).sum(axis=2).astype(np.int64)
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
    import torch
    from mmasim import nv_ptx

    first, second = _tensor(a, form.a), _tensor(b, form.b).transpose(-1, -2)
    first, second = first[..., :, None, :], second[..., None, :, :]
    shape = torch.broadcast_shapes(first.shape, second.shape)
    operation = nv_ptx.MMA(ARCHITECTURES[capability], form.name)
    factors = (x.expand(shape).contiguous() for x in (first, second))
    found = operation.dpa(*factors, _tensor(c, form.total)).contiguous().numpy()
    words = found.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[found.itemsize])
    return np.asarray(words, dtype=np.uint64)


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


def main() -> None:
    """All forms on all architectures; writes `RESULTS`."""
    rows = []
    for number, form in enumerate(FORMS):
        for capability in form.since:
            rows.append(judged(number, capability, PRODUCTS))
            print(rows[-1], file=sys.stderr, flush=True)
    RESULTS.write_text(json.dumps({"mmasim": "2.1.1", "rows": rows}, indent=1) + "\n")
    wrong = [row for row in rows if row["different"]]
    print(f"{len(rows)} forms on their architectures, {len(wrong)} with differences")


if __name__ == "__main__":
    main()
