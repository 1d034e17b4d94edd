"""The forms of PTX's ``wgmma`` that are judged: shape, types, where the matrices lie, and a kernel of one
product a group of four warps."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

SIZES: Final = {
    "tf32": 4,
    "f16": 2,
    "bf16": 2,
    "e4m3": 1,
    "e5m2": 1,
    "s8": 1,
    "u8": 1,
    "e2m1": 1 / 2,
    "b1": 1 / 8,
}
SPANS: Final = (16, 128, 64, 32)
ROWS: Final = 64
_ALIGNED: Final = 1024
_COPIED_BYTES: Final = 2048


@dataclass(frozen=True)
class GroupForm:
    """One ``wgmma``: columns, types (sum, a, b), whether a is in shared memory, how both are laid out there
    (``swizzle``, the number in a descriptor; turned: column by column of what is multiplied), signs, whether
    the sum before is added, and how many bytes within a row the matrices begin."""

    n: int
    total: str
    a: str
    b: str
    a_in_shared: bool = True
    swizzle: int = 0
    a_turned: bool = False
    b_turned: bool = False
    a_negated: bool = False
    b_negated: bool = False
    adds: bool = True
    saturates: bool = False
    inside: int = 0
    rows: int = ROWS

    @property
    def k(self) -> int:
        """Elements of 32 bytes."""
        return int(32 / SIZES[self.a])

    @property
    def shape(self) -> str:
        """Its shape and types, as mmasim names them."""
        return f"m64n{self.n}k{self.k}.{self.total}.{self.a}.{self.b}"

    @property
    def name(self) -> str:
        """The same, and all that is special about it."""
        flags = {
            "registers": not self.a_in_shared,
            f"swizzle{SPANS[self.swizzle]}": self.swizzle,
            "turned-a": self.a_turned,
            "turned-b": self.b_turned,
            "minus-a": self.a_negated,
            "minus-b": self.b_negated,
            "alone": not self.adds,
            "sat": self.saturates,
            f"inside{self.inside}": self.inside,
        }
        return ".".join([self.shape, *(name for name, has in flags.items() if has)])

    @property
    def has_flags(self) -> bool:
        """Whether the instruction has operands for signs, as those on floats have."""
        return self.total != "s32"

    def registers(self, matrix: str) -> int:
        """Registers of a lane."""
        return 4 if matrix == "a" else self.n // (4 if self.total == "f16" else 2)

    def places(self, matrix: str) -> NDArray[np.int64]:
        """Where each byte of a matrix lies in shared memory, from a multiple of 1,024 on: ``(lines, elements'
        bytes)`` for rows of the first or columns of the second (PTX ISA, "Shared memory matrix layout").
        Bits: eight elements are a byte."""
        lines, turned = (self.rows, self.a_turned) if matrix == "a" else (self.n, self.b_turned)
        size, span = max(1, int(SIZES[self.a])), SPANS[self.swizzle]
        line, byte = np.meshgrid(np.arange(lines), np.arange(32), indexing="ij")
        leading, stride = self.distances(matrix)
        if not turned:
            inner = byte + self.inside
            row = line // 8 * stride + line % 8 * span
            found = row + (byte // 16 * leading + byte % 16 if span == 16 else inner)
        else:
            k, along = byte // size, line * size + byte % size
            row = k // 8 * (leading if span == 16 else stride) + k % 8 * span
            found = row + along // span * (stride if span == 16 else leading) + along % span
        bits = {16: 0, 32: 1, 64: 3, 128: 7}[span]
        return np.asarray(found ^ ((found >> 7 & bits) << 4))

    def distances(self, matrix: str) -> tuple[int, int]:
        """A descriptor's leading and stride distances, in bytes."""
        span, turned = SPANS[self.swizzle], self.a_turned if matrix == "a" else self.b_turned
        if span == 16:
            return 128, 16 * max(16, self.k) if turned else 256
        return (max(16, self.k) * span if turned else 16), 8 * span

    def descriptor(self, matrix: str) -> int:
        """A matrix descriptor for an address of 0."""
        leading, stride = self.distances(matrix)
        return self.inside >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | self.swizzle << 62

    def image_bytes(self, matrix: str) -> int:
        """What a matrix takes of shared memory, to the next one's begin."""
        end = int(self.places(matrix).max()) + 1
        return -(-end // _ALIGNED) * _ALIGNED

    @property
    def shared_bytes(self) -> int:
        """Whole pieces of 16 bytes for each of the threads."""
        size = sum(self.image_bytes(x) for x in "ab")
        return -(-size // _COPIED_BYTES) * _COPIED_BYTES

    def source(self) -> str:
        """The kernel ``product``: each block fills shared memory, reads its registers, and writes the
        result."""
        size = self.shared_bytes
        counts = {"a": 4, "c": self.registers("c")}
        kind = "f32" if self.total == "f32" else "b32"
        lines = [
            ".version 8.7\n.target sm_90a\n.address_size 64",
            ".extern .shared .align 1024 .b8 image[];",
            ".visible .entry product(.param .u64 s, .param .u64 a, .param .u64 c, .param .u64 d) {",
            ".reg .b32 %r<4>; .reg .b32 %v<4>; .reg .b64 %at<9>; .reg .b64 %desc<2>; .reg .pred %p;",
            f".reg .b32 %a<4>; .reg .{kind} %c<{counts['c']}>;",
            "mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r3, image;",
            f"mad.lo.u32 %r2, %r1, {size // 16}, %r0; mul.wide.u32 %at0, %r2, 16;",
            "ld.param.u64 %at8, [s]; add.u64 %at0, %at0, %at8; mad.lo.u32 %r2, %r0, 16, %r3;",
        ]
        for at in range(0, size, _COPIED_BYTES):
            lines.append(f"ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%at0+{at}];")
            lines.append(f"st.shared.v4.b32 [%r2+{at}], {{%v0, %v1, %v2, %v3}};")
        for place, name in enumerate("acd"):
            count = counts.get(name, counts["c"])
            lines += [
                f"mad.lo.u32 %r2, %r1, {128 * count}, %r0; mul.wide.u32 %at{place}, %r2, 4;",
                f"ld.param.u64 %at8, [{name}]; add.u64 %at{place}, %at{place}, %at8;",
            ]
        for place, name in enumerate("ac"):
            of = "b32" if name == "a" else kind
            for n in range(counts[name]):
                lines.append(f"ld.global.{of} %{name}{n}, [%at{place}+{512 * n}];")
        lines += [
            "shr.u32 %r3, %r3, 4; cvt.u64.u32 %at8, %r3;",
            f"add.u64 %desc0, %at8, {self.descriptor('a'):#x};",
            f"add.u64 %desc1, %at8, {self.descriptor('b') + (self.image_bytes('a') >> 4):#x};",
            f"setp.ne.u32 %p, {int(self.adds)}, 0;",
            "fence.proxy.async; bar.sync 0; wgmma.fence.sync.aligned;",
            f"{self._instruction()};",
            "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        ]
        lines += [f"st.global.{kind} [%at2+{512 * n}], %c{n};" for n in range(counts["c"])]
        return "\n".join([*lines, "ret; }"])

    def _instruction(self) -> str:
        sums = "{" + ", ".join(f"%c{n}" for n in range(self.registers("c"))) + "}"
        first = "%desc0" if self.a_in_shared else "{%a0, %a1, %a2, %a3}"
        extra = ".satfinite" * self.saturates + ".and.popc" * (self.a == "b1")
        flags = ["%p"]
        if self.has_flags:
            flags += ["-1" if negated else "1" for negated in (self.a_negated, self.b_negated)]
        if self.a in ("f16", "bf16"):
            flags += [str(int(self.a_turned))] * self.a_in_shared + [str(int(self.b_turned))]
        shape = f"m64n{self.n}k{self.k}.{self.total}.{self.a}.{self.b}{extra}"
        return f"wgmma.mma_async.sync.aligned.{shape} {sums}, {first}, %desc1, {', '.join(flags)}"


_FLOATS: Final = (
    *(("f32", "f16", "f16"), ("f16", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32")),
    *((total, a, b) for total in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
)
_WHOLE: Final = (*(("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")), ("s32", "b1", "b1"))


def _forms() -> tuple[GroupForm, ...]:
    found = []
    for n, (types, in_shared) in enumerate(product((*_FLOATS, *_WHOLE), (True, False))):
        swizzle = (1, 0, 2, 3)[n % 4]
        found.append(GroupForm((8, 48, 16, 24)[n % 4], *types, in_shared, swizzle))
        signs = types[0] != "s32"
        minus = (signs and n % 2 == 0 and in_shared, signs and n % 3 != 0)
        found.append(GroupForm(8, *types, in_shared, (swizzle + 1) % 4, False, False, *minus, adds=False))
    for types, swizzle in product((("f32", "f16", "f16"), ("f32", "bf16", "bf16")), range(4)):
        for turned in ((True, False), (False, True), (True, True)):
            found.append(GroupForm(80, *types, True, swizzle, *turned))
        found.append(GroupForm(128, *types, False, swizzle, False, True))
    for swizzle in (1, 2):
        found.append(GroupForm(32, "f32", "f16", "f16", True, swizzle, inside=32))
    found.append(GroupForm(256, "f32", "f16", "f16", True, 1))
    found.append(GroupForm(256, "f16", "e4m3", "e5m2", False, 1))
    found += [GroupForm(16, "s32", a, "s8", True, 2, saturates=True) for a in ("s8", "u8")]
    return tuple(found)


GROUP_FORMS: Final = _forms()
