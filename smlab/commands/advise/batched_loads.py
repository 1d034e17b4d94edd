"""A loop of CUDA C rewritten so that the loads of several rounds come before their uses.

``for (int i = a; i < n; i += s) use(p[i]);`` becomes rounds of four: first ``p[i]``, ``p[i + s]`` and so on
into registers, each where its round takes place, then the four uses. A compiler does not do so by itself
where an atomic or a store lies between. Rewritten are loads that each round makes from pointers to ``const``,
or from others that the text only reads through, whose index hangs on the counter alone. A limit that is
loaded, or called for, is told once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from smlab.commands.advise.source_loops import closed, code_of_text, statement_end

_NAME: Final = r"[A-Za-z_]\w*"
_WORD: Final = re.compile(_NAME)
_HEADER: Final = re.compile(
    rf"for\s*\(\s*(?P<type>(?:{_NAME}\s+)*)(?P<name>{_NAME})\s*=(?P<begin>[^;]*);"
    rf"\s*(?P=name)\s*(?P<than><=?)(?P<limit>[^;=]*);"
    rf"\s*(?:(?P=name)\s*\+\+|\+\+\s*(?P=name)|(?P=name)\s*\+=(?P<step>.*))\s*\)$",
    re.DOTALL,
)
_CONST: Final = (
    rf"(?:\bconst\s+(?P<before>(?:{_NAME}\s+)*{_NAME})|\b(?P<behind>(?:{_NAME}\s+)*?{_NAME})\s+const)"
    r"\s*\*\s*(?:(?:__restrict__|__restrict|const)\s+)*"
)
_POINTER: Final = (
    rf"\b(?P<element>(?:unsigned\s+|signed\s+|long\s+)*{_NAME})\s*\*\s*(?:(?:__restrict__|__restrict)\s+)*"
)
_BRANCH: Final = re.compile(r"\b(?:if|for|while|do|switch|break|return|goto)\b|\?|&&|\|\|")


@dataclass(frozen=True)
class _Read:
    """A load in a body: its place there, the type of its element, and its index."""

    first: int
    last: int
    element: str
    pointer: str
    index: str


def batched_loads(text: str, offset: int, rounds: int) -> tuple[str, tuple[str, ...]] | None:
    """The text with the loads of so many rounds first in the loop that begins at ``offset``, each line where
    it was, and these loads; None where the loop is none that this module rewrites."""
    code = code_of_text(text)
    opened = code.find("(", offset)
    behind = closed(code, opened) if opened > 0 else None
    end = statement_end(code, offset)
    header = None if behind is None else _HEADER.match(code, offset, behind)
    if header is None or behind is None or end is None:
        return None
    body, name, limit = code[behind:end], header["name"], header["limit"].strip()
    step = (header["step"] or "1").strip()
    if re.search(r"\b(?:break|return|goto)\b", body) or _changes(body, {name, *_words(limit), *_words(step)}):
        return None
    if name in _words(limit) or name in _words(step):
        return None
    reads = _reads(code, body, name)
    if not reads:
        return None
    here = "smlab_round"
    place = f"({name} + {here} * ({step}))"
    every = f'_Pragma("unroll") for (int {here} = 0; {here} < {rounds}; {here}++)'
    keys = list(dict.fromkeys((r.element, r.pointer, r.index) for r in reads))
    arrays = {key: f"smlab_batch{number}" for number, key in enumerate(keys)}
    loads = "".join(f" {arrays[key]}[{here}] = {key[1]}[{_renamed(key[2], name, place)}];" for key in keys)
    changed, last = "", 0
    original = text[behind:end]
    for read in reads:
        array = arrays[read.element, read.pointer, read.index]
        changed += _renamed(original[last : read.first], name, "smlab_index") + f"{array}[{here}]"
        last = read.last
    changed += _renamed(original[last:], name, "smlab_index")
    kind = f"{header['type'].strip()} " if header["type"].strip() else ""
    told_once = "[" in limit or "(" in limit
    before, ends = (f"{{ const auto smlab_limit = {limit}; ", " }") if told_once else ("", "")
    test = f"{header['than']} {'smlab_limit' if told_once else limit}"
    rewritten = (
        f"{before}for ({kind}{name} = {header['begin'].strip()}; {name} {test};"
        + f" {name} += {rounds} * ({step})) {{ "
        + " ".join(f"{key[0]} {arrays[key]}[{rounds}];" for key in keys)
        + f" {every} if ({place} {test}) {{{loads} }} {every} {{ const auto smlab_index = {place};"
        + f" if (smlab_index {test}) {changed} }} }}{ends}"
    )
    lines = text[offset:behind].count("\n")
    told = tuple(f"{pointer}[{index}]" for _, pointer, index in keys)
    return text[:offset] + "\n" * lines + rewritten + text[end:], told


def _reads(code: str, body: str, name: str) -> list[_Read]:
    """Loads that every round makes, from pointers to ``const``, by an index of the counter and of what the
    body does not change."""
    reads: list[_Read] = []
    for found in re.finditer(rf"\b({_NAME})\s*\[", body):
        if reads and found.start() < reads[-1].last:
            continue
        element = _element_of(code, found[1])
        end = closed(body, found.end() - 1)
        if element is None or end is None or _BRANCH.search(body[: found.start()]):
            continue
        index = body[found.end() : end - 1].strip()
        words = _words(index)
        if name in words and "[" not in index and "(" not in index and not _changes(body, words):
            reads.append(_Read(found.start(), end, element, found[1], index))
    return reads


def _element_of(code: str, pointer: str) -> str | None:
    """The type that a pointer to ``const`` points to, or one that the text does nothing with but to read its
    elements; None of another."""
    declared = re.search(_CONST + rf"{pointer}\b", code)
    if declared is not None:
        return declared["before"] or declared["behind"]
    declared = re.search(_POINTER + rf"{pointer}\b", code)
    if declared is None:
        return None
    for use in re.finditer(rf"\b{pointer}\b", code):
        if use.start() == declared.end() - len(pointer):
            continue
        behind = re.match(r"\s*\[", code[use.end() :])
        end = None if behind is None else closed(code, use.end() + behind.end() - 1)
        if end is None or re.match(r"\s*(?:(?:[-+*/%|&^]|<<|>>)?=(?!=)|\+\+|--|[.[])", code[end:]):
            return None
        if re.search(r"(?:(?<!&)&|\+\+|--)\s*$", code[: use.start()]):
            return None
    return declared["element"]


def _words(code: str) -> set[str]:
    return set(_WORD.findall(code))


def _changes(body: str, names: set[str]) -> bool:
    """Whether a body may change, or declare, one of these names."""
    for name in names:
        assigned = rf"\b{name}\s*(?:[-+*/%|&^]|<<|>>)?=(?!=)|\b{name}\s*(?:\+\+|--)|(?:\+\+|--|&)\s*{name}\b"
        if re.search(assigned, body):
            return True
    return False


def _renamed(text: str, name: str, other: str) -> str:
    return re.sub(rf"(?<![.\w])(?<!->){name}\b", other, text)
