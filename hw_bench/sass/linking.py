"""Functions of one module as one piece of code, as a loader lays them out: a kernel, and behind it what it
calls.

A compiler that links (nvJitLink, which Numba uses, or nvcc with relocatable code) leaves each function in a
section of its own, whose addresses begin at 0, and names the others: the target of a call, and the place to
come back to as ``32@lo((kernel + .L_x_0@srel))``.

Names of kernels and of the functions that they call, as profilers, listings and compilers write them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final

from smlab.hw_bench.sass.instruction import Function, Operand, SassInstruction
from smlab.hw_bench.sass.runtime import of_runtime

_PLACE: Final = re.compile(
    r"32@(?P<half>lo|hi)\(\(?(?:fdesc\()?(?P<function>[^\s()+]+)\)?(?: \+ (?P<label>[^\s()]+?)@srel)?\)?\)$"
)
_LABEL: Final = re.compile(r"`\((?P<name>[^()]+)\)")
_INSTRUCTION_BYTES: Final = 16


def linked(functions: Iterable[Function], kernel: Function, pointed_at: Iterable[str] = ()) -> Function:
    """The kernel with all that it may call, at addresses from 0 on, and every place in code as a number.

    ``pointed_at`` are functions whose addresses the module's data hold. A kernel that needs no other function
    keeps its code as it is; ``Function.parts`` tells where each function begins. What is called and not there
    is taken for a function of CUDA's runtime on the device (`of_runtime`).
    """
    known = {function.name: function for function in functions}
    chosen = _reached(known, kernel, list(pointed_at))
    parts, at = {}, 0
    for function in chosen:
        parts[function.name] = at
        # Without a gap: assemblers fill sections up themselves, and instructions are counted by address.
        at += _size(function)
    labels: dict[str, int] = {}
    renamed: dict[str, dict[str, str]] = {}
    for function in chosen:
        base, mine = parts[function.name], renamed.setdefault(function.name, {})
        for label, address in function.labels.items():
            mine[label] = label if label not in labels else f"{label}@{function.name}"
            labels[mine[label]] = base + address
    labels |= parts
    instructions = [
        _moved(instruction, parts[function.name], function.name, renamed, labels)
        for function in chosen
        for instruction in function.instructions
    ]
    return replace(kernel, instructions=tuple(instructions), labels=labels, parts=parts)


def _size(function: Function) -> int:
    return function.instructions[-1].address + _INSTRUCTION_BYTES if function.instructions else 0


def _reached(known: dict[str, Function], kernel: Function, pointed_at: list[str]) -> list[Function]:
    """The kernel, then what it names or may be pointed to, then what those name."""
    chosen: dict[str, Function] = {}
    open_ = [kernel.name, *pointed_at]
    known = {**known, kernel.name: kernel}
    while open_:
        name = open_.pop(0)
        if name in chosen or (name in known and known[name].entry and name != kernel.name):
            continue
        chosen[name] = known[name] if name in known else of_runtime(name, kernel.architecture)
        open_.extend(_called(chosen[name], known))
    return list(chosen.values())


def _called(function: Function, known: dict[str, Function]) -> Iterator[str]:
    """Other functions that this one names; of those not known, only what a ``CALL`` names."""
    for instruction in function.instructions:
        calls = instruction.opcode == "CALL"
        for operand in instruction.operands:
            if "`(" in operand.text:
                for name in _LABEL.findall(operand.text):
                    if name not in function.labels and (name in known or calls):
                        yield name
            elif "@" in operand.text and (match := _PLACE.match(operand.text)) and match["function"] in known:
                yield match["function"]


def _moved(
    instruction: SassInstruction,
    base: int,
    where: str,
    renamed: dict[str, dict[str, str]],
    labels: dict[str, int],
) -> SassInstruction:
    def operand(old: Operand) -> Operand:
        text = old.text
        if "`(" in text:
            text = _LABEL.sub(lambda m: f"`({renamed[where].get(m['name'], m['name'])})", text)
        elif "@" in text and (match := _PLACE.match(text)):
            name = match["function"]
            label = match["label"]
            label = renamed.get(name, {}).get(label, label) if label else name
            if name in labels and label in labels:
                text = f"{labels[label] if match['half'] == 'lo' else 0:#x}"
        return old if text == old.text else Operand(text)

    return replace(
        instruction,
        address=instruction.address + base,
        operands=tuple(operand(o) for o in instruction.operands),
    )


def named_half(text: str) -> tuple[str, bool] | None:
    """The variable in an immediate such as ``32@hi(table)``, and whether its address's high word is meant."""
    match = _PLACE.match(text)
    return None if match is None or match["label"] else (match["function"], match["half"] == "hi")


