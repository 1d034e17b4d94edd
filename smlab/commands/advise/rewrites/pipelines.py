"""Tiles of shared memory that are loaded ahead: the next one into registers while this one is used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from smlab.commands.advise.rewrites.parsed import (
    SYNC,
    CountedLoop,
    ParsedKernel,
    SourceRewrite,
    TextEdit,
    counted,
    walk,
)
from smlab.commands.advise.rewrites.tiles import expanded


def prefetched_tiles(parsed: ParsedKernel) -> Iterator[SourceRewrite]:
    """``for (...) { tile[..] = p[..]; barrier; use; barrier; }`` with the next round's loads before the use;
    then with two tiles in turn too, so that the second barrier is needless."""
    for loop in walk(parsed.body):
        header = counted(parsed, loop)
        if header is not None and header.body.type == "compound_statement":
            yield from _prefetched(parsed, loop, header)


def _prefetched(parsed: ParsedKernel, loop: Any, header: CountedLoop) -> Iterator[SourceRewrite]:
    statements = [s for s in header.body.named_children if s.type != "comment"]
    syncs = [n for n, s in enumerate(statements) if parsed.of(s).replace(" ", "") == SYNC]
    if not syncs or len(syncs) > 2 or re.search(r"\b(?:break|continue|return)\b", parsed.of(header.body)):
        return
    before, last = statements[: syncs[0]], len(syncs) == 2 and syncs[1] == len(statements) - 1
    stores = [s for s in before if s.type == "expression_statement"]
    loads = [found for s in stores if (found := _store(parsed, s)) is not None]
    if (
        not loads
        or len(loads) != len(stores)
        or any(s.type not in ("declaration", "expression_statement") for s in before)
    ):
        return
    following = f"({header.name} + ({header.step}))"
    prefetches, moved, edits = [], "", []
    for n, (array, value) in enumerate(loads):
        inside = parsed.changed_in(header.body)
        begun = expanded(parsed, value, {header.name: f"({header.begin})"}, "")
        later = expanded(parsed, value, {header.name: following}, "")
        if begun is None or later is None or array in parsed.names_in(value):
            return
        kept = parsed.names_in(value) - {header.name}
        if any(name in inside and not _is_expanded(parsed, name) for name in kept):
            return
        prefetches.append(f"auto smlab_next{n} = {begun};")
        moved += f" smlab_next{n} = {later};"
        edits.append(TextEdit(value.start_byte, value.end_byte, f"smlab_next{n}"))
    sync, begin = statements[syncs[0]], parsed.begin_of(loop)
    edits += [
        TextEdit(sync.end_byte, sync.end_byte, f" if ({following} < {header.limit}) {{{moved} }}"),
        TextEdit(begin, begin, f"{{ {' '.join(prefetches)}\n"),
        TextEdit(loop.end_byte, loop.end_byte, " }"),
    ]
    arrays = tuple(dict.fromkeys(array for array, _ in loads))
    told = f"{', '.join(arrays)} of the next round at line {parsed.line(loop)} loaded before this one is used"
    yield SourceRewrite("loads-ahead", told, tuple(edits))
    doubled = _twice(parsed, loop, arrays)
    if last and doubled is not None:
        end = statements[syncs[1]]
        turn = TextEdit(end.start_byte, end.end_byte, "smlab_turn ^= 1;")
        turned = TextEdit(begin, begin, f"{{ {' '.join(prefetches)} int smlab_turn = 0;\n")
        kept_edits = [edit for edit in edits if edit.first != begin]
        yield SourceRewrite(
            "loads-ahead", f"{told}, in two tiles in turn", (*kept_edits, turn, turned, *doubled)
        )


def _store(parsed: ParsedKernel, statement: Any) -> tuple[str, Any] | None:
    """Of ``tile[..] = value`` the shared array and the value."""
    node = statement.named_children[0]
    if node.type != "assignment_expression" or node.child_by_field_name("operator").type != "=":
        return None
    target = node.child_by_field_name("left")
    if target.type != "subscript_expression":
        return None
    while target.type == "subscript_expression":
        target = target.child_by_field_name("argument")
    array, value = parsed.of(target), node.child_by_field_name("right")
    shared = re.search(rf"__shared__[^;]*\b{array}\s*\[", parsed.of(parsed.body)) is not None
    loads = any(n.type == "subscript_expression" for n in walk(value))
    return (array, value) if shared and loads else None


def _is_expanded(parsed: ParsedKernel, name: str) -> bool:
    """Whether a name stands for what it was declared as."""
    assigned = rf"\b{name}\s*(?:[-+*/%|&^]|<<|>>)?=(?!=)|\b{name}\s*(?:\+\+|--)|(?:\+\+|--)\s*{name}\b"
    return len(re.findall(assigned, parsed.of(parsed.body))) == 1


def _twice(parsed: ParsedKernel, loop: Any, arrays: tuple[str, ...]) -> list[TextEdit] | None:
    """The arrays with two tiles, of which the loop uses one in turn; None where others use them."""
    edits = []
    for n in walk(parsed.body):
        if n.type != "identifier" or parsed.of(n) not in arrays:
            continue
        if n.parent.type == "array_declarator":
            edits.append(TextEdit(n.end_byte, n.end_byte, "[2]"))
        elif loop.start_byte <= n.start_byte < loop.end_byte and n.parent.type == "subscript_expression":
            edits.append(TextEdit(n.end_byte, n.end_byte, "[smlab_turn]"))
        else:
            return None
    return edits
