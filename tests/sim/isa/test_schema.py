"""The schema of a micro-operation: each kind's fields, and that the decoder sets no others."""

from collections import Counter
from pathlib import Path

import pytest

from smlab.examples import KERNEL
from smlab.hw_bench.sass import parse_listing
from smlab.sim.isa import memory_layout, operation_codes
from smlab.sim.isa.decode.decode import OPCODES, decode
from smlab.sim.isa.decode.micro import MicroOperation, kind_of
from smlab.sim.isa.decode.operands import OperandRows
from smlab.sim.isa.meanings import vector_meanings
from smlab.sim.isa.vector_operation import VectorOperation, plain
from smlab.sim.isa.vectors import word_access

(LISTED,) = parse_listing(Path(KERNEL).read_text())
CODES = (*range(vector_meanings.VECTOR_CODES), *operation_codes.KINDS)


@pytest.mark.parametrize("kind", memory_layout.KINDS)
def test_no_two_fields_of_a_kind_share_a_word(kind: str) -> None:
    layout = memory_layout.KINDS[kind]
    assert len(set(layout.values())) == len(layout)
    assert all(
        0 <= word < memory_layout.WORDS and memory_layout.PLACE[name] == word for name, word in layout.items()
    )


def test_a_kind_whose_fields_share_a_word_is_refused() -> None:
    with pytest.raises(ValueError, match="share a word"):
        memory_layout._kind("relations", "truth_table")


def test_every_code_has_a_kind_and_every_kind_a_code() -> None:
    assert {kind_of(code) for code in CODES} == set(memory_layout.KINDS)


def test_every_field_belongs_to_a_kind() -> None:
    used = Counter(name for layout in memory_layout.KINDS.values() for name in layout)
    assert set(used) == set(memory_layout.PLACE)


def test_the_compiled_meaning_reads_fields_of_the_schema() -> None:
    constants = {name: value for name, value in vars(word_access).items() if name.startswith("I_")}
    assert len(constants) > 40
    assert all(memory_layout.PLACE[name[2:].lower()] == word for name, word in constants.items())


def test_a_field_of_another_kind_is_refused() -> None:
    instruction = LISTED.instructions[0]
    MicroOperation(
        instruction, operation_codes.LOAD, "global-load", {"dst": 0, "space": operation_codes.SHARED}
    )
    with pytest.raises(ValueError, match="sets relations: not a field of load"):
        MicroOperation(instruction, operation_codes.LOAD, "global-load", {"dst": 0, "relations": 1})


def test_a_meaning_that_reads_another_kinds_field_is_refused() -> None:
    with pytest.raises(ValueError, match="reads bank"):
        VectorOperation("mov", "i", "i", plain(lambda a, bank: a))
    with pytest.raises(ValueError, match="reads b"):
        VectorOperation("mov", "i", "i", plain(lambda a, b: a))


def test_fields_lie_where_the_schema_says() -> None:
    for micro in decode(LISTED, OperandRows(lambda bank, offset: 0)):
        assert micro.fields.keys() <= micro.layout.keys()
        lying = micro.words()
        assert lying[memory_layout.PLACE["code"]] == micro.code
        for name, value in micro.fields.items():
            assert lying[micro.layout[name]] == value, (micro.instruction, name)
        assert len(lying) == memory_layout.WORDS
    assert len(OPCODES) > 140
