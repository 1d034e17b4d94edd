"""The table's rows for products of matrices on tensor cores, and for moving matrices between shared memory
and registers.

Products: HMMA (halves, bfloat16, TF32; Volta's in steps), IMMA (bytes, nibbles), BMMA (bits), DMMA (doubles)
and QMMA (8, 6 and 4 bits): what PTX's ``mma.sync`` compiles to; HGMMA, QGMMA, IGMMA and BGMMA: those of a
group of four warps, PTX's ``wgmma``. QMMA.SF and OMMA.SF multiply each block of 32 or 16 elements by a scale
(OMMA: floats of 4 bits, two in a byte). Sparse products are refused by name.
"""

from __future__ import annotations

import re
from typing import Final

from smlab.sim.isa import matrix_products as mp
from smlab.sim.isa.decode.memory import wide
from smlab.sim.isa.decode.micro import only, opcode
from smlab.sim.isa.decode.operands import Operands, Source, Unknown, register_offset
from smlab.sim.isa.operation_codes import (
    AWAIT_PRODUCTS,
    EMPTY_GROUP,
    LOAD_MATRIX,
    MMA,
    MMA_GROUP,
    MMA_QUADS,
    MMA_SCALED,
    NOP,
    SHARED,
    STORE_MATRIX,
    TRANSPOSE,
)

_REGISTER: Final = re.compile(r"(U?)R(\d+|Z)")
_SHAPE: Final = re.compile(r"(8|16)x?8x?(4|8|16|32|64|128|256)")
_BYTES_TYPES: Final = {"S8": (mp.BYTES, 1), "U8": (mp.BYTES, 0), "S4": (mp.NIBBLES, 1), "U4": (mp.NIBBLES, 0)}
_SMALL_TYPES: Final = {"E5M2": mp.E5M2, "E4M3": mp.E4M3, "E3M2": mp.E3M2, "E2M3": mp.E2M3, "E2M1": mp.E2M1}
Fields = tuple[int, dict[str, int]]


def _registers(o: Operands) -> dict[str, int]:
    """The result and the three matrices, all in registers."""
    o.texts[:] = [text.replace(".ROW", "").replace(".COL", "") for text in o.texts]
    fields = {"dst": o.destination(), **o.integer("a"), **o.integer("b"), **o.integer("c")}
    if not all(fields[f"{name}_reg"] for name in "abc") or any(fields.get(f"{n}_xor") for n in "abc"):
        raise Unknown("its operands")
    return fields


def _check_form(m: tuple[str, ...], *known: str) -> None:
    """Refuse the variants that no row has, by name, and other modifiers behind the shape."""
    if "SP" in m[:2]:
        raise Unknown("a sparse product")
    only(m[1:], *known)


