"""The forms of PTX's ``mma.sync`` that are judged: shape, types, and a kernel of one product a warp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_FP8: Final = ("e4m3", "e5m2")
_SMALL: Final = (*_FP8, "e3m2", "e2m3", "e2m1")
_BITS: Final = {
    **dict.fromkeys(("f64",), 64),
    **dict.fromkeys(("tf32", "f32", "s32"), 32),
    **dict.fromkeys(("f16", "bf16"), 16),
    **dict.fromkeys((*_SMALL, "s8", "u8"), 8),
    **dict.fromkeys(("s4", "u4"), 4),
    "b1": 1,
}


@dataclass(frozen=True)
class ProductForm:
    """One ``mma.sync``: its shape, its types (sum, a, b), what else it says, and the first architecture."""

    m: int
    n: int
    k: int
    total: str
    a: str
    b: str
    since: tuple[int, ...]
    extra: str = ""
    kind: str = ""

    @property
    def name(self) -> str:
        """Its shape and types, as mmasim names them."""
        kind = f"{self.kind}." if self.kind else ""
        return f"m{self.m}n{self.n}k{self.k}.{kind}{self.total}.{self.a}.{self.b}.{self.total}{self.extra}"

    @property
    def ptx(self) -> str:
        saturates, kind = ".satfinite" * self.saturates, f".{self.kind}" if self.kind else ""
        types = f"{self.total}.{self.a}.{self.b}.{self.total}{self.extra.replace('.sat', '')}"
        return f"mma.sync.aligned.m{self.m}n{self.n}k{self.k}.row.col{kind}{saturates}.{types}"

    @property
    def saturates(self) -> bool:
        return ".sat" in self.extra

    @property
    def is_quads(self) -> bool:
        """Whether it is Volta's: a warp has four of them."""
        return self.k == 4 and self.a == "f16"

    @property
    def products(self) -> int:
        return 4 if self.is_quads else 1

    def registers(self, matrix: str) -> int:
        """Registers of a lane, of 32 bits (of 64, for doubles)."""
        rows, columns, kind = {
            "a": (self.m, self.k, self.a),
            "b": (self.k, self.n, self.b),
            "c": (self.m, self.n, self.total),
        }[matrix]
        bits = max(_BITS[kind], 8 if kind in _SMALL else 0)
        return self.products * rows * columns * bits // (32 * (64 if kind == "f64" else 32))

    def source(self, architecture: str) -> str:
        """The kernel ``product``: each warp reads its three matrices, and writes the result."""
        wide = self.total == "f64"
        kind = {"f64": "f64", "f32": "f32"}.get(self.total, "b32")
        of_factors = "f64" if wide else "b32"
        size = 8 if wide else 4
        counts = {x: self.registers(x) for x in "abc"}
        lines = [
            f".version 8.7\n.target {architecture}\n.address_size 64",
            ".visible .entry product(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {",
            ".reg .b32 %r<4>; .reg .b64 %at<9>;",
            *(f".reg .{of_factors} %{x}<{counts[x]}>;" for x in "ab"),
            *(f".reg .{kind} %{x}<{counts['c']}>;" for x in "cd"),
            "mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;",
        ]
        for place, matrix in enumerate(("a", "b", "c", "d")):
            count = counts.get(matrix, counts["c"])
            lines += [
                f"mad.lo.u32 %r2, %r1, {32 * count}, %r0; mul.wide.u32 %at{place}, %r2, {size};",
                f"ld.param.u64 %at8, [{matrix}]; add.u64 %at{place}, %at{place}, %at8;",
            ]
        for place, matrix in enumerate("abc"):
            of = kind if matrix == "c" else of_factors
            for n in range(counts[matrix]):
                lines.append(f"ld.global.{of} %{matrix}{n}, [%at{place}+{32 * size * n}];")
        lists = [
            "{" + ", ".join(f"%{x}{n}" for n in range(counts[x.replace("d", "c")])) + "}" for x in "dabc"
        ]
        lines.append(f"{self.ptx} {', '.join(lists)};")
        lines += [f"st.global.{kind} [%at3+{32 * size * n}], %d{n};" for n in range(counts["c"])]
        return "\n".join([*lines, "ret; }"])


_VOLTA: Final[tuple[int, ...]] = (70, 75)
_TURING: Final[tuple[int, ...]] = (75, 80, 86, 89, 90, 120)
_AMPERE: Final[tuple[int, ...]] = (80, 86, 89, 90, 120)
_ADA: Final[tuple[int, ...]] = (89, 120)
_INT4: Final[tuple[int, ...]] = (80, 86, 89)


def _forms() -> tuple[ProductForm, ...]:
    found = [ProductForm(8, 8, 4, total, "f16", "f16", _VOLTA) for total in ("f32", "f16")]
    for total in ("f32", "f16"):
        found.append(ProductForm(16, 8, 8, total, "f16", "f16", _TURING))
        found.append(ProductForm(16, 8, 16, total, "f16", "f16", _AMPERE))
    found += [ProductForm(16, 8, k, "f32", "bf16", "bf16", _AMPERE) for k in (8, 16)]
    found += [ProductForm(16, 8, k, "f32", "tf32", "tf32", _AMPERE) for k in (4, 8)]
    found.append(ProductForm(8, 8, 4, "f64", "f64", "f64", (80, 90)))
    found += [ProductForm(16, 8, k, "f64", "f64", "f64", (90,)) for k in (4, 8, 16)]
    found += [
        ProductForm(16, 8, k, total, a, b, _ADA)
        for k in (16, 32)
        for total in ("f32", "f16")
        for a in _FP8
        for b in _FP8
    ]
    found += [
        ProductForm(16, 8, 32, total, a, b, (120,), kind="kind::f8f6f4")
        for total in ("f32", "f16")
        for a in _SMALL
        for b in _SMALL
    ]
    for k, m, since in ((16, 8, _TURING), (16, 16, _AMPERE), (32, 16, _AMPERE)):
        for a, b in (("s8", "s8"), ("u8", "s8")):
            found += [ProductForm(m, 8, k, "s32", a, b, since, extra) for extra in ("", ".sat")]
    for k, m, since in ((32, 8, (75, *_INT4)), (32, 16, _INT4), (64, 16, _INT4)):
        found += [ProductForm(m, 8, k, "s32", a, b, since) for a, b in (("s4", "u4"), ("u4", "s4"))]
    for k, m in ((128, 8), (128, 16), (256, 16)):
        found.append(ProductForm(m, 8, k, "s32", "b1", "b1", (80, 86, 89, 90), ".and.popc"))
        found.append(ProductForm(m, 8, k, "s32", "b1", "b1", (80, 86, 89), ".xor.popc"))
    return tuple(found)


FORMS: Final = _forms()
