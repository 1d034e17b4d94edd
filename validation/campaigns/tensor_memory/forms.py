"""The forms of PTX's ``tcgen05.mma`` that are judged, by one block: shape, types, where the matrices lie, and
a kernel of one product."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Final

from smlab.validation.campaigns.tensor_cores.group_forms import SIZES, GroupForm

LANES: Final = 128
COLUMNS: Final = 512
_COPIED_BYTES: Final = 2048
_KINDS: Final = {
    "f16": "f16",
    "bf16": "f16",
    "tf32": "tf32",
    "e4m3": "f8f6f4",
    "e5m2": "f8f6f4",
    "s8": "i8",
    "u8": "i8",
}
_TYPES: Final = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "u8": 0, "s8": 1}
_RESULTS: Final = {"f16": 0, "f32": 1, "s32": 2}


@dataclass(frozen=True)
class MemoryForm(GroupForm):
    """One ``tcgen05.mma`` of 64 or 128 rows. Its first matrix is in shared memory, or in tensor memory behind
    the sums."""

    @property
    def kind(self) -> str:
        return _KINDS[self.a]

    @property
    def shape(self) -> str:
        """Its shape and types, as mmasim names them."""
        return f"m{self.rows}n{self.n}k{self.k}.kind::{self.kind}.{self.total}.{self.a}.{self.b}"

    def descriptor(self, matrix: str) -> int:
        """The same as of a group of warps, but for a version."""
        return super().descriptor(matrix) | 1 << 46

    @property
    def instruction_descriptor(self) -> int:
        """PTX ISA, "Instruction descriptor"."""
        fields = (
            (self.saturates, 3),
            (_RESULTS[self.total], 4),
            (_TYPES[self.a], 7),
            (_TYPES[self.b], 10),
            (self.a_negated, 13),
            (self.b_negated, 14),
            (self.a_turned, 15),
            (self.b_turned, 16),
            (self.n >> 3, 17),
            (self.rows >> 4, 24),
        )
        return sum(int(value) << at for value, at in fields)

    @property
    def first_column(self) -> int:
        """Where the first matrix begins in tensor memory."""
        return 256

    def source(self) -> str:
        """The kernel ``product``: each block fills shared and tensor memory, multiplies, and writes all
        lanes' columns of the sums."""
        size = self.shared_bytes
        lines = [
            ".version 8.7\n.target sm_100a\n.address_size 64",
            ".extern .shared .align 1024 .b8 image[];",
            ".visible .entry product(.param .u64 s, .param .u64 a, .param .u64 c, .param .u64 d) {",
            ".shared .align 8 .b8 words[16];",
            ".reg .b32 %r<12>; .reg .b32 %v<4>; .reg .b64 %at<9>; .reg .b64 %desc<2>; .reg .pred %p<4>;",
            "mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r3, image; mov.u32 %r4, words;",
            f"mad.lo.u32 %r2, %r1, {size // 16}, %r0; mul.wide.u32 %at0, %r2, 16;",
            "ld.param.u64 %at8, [s]; add.u64 %at0, %at0, %at8; mad.lo.u32 %r2, %r0, 16, %r3;",
        ]
        for at in range(0, size, _COPIED_BYTES):
            lines.append(f"ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%at0+{at}];")
            lines.append(f"st.shared.v4.b32 [%r2+{at}], {{%v0, %v1, %v2, %v3}};")
        lines += [
            "setp.ge.u32 %p0, %r0, 32; setp.ne.u32 %p1, %r0, 0;",
            "@%p0 bra after;",
            f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4], {COLUMNS}; after:",
            "@!%p1 mbarrier.init.shared::cta.b64 [%r4+8], 1;",
            "bar.sync 0; ld.shared.b32 %r5, [%r4];",
            "shr.u32 %r6, %r0, 5; shl.b32 %r6, %r6, 21; add.u32 %r6, %r6, %r5;",
        ]
        for place, (name, count) in enumerate((("a", 8), ("c", self.n), ("d", self.n))):
            lines += [
                f"mad.lo.u32 %r2, %r1, {LANES * count}, %r0; mul.wide.u32 %at{place}, %r2, 4;",
                f"ld.param.u64 %at8, [{name}]; add.u64 %at{place}, %at{place}, %at8;",
            ]
        for place, first, count in ((0, self.first_column, 8), (1, 0, self.n)):
            for n in range(count):
                lines.append(f"ld.global.b32 %v0, [%at{place}+{4 * LANES * n}];")
                lines.append(f"tcgen05.st.sync.aligned.32x32b.x1.b32 [%r6+{first + n}], {{%v0}};")
        first_matrix = "%desc0" if self.a_in_shared else "[%r7]"
        lines += [
            "tcgen05.wait::st.sync.aligned; fence.proxy.async.shared::cta; bar.sync 0;",
            "shr.u32 %r3, %r3, 4; cvt.u64.u32 %at8, %r3;",
            f"add.u64 %desc0, %at8, {self.descriptor('a'):#x};",
            f"add.u64 %desc1, %at8, {self.descriptor('b') + (self.image_bytes('a') >> 4):#x};",
            f"add.u32 %r7, %r5, {self.first_column}; mov.b32 %r8, {self.instruction_descriptor:#x};",
            f"setp.ne.u32 %p2, {int(self.adds)}, 0; @%p1 bra wait;",
            f"tcgen05.mma.cta_group::1.kind::{self.kind} [%r5], {first_matrix}, %desc1, %r8, %p2;",
            "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r4+8];",
            "wait: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r4+8], 0; @!%p3 bra wait;",
        ]
        for n in range(self.n):
            lines.append(
                f"tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%v0}}, [%r6+{n}]; tcgen05.wait::ld.sync.aligned;"
            )
            lines.append(f"st.global.b32 [%at2+{4 * LANES * n}], %v0;")
        lines += [
            "bar.sync 0; @%p0 bra end;",
            f"tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, {COLUMNS};",
            "end: ret; }",
        ]
        return "\n".join(lines)


_FLOATS: Final = (
    *(("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32")),
    *((total, a, b) for total in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
)
_WHOLE: Final = tuple(("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8"))


def _forms() -> tuple[MemoryForm, ...]:
    found = []
    for n, (types, in_shared, rows) in enumerate(product((*_FLOATS, *_WHOLE), (True, False), (64, 128))):
        swizzle, signs = (1, 0, 2, 3)[n % 4], types[0] != "s32"
        found.append(MemoryForm((16, 48, 16, 32)[n % 4], *types, in_shared, swizzle, rows=rows))
        minus = (signs and n % 2 == 0, signs and n % 3 != 0)
        more = (False, False, *minus, False)
        found.append(MemoryForm(16, *types, in_shared, (swizzle + 1) % 4, *more, rows=rows))
    turning = [types for types in (*_FLOATS, *_WHOLE) if SIZES[types[1]] < 4]
    for n, (types, swizzle) in enumerate(product(turning, range(4))):
        for turned in ((True, False), (False, True), (True, True)):
            found.append(MemoryForm(32, *types, True, swizzle, *turned, rows=(64, 128)[n % 2]))
    found.append(MemoryForm(256, "f32", "f16", "f16", True, 1, rows=128))
    found.append(MemoryForm(256, "f32", "bf16", "bf16", False, 1, rows=128))
    found += [MemoryForm(32, "s32", a, "s8", True, 2, saturates=True, rows=128) for a in ("s8", "u8")]
    return tuple(found)


MEMORY_FORMS: Final = _forms()