def _shape(m: tuple[str, ...], element: int) -> dict[str, int]:
    """The rows of the first matrix by eight, and the depth by four registers."""
    match = _SHAPE.fullmatch(m[0])
    columns = 4 * mp.PER_REGISTER[element]
    if match is None or int(match[2]) % columns:
        raise Unknown(f"the shape {m[0]}")
    return {"row_groups": int(match[1]) // 8, "k_steps": int(match[2]) // columns}


def _floating(o: Operands, m: tuple[str, ...], elements: tuple[int, int], total: int) -> Fields:
    a, b = elements
    arithmetic = mp.sum_arithmetic(o.compute_capability, a, total)
    if arithmetic.fraction_bits < mp.SHORT_SUM_BITS + 1 and total == mp.SINGLE_SUM:
        total = mp.SHORT_SUM
    return MMA, {
        **_registers(o),
        **_shape(m, a),
        "element_type": a,
        "b_element_type": b,
        "sum_type": total,
        "group": arithmetic.group,
        "fraction_bits": arithmetic.fraction_bits,
        "zero_exponent": arithmetic.zero_exponent,
    }


@opcode("HMMA", cls="tensor")
def _hmma(o: Operands, m: tuple[str, ...]) -> Fields:
    if m[0] == "884":
        return _quads(o, m[1:])
    _check_form(m, "F32", "F16", "BF16", "TF32")
    element = mp.BFLOAT16 if "BF16" in m else mp.TF32 if "TF32" in m else mp.HALVES
    return _floating(o, m, (element, element), mp.SINGLE_SUM if "F32" in m else mp.HALF_SUM)


def _quads(o: Operands, m: tuple[str, ...]) -> Fields:
    """A step of Volta's product: four products of 8 x 8 x 4, each by two quads of lanes."""
    only(m, "F32", "F16", "STEP0", "STEP1", "STEP2", "STEP3")
    if len(m) != 3 or m[0] != m[1]:
        raise Unknown(f"the form {'.'.join(m)}")
    total = mp.SINGLE_SUM if m[0] == "F32" else mp.HALF_SUM
    arithmetic = mp.sum_arithmetic(o.compute_capability, mp.HALVES, total, quads=True)
    order = [int(".COL" in text) for text in o.texts[1:3]]
    return MMA_QUADS, {
        **_registers(o),
        "sum_type": total,
        "step": int(m[2].removeprefix("STEP")),
        "a_by_columns": order[0],
        "b_by_rows": 1 - order[1],
        "fraction_bits": arithmetic.fraction_bits,
        "zero_exponent": arithmetic.zero_exponent,
    }


@opcode("QMMA", cls="tensor")
def _qmma(o: Operands, m: tuple[str, ...]) -> Fields:
    if m[0] == "SF":
        return _small_with_scales(o, m[1:])
    _check_form(m, "F32", "F16", *_SMALL_TYPES)
    types = [_SMALL_TYPES[x] for x in m if x in _SMALL_TYPES]
    if len(types) != 2:
        raise Unknown(f"the form {'.'.join(m)}")
    total = mp.SINGLE_SUM if "F32" in m else mp.HALF_SUM
    return _floating(o, m, (types[0], types[1]), total)


def _small_with_scales(o: Operands, m: tuple[str, ...]) -> Fields:
    """A product of floats of 8, 6 and 4 bits, a scale for each row and column."""
    _check_form(m, "F32", "E8", *_SMALL_TYPES)
    types = [_SMALL_TYPES[x] for x in m if x in _SMALL_TYPES]
    if len(types) != 2 or m[0] != "16832" or "F32" not in m or m[-1] != "E8":
        raise Unknown(f"the form {'.'.join(m)}")
    _, fields = _floating(o, m, (types[0], types[1]), mp.SINGLE_SUM)
    return MMA_SCALED, {**fields, **_scales(o), "scale_blocks": 1, "scale_type": mp.E8_SCALES}


@opcode("OMMA", cls="tensor")
def _omma(o: Operands, m: tuple[str, ...]) -> Fields:
    """A product of floats of 4 bits, two or four scales for each row and column."""
    if m[0] != "SF":
        raise Unknown("a sparse product" if "SP" in m else f"the form {'.'.join(m)}")
    _check_form(m[1:], "F32", "E2M1", "E8", "UE4M3", "4X")
    blocks = 4 if "4X" in m else 2
    if m[1] != "16864" or m.count("E2M1") != 2 or "F32" not in m or ("E8" in m) == ("UE4M3" in m):
        raise Unknown(f"the form {'.'.join(m)}")
    rule = mp.SCALED_FOURS
    return MMA_SCALED, {
        **_registers(o),
        **_scales(o),
        **_shape(m[1:], mp.PACKED_E2M1),
        "element_type": mp.PACKED_E2M1,
        "b_element_type": mp.PACKED_E2M1,
        "sum_type": mp.SINGLE_SUM,
        "group": rule.group,
        "fraction_bits": rule.fraction_bits,
        "zero_exponent": rule.zero_exponent,
        "scale_blocks": blocks,
        "scale_type": mp.E8_SCALES if "E8" in m else mp.UE4M3_SCALES,
    }


def _scales(o: Operands) -> dict[str, int]:
    """The registers with the scales of rows and of columns, and the uniform one that says whose and which
    bytes of them count."""
    fields: dict[str, int] = {}
    for name, uniform in (("first_scales", False), ("second_scales", False), ("scale_choice", True)):
        text = o.text().removesuffix(".reuse")
        match = _REGISTER.fullmatch(text)
        if match is None or bool(match[1]) != uniform:
            raise Unknown(f"the operand {text}")
        fields |= {name: register_offset(uniform, match[2]), f"{name}_reg": -1}
    return fields


@opcode("DMMA", cls="tensor")
def _dmma(o: Operands, m: tuple[str, ...]) -> Fields:
    _check_form(m)
    return _whole(o, m, mp.DOUBLES, mp.DOUBLE_SUM)


@opcode("IMMA", cls="tensor")
def _imma(o: Operands, m: tuple[str, ...]) -> Fields:
    _check_form(m, *_BYTES_TYPES, "SAT")
    types = [_BYTES_TYPES[x] for x in m if x in _BYTES_TYPES]
    if len(types) != 2 or types[0][0] != types[1][0]:
        raise Unknown(f"the form {'.'.join(m)}")
    total = mp.SATURATED_SUM if "SAT" in m else mp.INTEGER_SUM
    code, fields = _whole(o, m, types[0][0], total)
    return code, {**fields, "is_signed": types[0][1], "b_is_signed": types[1][1]}


@opcode("BMMA", cls="tensor")
def _bmma(o: Operands, m: tuple[str, ...]) -> Fields:
    _check_form(m, "XOR", "AND", "POPC")
    if "POPC" not in m or ("XOR" in m) == ("AND" in m):
        raise Unknown(f"the form {'.'.join(m)}")
    return _whole(o, m, mp.BITS_XOR if "XOR" in m else mp.BITS_AND, mp.INTEGER_SUM)


def _whole(o: Operands, m: tuple[str, ...], element: int, total: int) -> Fields:
    """A product whose sums are whole numbers, or rounded one by one."""
    types = {"element_type": element, "b_element_type": element, "sum_type": total}
    return MMA, {**_registers(o), **_shape(m, element), **types}


_GROUP_SHAPE: Final = re.compile(r"64x(\d+)x(\d+)")
_DESCRIPTOR: Final = re.compile(r"gdesc\[UR(\d+|Z)\]((?:\.\w+)*)$")
PRODUCT_GROUP: Final = "gsb0"
"""How a product says that it is the last one of its warp's group of products, and what is waited for."""


@opcode("HGMMA", cls="tensor")
def _hgmma(o: Operands, m: tuple[str, ...]) -> Fields:
    _check_form(m, "F32", "F16", "BF16", "TF32")
    element = mp.BFLOAT16 if "BF16" in m else mp.TF32 if "TF32" in m else mp.HALVES
    return _floats_of_group(o, m, (element, element))


@opcode("QGMMA", cls="tensor")
def _qgmma(o: Operands, m: tuple[str, ...]) -> Fields:
    _check_form(m, "F32", "F16", "E5M2", "E4M3")
    types = [_SMALL_TYPES[x] for x in m if x in _SMALL_TYPES]
    if len(types) != 2:
        raise Unknown(f"the form {'.'.join(m)}")
    return _floats_of_group(o, m, (types[0], types[1]))


def _floats_of_group(o: Operands, m: tuple[str, ...], elements: tuple[int, int]) -> Fields:
    total = mp.SINGLE_SUM if "F32" in m else mp.HALF_SUM
    arithmetic = mp.sum_arithmetic(o.compute_capability, elements[0], total, of_group=True)
    if arithmetic.fraction_bits == mp.SHORT_SUM_BITS and total == mp.SINGLE_SUM:
        total = mp.SHORT_SUM
    rules = {
        "group": arithmetic.group,
        "fraction_bits": arithmetic.fraction_bits,
        "zero_exponent": arithmetic.zero_exponent,
    }
    return _of_group(o, m, elements, total, rules)


@opcode("IGMMA", cls="tensor")
def _igmma(o: Operands, m: tuple[str, ...]) -> Fields:
    _check_form(m, "S8", "U8", "SAT")
    types = [_BYTES_TYPES[x] for x in m if x in _BYTES_TYPES]
    if len(types) != 2:
        raise Unknown(f"the form {'.'.join(m)}")
    signs = {"is_signed": types[0][1], "b_is_signed": types[1][1]}
    total = mp.SATURATED_SUM if "SAT" in m else mp.INTEGER_SUM
    return _of_group(o, m, (mp.BYTES, mp.BYTES), total, signs)


@opcode("BGMMA", cls="tensor")
def _bgmma(o: Operands, m: tuple[str, ...]) -> Fields:
    _check_form(m, "AND", "POPC")
    if set(m[1:]) != {"AND", "POPC"}:
        raise Unknown(f"the form {'.'.join(m)}")
    return _of_group(o, m, (mp.BITS_AND, mp.BITS_AND), mp.INTEGER_SUM, {})


def _of_group(
    o: Operands, m: tuple[str, ...], elements: tuple[int, int], total: int, rules: dict[str, int]
) -> Fields:
    """A product of 64 rows by a group of four warps: each has 16 rows of the first matrix, in registers or
    in shared memory, and of the result. A descriptor stands for two: the second matrix's is in the pair of
    uniform registers behind the first one's, used or not."""
    match = _GROUP_SHAPE.fullmatch(m[0])
    columns = int(match[1]) if match else 0
    depth = mp.DEPTH_BYTES // 4 * mp.PER_REGISTER[elements[0]]
    if match is None or columns % 8 or not 8 <= columns <= 256 or int(match[2]) != depth:
        raise Unknown(f"the shape {m[0]}")
    o.texts[:] = [text.removesuffix(".reuse") for text in o.texts]
    closes = o.texts[-1] == PRODUCT_GROUP
    if closes:
        o.texts.pop()
    groups = {"joins_products": 1, "closes_products": int(closes)}
    result, dst = o.texts[0], o.destination()
    fields: dict[str, int] = {"a_in_shared": int(o.texts[1].startswith("gdesc")), **groups}
    if not fields["a_in_shared"]:
        fields |= o.integer("a")
    first, modifiers = _descriptor(o.text())
    fields |= {"a_turned": int("tnspA" in modifiers), "b_turned": int("tnspB" in modifiers)}
    if fields["a_in_shared"]:
        fields |= Source(register_offset(True, first), True).fields("a")
    if not fields["a_reg"] or (fields["a_xor"] and not fields["a_in_shared"]):
        raise Unknown("its operands")
    second = first if first == "Z" else str(int(first) + 2)
    fields |= Source(register_offset(True, second), True).fields("b")
    for name, element, sign in (("a", elements[0], "negA"), ("b", elements[1], "negB")):
        if sign in modifiers:
            fields[f"{name}_xor"] = mp.SIGNS[element]
        if fields[f"{name}_turned"] and element not in (mp.HALVES, mp.BFLOAT16):
            raise Unknown("a transposed matrix of elements that are not of 16 bits")
    before = o.text()
    never = before == "RZ"
    if o.more():
        fields |= o.predicate_in("predicate_sum")
        never &= o.texts[o.next - 1] == "!UPT"
    if before not in (result, "RZ") or (before == "RZ") != never:
        raise Unknown(f"the sum {before} for the result {result}")
    if result == "RZ":
        return EMPTY_GROUP, groups  # what is no product: an empty group of products is written so
    fields |= Source(dst, True).fields("c")
    return MMA_GROUP, {
        **fields,
        "dst": dst,
        "column_groups": columns // 8,
        "row_groups": 2,
        "k_steps": 2,
        "element_type": elements[0],
        "b_element_type": elements[1],
        "sum_type": total,
        **rules,
    }


def _descriptor(text: str) -> tuple[str, set[str]]:
    """The number of the uniform register that a pair of matrix descriptors begins with, and what is done to
    the matrices."""
    match = _DESCRIPTOR.match(text)
    if match is None:
        raise Unknown(f"the descriptor {text}")
    modifiers = set(match[2].split(".")) - {""}
    for modifier in modifiers - {"negA", "negB", "tnspA", "tnspB"}:
        raise Unknown(f"the modifier .{modifier} of the descriptor")
    return match[1], modifiers


@opcode("WARPGROUP", cls="control")
def _warpgroup(o: Operands, m: tuple[str, ...]) -> Fields:
    """Where a group of warps begins with products, or waits for groups of products."""
    if m[0] == "ARRIVE":
        only(m, "ARRIVE")
        return NOP, {}
    if m != ("DEPBAR", "LE") or o.text() != PRODUCT_GROUP:
        raise Unknown("what it waits for")
    o.byte()
    return AWAIT_PRODUCTS, {}


def _matrices(m: tuple[str, ...]) -> dict[str, int]:
    only(m, "16", "M88", "MT88", "2", "4")
    if m[0] != "16" or ("M88" in m) == ("MT88" in m):
        raise Unknown("the shape")
    return {"matrices": 4 if "4" in m else 2 if "2" in m else 1, "transposed": int("MT88" in m)}


@opcode("LDSM", cls="shared-load")
def _ldsm(o: Operands, m: tuple[str, ...]) -> Fields:
    fields = {"dst": o.destination(), **wide(o.address(), m, SHARED), "width_bytes": 16}
    return LOAD_MATRIX, {**fields, **_matrices(m)}


@opcode("STSM", cls="shared-store")
def _stsm(o: Operands, m: tuple[str, ...]) -> Fields:
    fields = {**wide(o.address(), m, SHARED), **o.integer("c"), "width_bytes": 16}
    return STORE_MATRIX, {**fields, **_matrices(m)}


@opcode("MOVM", cls="conversion")
def _movm(o: Operands, m: tuple[str, ...]) -> Fields:
    if m != ("16", "MT88"):
        raise Unknown(f"the form {'.'.join(m)}")
    return TRANSPOSE, {"dst": o.destination(), **o.integer("a")}
