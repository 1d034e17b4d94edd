"""The disassembly reader, on listings of a kernel of our own (see ``listings/README.md``)."""

import contextlib
import time
from pathlib import Path

import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass import ControlCode, Function, Operand, Predicate, SassInstruction, parse_listing
from smlab.hw_bench.sass.listing import split_operands

LISTINGS = Path(__file__).parent / "listings"
ARCHITECTURES = ("sm_70", "sm_90")


def _nested(architecture: str) -> Function:
    (function,) = parse_listing((LISTINGS / f"nested.{architecture}.sass").read_text())
    return function


@pytest.fixture(params=ARCHITECTURES)
def nested(request: pytest.FixtureRequest) -> Function:
    return _nested(request.param)


def test_a_listing_gives_every_instruction_with_its_place(nested: Function) -> None:
    assert nested.name == "nested"
    assert nested.architecture in ARCHITECTURES
    assert [i.address for i in nested.instructions] == [16 * k for k in range(64)]
    assert all(i.words is not None for i in nested.instructions)
    assert nested.labels[".text.nested"] == 0
    assert {name: len(nested.find(name)) for name in ("ATOMS.ADD", "ATOMS", "BAR.SYNC", "EXIT", "SHFL")} == {
        "ATOMS.ADD": 1,
        "ATOMS": 1,
        "BAR.SYNC": 2,
        "EXIT": 1,
        "SHFL": 0,  # the one of Volta's prologue is guarded by @!PT and never executes
    }


def test_volta_prologue_has_an_instruction_that_never_executes() -> None:
    dead = [i for i in _nested("sm_70").instructions if i.never_executed]
    assert dead
    assert all(i.predicate == Predicate("PT", negated=True) for i in dead)


def test_instructions_keep_their_source_line(nested: Function) -> None:
    (atomic,) = nested.find("ATOMS")
    assert atomic.source is not None
    assert (atomic.source.file, atomic.source.line, atomic.source.inlined_at) == (
        "kernels/nested.py",
        16,
        None,
    )
    assert all(i.source is not None and 4 <= i.source.line <= 20 for i in nested.instructions)


def test_inlined_lines_chain_outward() -> None:
    text = "\n".join(
        (
            '\t.section\t.text.f,"ax",@progbits',
            '\t//## File "inner.py", line 3 inlined at "outer.py", line 30',
            '\t//## File "outer.py", line 30',
            "        /*0000*/                   EXIT ;",
        )
    )
    (function,) = parse_listing(text)
    source = function.instructions[0].source
    assert source is not None
    assert (source.file, source.line) == ("inner.py", 3)
    assert (source.outermost.file, source.outermost.line) == ("outer.py", 30)


def test_control_codes_agree_with_the_printed_reuse_flags(nested: Function) -> None:
    for instruction in nested.instructions:
        assert instruction.control is not None
        printed = any(operand.reused for operand in instruction.operands)
        assert printed == (instruction.control.reuse != 0), str(instruction)


def test_control_code_fields() -> None:
    # Stall 13, no yield hint bit (so it yields), write barrier 2, no read barrier, waits for barriers 0 and
    # 3, one reuse.
    code = 13 | 0 << 4 | 2 << 5 | 7 << 8 | 0b001001 << 11 | 1 << 17
    control = ControlCode.decode(code << 41)
    assert control == ControlCode(13, True, 2, None, 0b001001, 1)
    assert control.waits_for(0)
    assert control.waits_for(3)
    assert not control.waits_for(1)
    assert str(control) == "0--3--:-:2:Y:13"


def test_the_load_sets_the_barrier_that_its_first_use_waits_for(nested: Function) -> None:
    load = next(i for i in nested.instructions if i.opcode == "LDG")
    assert load.control is not None
    assert load.control.write_barrier is not None
    target = load.operands[0].registers[0]
    behind = [i for i in nested.instructions if i.address > load.address]
    user = next(i for i in behind if any(target in operand.registers for operand in i.operands))
    assert user.control is not None
    assert user.control.waits_for(load.control.write_barrier)


@pytest.mark.parametrize(
    ("text", "kind", "registers"),
    [
        ("R4", "register", ("R4",)),
        ("-R4.reuse", "register", ("R4",)),
        ("|R2|", "register", ("R2",)),
        ("~R15", "register", ("R15",)),
        ("UR7", "register", ("UR7",)),
        ("RZ", "register", ("RZ",)),
        ("!P0", "predicate", ()),
        ("PT", "predicate", ()),
        ("UP1", "predicate", ()),
        ("SB0", "barrier", ()),
        ("B1", "barrier", ()),
        ("SR_CLOCKLO", "special", ()),
        ("SRZ", "special", ()),
        ("0x7f", "immediate", ()),
        ("-3", "immediate", ()),
        ("-1.5", "immediate", ()),
        ("+INF", "immediate", ()),
        ("c[0x0][0x28]", "constant", ()),
        ("[R2+UR5+0x10]", "memory", ("R2", "UR5")),
        ("desc[UR6][R4.64+-0x4000]", "memory", ("UR6", "R4")),
        ("`(.L_x_3)", "label", ()),
    ],
)
def test_operands_have_a_kind(text: str, kind: str, registers: tuple[str, ...]) -> None:
    operand = Operand(text)
    assert operand.kind == kind
    assert operand.registers == registers


def test_operands_split_outside_of_brackets_only() -> None:
    assert [o.text for o in split_operands("P0, R2, c[0x0][0x4], {R1, R2}, 0x8 &wr=0x0 ?trans1")] == [
        "P0",
        "R2",
        "c[0x0][0x4]",
        "{R1, R2}",
        "0x8",
    ]
    assert split_operands("") == ()


def test_names_are_compared_part_by_part() -> None:
    spin = SassInstruction(0, "ATOMS.CAST.SPIN")
    assert spin.is_a("ATOMS")
    assert spin.is_a("ATOMS.CAST")
    assert not spin.is_a("ATOMS.CAS")
    assert spin.modifiers == ("CAST", "SPIN")


def test_a_listing_that_breaks_off_is_refused() -> None:
    lines = (LISTINGS / "nested.sm_90.sass").read_text().splitlines()
    at = next(k for k, line in enumerate(lines) if "ATOMS" in line)
    with pytest.raises(SmlabError, match="ends in the middle of an instruction"):
        parse_listing("\n".join(lines[: at + 1]))
    with pytest.raises(SmlabError, match=f"line {at + 2}: an instruction's second word is missing"):
        parse_listing("\n".join([*lines[: at + 1], *lines[at + 2 :]]))


def test_addresses_must_ascend() -> None:
    text = '\t.section\t.text.f,"ax"\n  /*0010*/  NOP ;\n  /*0010*/  EXIT ;\n'
    with pytest.raises(SmlabError, match="line 3: addresses must ascend"):
        parse_listing(text)


def test_blanks_take_time_in_proportion() -> None:
    """A pattern that tries each blank as a beginning would take minutes for one of these lines."""
    text = (LISTINGS / "nested.sm_70.sass").read_text()
    blanks = " " * 500_000
    began = time.process_time()
    for more in (
        f"{blanks}x\n",
        f"/*0000*/{blanks}x\n",
        f"        /*0000*/   {blanks};{blanks}x\n",
        f"{blanks}/*{blanks}\n",
    ):
        with contextlib.suppress(SmlabError):
            parse_listing(text + more)
    ended = text.replace(" EXIT ", f" EXIT{blanks}", 1)
    assert ended != text
    with contextlib.suppress(SmlabError):
        parse_listing(ended)
    assert time.process_time() - began < 10
