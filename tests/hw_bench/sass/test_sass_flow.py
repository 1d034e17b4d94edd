"""Basic blocks, dominators and loops: against nvdisasm's own graph, and against their definitions on
random graphs."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disassembler_graph import parse_flow_edges
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass import ControlFlow, Function, Operand, Predicate, SassInstruction, parse_listing

LISTINGS = Path(__file__).parent / "listings"


def edges(flow: ControlFlow) -> set[tuple[int, int]]:
    """(address, next address) of all instructions that can be reached."""
    code = [i for block in flow.reachable for i in flow.blocks[block].instructions]
    return {(i.address, after.address) for i in code for after in flow.following(i)}


@pytest.mark.parametrize("architecture", ["sm_70", "sm_90"])
def test_edges_agree_with_the_disassembler(architecture: str) -> None:
    (function,) = parse_listing((LISTINGS / f"nested.{architecture}.sass").read_text())
    theirs = parse_flow_edges((LISTINGS / f"nested.{architecture}.dot").read_text())["nested"]
    flow = ControlFlow(function)
    assert theirs <= edges(flow)
    # What they do not list is the way on inside their blocks.
    assert all(after - before == 16 for before, after in edges(flow) - theirs)


def test_the_nested_loops_are_found() -> None:
    (function,) = parse_listing((LISTINGS / "nested.sm_90.sass").read_text())
    flow = ControlFlow(function)
    outer, inner = flow.loops
    assert (outer.depth, outer.parent) == (1, None)
    assert (inner.depth, inner.parent) == (2, outer.header)
    assert inner.blocks < outer.blocks
    (atomic,) = function.find("ATOMS")
    assert flow.innermost_loop(flow.block_of(atomic.address).index) == inner
    assert atomic in flow.loop_instructions(inner)
    assert all(i.opcode != "BAR" for i in flow.loop_instructions(outer))


def _function(targets: list[list[int]]) -> Function:
    """A function of one two-instruction block for each entry, which jumps to one place, two, or none."""
    code = []
    for block, onward in enumerate(targets):
        address = 32 * block
        if not onward:
            code += [SassInstruction(address, "NOP"), SassInstruction(address + 16, "EXIT")]
            continue
        guard = Predicate("P0") if len(onward) == 2 else None
        jump = Operand(hex(32 * onward[0]))
        code.append(SassInstruction(address, "BRA", (jump,), guard))
        code.append(SassInstruction(address + 16, "BRA", (Operand(hex(32 * onward[-1])),)))
    return Function("random", "sm_90", tuple(code))


graphs = st.integers(1, 9).flatmap(
    lambda size: st.lists(st.lists(st.integers(0, size - 1), max_size=2), min_size=size, max_size=size)
)


@given(graphs)
def test_dominators_and_loops_are_what_their_definitions_say(targets: list[list[int]]) -> None:
    flow = ControlFlow(_function(targets))
    count = len(flow.blocks)

    def reached(without: int | None) -> set[int]:
        seen: set[int] = set()
        waiting = [0] if without != 0 else []
        while waiting:
            block = waiting.pop()
            if block not in seen and block != without:
                seen.add(block)
                waiting.extend(flow.blocks[block].successors)
        return seen

    everything = reached(None)
    assert flow.reachable == everything
    for first in everything:
        cut_off = everything - reached(first)
        assert {second for second in everything if flow.dominates(first, second)} == cut_off
    back = {
        (block, after)
        for block in everything
        for after in flow.blocks[block].successors
        if flow.dominates(after, block)
    }
    assert {loop.header for loop in flow.loops} == {header for _, header in back}
    for loop in flow.loops:
        assert set(loop.latches) == {block for block, header in back if header == loop.header}
        assert all(flow.dominates(loop.header, block) for block in loop.blocks)
        inside = [b for b in loop.blocks if b != loop.header]
        assert all(p in loop.blocks for b in inside for p in flow.blocks[b].predecessors if p in everything)
    assert count == len({block.start for block in flow.blocks})


def test_a_cycle_of_two_entries_is_no_natural_loop() -> None:
    # 0 -> 1 or 2; 1 <-> 2: a cycle with two entries.
    flow = ControlFlow(_function([[1, 2], [2], [1]]))
    assert flow.loops == ()


def test_conditional_ends_and_local_calls() -> None:
    code = (
        SassInstruction(0, "EXIT", (), Predicate("P0")),
        SassInstruction(16, "CALL.REL.NOINC", (Operand("`(.L_x_1)"),), Predicate("P3")),
        SassInstruction(32, "CALL.REL.NOINC", (Operand("`($f$__internal_0)"),)),
        SassInstruction(48, "BRA.DIV", (Operand("UR4"), Operand("`(.L_x_1)"))),
        SassInstruction(64, "NOP"),
        SassInstruction(80, "RET.REL.NODEC", (Operand("R4"),)),
        SassInstruction(96, "NOP"),
    )
    flow = ControlFlow(Function("f", "sm_80", code, {".L_x_1": 64, "$f$__internal_0": 96}))
    assert [str(i) for i in flow.calls] == ["CALL.REL.NOINC `($f$__internal_0)"]
    assert edges(flow) == {(0, 16), (16, 64), (16, 32), (32, 48), (48, 64), (64, 80)}


def test_a_branch_into_nowhere_is_refused() -> None:
    code = (SassInstruction(0, "BRA", (Operand("`(.L_x_9)"),)), SassInstruction(16, "EXIT"))
    with pytest.raises(SmlabError, match=r"0x0: branches to an unknown place"):
        ControlFlow(Function("f", "sm_80", code))


def test_blocks_follow_each_other_without_gaps() -> None:
    (function,) = parse_listing((LISTINGS / "nested.sm_70.sass").read_text())
    blocks = ControlFlow(function).blocks
    assert [i for block in blocks for i in block.instructions] == list(function.instructions)
    assert all(before.instructions[-1].address < after.start for before, after in pairwise(blocks))


def test_a_jump_by_a_table_goes_where_the_disassembler_notes() -> None:
    targets = Operand('R6 -0x40                (*"BRANCH_TARGETS .L_x_1,.L_x_2"*)')
    rest = (SassInstruction(16, "NOP"), SassInstruction(32, "EXIT"), SassInstruction(48, "EXIT"))
    for operand, known in ((targets, {(0, 16), (0, 32), (16, 32)}), (Operand("R6 -0x40"), set())):
        code = (SassInstruction(0, "BRX", (operand,)), *rest)
        flow = ControlFlow(Function("f", "sm_70", code, {".L_x_1": 16, ".L_x_2": 32}))
        assert {edge for edge in edges(flow) if edge[0] in (0, 16)} == known
        assert bool(flow.indirect) == (operand is not targets)
