"""Shared memory in stages: tiles that are loaded ahead, the next one into registers while this one is used,
and buffers that change roles from round to round."""

from __future__ import annotations

import itertools
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


def buffers_in_turn(parsed: ParsedKernel) -> Iterator[SourceRewrite]:
    """Rounds between barriers with buffers that change roles, so that a round has one barrier: in place of
    copies from buffer to buffer (``a[i] = b[i]; barrier; b[i] = c[i]; barrier;``), or of a barrier between
    what all threads read and what they write."""
    for loop in walk(parsed.body):
        body = loop.child_by_field_name("body") if loop.type in ("for_statement", "while_statement") else None
        if body is None or body.type != "compound_statement":
            continue
        statements = [s for s in body.named_children if s.type != "comment"]
        syncs = [n for n, s in enumerate(statements) if parsed.of(s).replace(" ", "") == SYNC]
        if len(syncs) < 2 or syncs[-1] != len(statements) - 1:
            continue
        if re.search(r"\b(?:break|continue|return)\b", parsed.of(body)):
            continue
        copies = [(n, found) for n, s in enumerate(statements) if (found := _copy(parsed, s)) is not None]
        chain = [found[0] for _, found in copies] + [found[1] for _, found in copies[-1:]]
        places = {found[2] for _, found in copies}
        linked = all(one[1] == next_[0] for (_, one), (_, next_) in itertools.pairwise(copies))
        if copies and linked and len(places) == 1 and len(set(chain)) == len(chain):
            first = copies[0][0]
            dropped = [s for n, s in enumerate(statements) if n >= first and (n in syncs or _copy(parsed, s))]
            if first - 1 in syncs and len(dropped) == len(statements) - first:
                edits = _rotated(parsed, loop, tuple(chain), dropped)
                if edits is not None:
                    told = f"{', '.join(chain)} change roles in place of copies at line {parsed.line(loop)}"
                    yield SourceRewrite("barrier", told, edits)
        elif not copies and len(syncs) == 2:
            yield from _read_and_written(parsed, loop, statements, syncs[0])


def _copy(parsed: ParsedKernel, statement: Any) -> tuple[str, str, str] | None:
    """Of ``a[i] = b[i];`` both arrays and the index."""
    found = re.fullmatch(r"(\w+)\s*\[([^][]+)\]\s*=\s*(\w+)\s*\[([^][]+)\]\s*;", parsed.of(statement))
    return (found[1], found[3], found[2]) if found is not None and found[2] == found[4] else None


def _read_and_written(
    parsed: ParsedKernel, loop: Any, statements: list[Any], sync: int
) -> Iterator[SourceRewrite]:
    """Arrays that are read before the first barrier of a round alone, and written behind it alone."""
    at = statements[sync].start_byte
    targets: dict[str, list[Any]] = {}
    for n in walk(loop.child_by_field_name("body")):
        if n.type != "identifier" or n.parent.type != "subscript_expression":
            continue
        assigned = n.parent.parent.type == "assignment_expression"
        if assigned and n.parent.parent.child_by_field_name("left") == n.parent:
            if n.start_byte < at or n.parent.parent.child_by_field_name("operator").type != "=":
                return
            targets.setdefault(parsed.of(n), []).append(n)
    written = [name for name in targets if _shared_of(parsed, name) is not None]
    late = [n for n in walk(loop.child_by_field_name("body")) if n.type == "identifier" and n.start_byte > at]
    if not written or any(parsed.of(n) in written and n not in targets[parsed.of(n)] for n in late):
        return
    edits: list[TextEdit] = []
    for name in written:
        mine = _rotated(parsed, loop, (name, f"smlab_other_{name}"), [])
        if mine is None:
            return
        edits += mine
        edits += [TextEdit(n.start_byte, n.end_byte, f"smlab_other_{name}") for n in targets[name]]
    edits.append(TextEdit(at, statements[sync].end_byte, ";"))
    told = f"{', '.join(written)} twice, read and written in turn at line {parsed.line(loop)}"
    yield SourceRewrite("barrier", told, tuple(edits))


def _shared_of(parsed: ParsedKernel, name: str) -> tuple[Any, Any, str, str] | None:
    """The declaration of a shared array of one axis, its declarator, its type and its size."""
    for node in walk(parsed.body):
        if node.type != "declaration" or "__shared__" not in parsed.of(node):
            continue
        for one in node.children_by_field_name("declarator"):
            inner = one.child_by_field_name("declarator") if one.type == "array_declarator" else None
            if inner is not None and inner.type == "identifier" and parsed.of(inner) == name:
                size = parsed.of(one.child_by_field_name("size"))
                return node, inner, parsed.of(node.child_by_field_name("type")), size
    return None


def _rotated(
    parsed: ParsedKernel, loop: Any, names: tuple[str, ...], dropped: list[Any]
) -> tuple[TextEdit, ...] | None:
    """Buffers as pointers that move on by one at the end of a loop's round, without the statements that are
    ``dropped``. The last one begins as a copy of the one before it, and is made where there is none."""
    edits = [TextEdit(s.start_byte, s.end_byte, "") for s in dropped]
    for name in names:
        found = _shared_of(parsed, name)
        made = found or _shared_of(parsed, names[0])
        if made is None:
            return None
        declared, inner, element, size = made
        behind = f" {element} *{name} = smlab_in_{name};"
        if found is None:
            behind = f" __shared__ {element} smlab_in_{name}[{size}];{behind}"
        else:
            edits.append(TextEdit(inner.start_byte, inner.end_byte, f"smlab_in_{name}"))
        edits.append(TextEdit(declared.end_byte, declared.end_byte, behind))
    shared = _shared_of(parsed, names[0])
    assert shared is not None
    begin, end, last = parsed.begin_of(loop), loop.child_by_field_name("body").end_byte - 1, names[-1]
    copied = (
        f"{SYNC} for (int smlab_k = threadIdx.x; smlab_k < {shared[3]}; smlab_k += blockDim.x)"
        f" {last}[smlab_k] = {names[-2]}[smlab_k]; {SYNC}\n"
    )
    moved = "".join(f" {a} = {b};" for a, b in itertools.pairwise(names))
    turn = f" {{ auto smlab_oldest = {names[0]};{moved} {last} = smlab_oldest; }} "
    return (*edits, TextEdit(begin, begin, copied), TextEdit(end, end, turn))