try:
    from pycxxfilt import itanium_demangle
except ImportError:  # no build of it for this platform: names stay as they are

    def itanium_demangle(mangled_name: str, /) -> str | None:
        raise ValueError(mangled_name)


_ABI = re.compile(r"\[abi:[^\]]*\]")
_OPEN, _CLOSE = "<([{", ">)]}"


def plain_name(name: str) -> str:
    """A kernel's name without return type, namespace, template arguments and parameters."""
    head = name.split("(")[0].split("<")[0].strip()
    return head.split(" ")[-1].split("::")[-1]


def mangled_name(name: str) -> str | None:
    """The innermost name in an Itanium-mangled one (``_Z5saxpyifPfS_``, ``_ZN2ns5saxpyEi``)."""
    if not name.startswith("_Z"):
        return None
    rest = name[2:].removeprefix("N")
    last = None
    while rest[:1].isdigit():
        digits = len(rest) - len(rest.lstrip("0123456789"))
        length = int(rest[:digits])
        last, rest = rest[digits : digits + length], rest[digits + length :]
    return last


def short_name(name: str) -> str:
    """``div_rn_f64_full`` of ``$__internal_1_$__cuda_sm20_div_rn_f64_full``."""
    last = name.split("$")[-1]
    head, _, tail = last.removeprefix("__cuda_").partition("_")
    return tail if head.startswith("sm") and tail else last


@lru_cache(maxsize=4096)
def demangled(name: str) -> str:
    """A C++ name as its source has it (``void kernel<float, 16>(float*, int)``); any other as it is."""
    if not name.startswith("_Z"):
        return name
    try:
        return _ABI.sub("", itanium_demangle(name) or name)
    except ValueError:
        return name


def readable_name(kernel: str, length: int = 40) -> str:
    """A kernel's name without return type, namespaces and parameters; without template arguments where it
    would be longer than ``length`` characters, and cut to that in the end."""
    text = demangled(kernel).strip()
    begin = last_space = end = depth = at = 0
    while at < len(text):
        here = text[at]
        if text.startswith("(anonymous namespace)", at):
            at += len("(anonymous namespace)")
            continue
        if depth == 0 and here == "(":
            if not text[:at].endswith("operator"):
                begin, end = max(begin, last_space), at  # before a signature's name stands its type
                break
            at += 1
        elif here in _OPEN:
            depth += 1
        elif here in _CLOSE and depth:
            depth -= 1
        elif depth == 0 and here == " ":
            last_space = at + 1
        elif depth == 0 and text.startswith("::", at):
            begin = at + 2
        at += 1
    name = text[begin : end or len(text)].strip() or kernel
    if len(name) > length:
        name = name.split("<", 1)[0] or name
    return name if len(name) <= length else name[: length - 1] + "…"


def called(name: str, wanted: str) -> bool:
    """Whether a user may mean the kernel ``name`` by ``wanted``: its mangled or demangled name, the latter
    with or without return type, namespaces, template arguments and parameters."""
    if wanted in (name, demangled(name)) or f"{len(wanted)}{wanted}" in name:
        return True
    forms = (readable_name(name, 10_000), plain_name(demangled(name)), demangled(name).split("(", 1)[0])
    return wanted.replace(" ", "") in (form.replace(" ", "") for form in forms)
