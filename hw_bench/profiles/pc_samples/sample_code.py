"""The code that samples belong to: from a file beside the profile, from the report itself, or from the
instructions' own text in it."""

from __future__ import annotations

import dataclasses
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import machine_code_bytes
from smlab.hw_bench.profiles.pc_samples.samples import InstructionSamples, KernelSamples
from smlab.hw_bench.sass import (
    Function,
    Operand,
    Predicate,
    SassInstruction,
    SourceLine,
    disassemble,
    parse_listing,
    read_cubin,
)
from smlab.hw_bench.sass.cubin import unloaded
from smlab.hw_bench.sass.linking import mangled_name, plain_name
from smlab.hw_bench.sass.listing import split_operands
from smlab.hw_bench.sass.tools import disassemble_raw

_TEXT: Final = re.compile(
    r"(?:@(?P<negated>!)?(?P<guard>U?P\w+)\s+)?(?P<mnemonic>[A-Z][\w.]*)\s*(?P<operands>[^;]*?)\s*;?\s*$"
)
_TARGET: Final = re.compile(r"`\([^)]*\)\s*")
_UNLIKE: Final = 3
"""Instructions that may be named otherwise by another disassembler before the code is another kernel's."""


def read_functions(path: Path) -> tuple[Function, ...]:
    """The functions of a ``.cubin`` or of a listing of nvdisasm."""
    content = machine_code_bytes(path)
    if content.startswith(b"\x7fELF"):
        return disassemble(content)
    functions = parse_listing(content.decode(errors="replace"), str(path))
    if not functions:
        raise SmlabError.at(str(path), "holds no machine code", expected="a .cubin or nvdisasm -c -hex")
    return functions


def code_of(samples: KernelSamples, functions: tuple[Function, ...] = ()) -> Function | None:
    """The function that the samples are of; None for samples by source line without code.

    Raises:
        SmlabError: code of another kernel.
    """
    if functions:
        return _chosen(samples, functions)
    if samples.cubin is not None:
        return _lined(_of_report(samples), samples)
    return None if samples.by_line else _of_text(samples)


def aligned(samples: KernelSamples, function: Function) -> KernelSamples:
    """The samples with the addresses of the code: profilers give those in the GPU's memory.

    Samples by line go to the instructions of the line that can have their reason, in equal parts.

    Raises:
        SmlabError: instructions that the code does not have.
    """
    if samples.by_line:
        return _spread(samples, function)
    where, first = samples.where, samples.rows[0].address
    offset = first - function.instructions[0].address
    by_address = {i.address: i for i in function.instructions}
    rows, unlike = [], 0
    for row in samples.rows:
        instruction = by_address.get(row.address - offset)
        if instruction is None:
            raise SmlabError.at(
                where,
                f"an instruction at {row.address:#x} that the code of {function.name} does not have",
                row.text or None,
                "the code that ran",
            )
        match = _TEXT.match(row.text)
        if match is not None and match["mnemonic"].split(".")[0] != instruction.opcode:
            unlike += 1
        if unlike > _UNLIKE:
            raise SmlabError.at(
                f"{where}: {row.address:#x}",
                f"the code of {function.name} has other instructions: {instruction}",
                row.text,
                "the code that ran",
            )
        line = _line(instruction)  # a profiler's is that of the function that was inlined
        line = row.line if line is None else line
        rows.append(dataclasses.replace(row, address=row.address - offset, line=line))
    return dataclasses.replace(samples, rows=tuple(rows))


def _line(instruction: SassInstruction) -> int | None:
    return None if instruction.source is None else instruction.source.outermost.line


def _chosen(samples: KernelSamples, functions: tuple[Function, ...]) -> Function:
    if len(functions) == 1:
        return functions[0]
    wanted = plain_name(samples.kernel)
    fitting = [f for f in functions if wanted in (f.name, mangled_name(f.name), plain_name(f.name))]
    if not fitting and not samples.by_line:
        fitting = [f for f in functions if len(f.instructions) >= len(samples.rows) and _alike(samples, f)]
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(f.name for f in functions)
    what = "holds several kernels that fit" if fitting else "holds no kernel of that name"
    raise SmlabError.at(f"the code for {samples.where}", what, samples.kernel, f"one of {names}")


def _alike(samples: KernelSamples, function: Function) -> bool:
    pairs = zip(samples.rows, function.instructions, strict=False)
    return all(
        (m := _TEXT.match(row.text)) is not None and m["mnemonic"].split(".")[0] == instruction.opcode
        for row, instruction in pairs
    )


def _of_report(samples: KernelSamples) -> Function:
    assert samples.cubin is not None
    cubin = read_cubin(samples.cubin, samples.where)
    wanted = plain_name(samples.kernel)
    names = [f.name for f in cubin.functions if wanted in (f.name, mangled_name(f.name))]
    if not names and len(cubin.functions) == 1:
        names = [cubin.functions[0].name]
    if not names:
        raise SmlabError.at(samples.where, "its cubin does not hold the kernel", samples.kernel)
    with suppress(SmlabError):  # a damaged table of lines: the instructions alone
        for function in disassemble(unloaded(samples.cubin, samples.where)):
            if function.name == names[0]:
                return function
    code = next(f.code for f in cubin.functions if f.name == names[0])
    return disassemble_raw(code, cubin.architecture, names[0])


def _lined(function: Function, samples: KernelSamples) -> Function:
    """Source lines from the samples, where the code has none: its own tell of functions that were inlined.
    Padding behind the last sample is dropped."""
    lines = {row.address: row.line for row in samples.rows}
    last = max(lines)
    kept = []
    for instruction in function.instructions:
        if instruction.address > last and instruction.opcode in ("NOP", "BRA"):
            continue
        line, source = lines.get(instruction.address), instruction.source
        if source is None and line:
            source = SourceLine(samples.kernel, line)
        kept.append(dataclasses.replace(instruction, source=source))
    return dataclasses.replace(function, instructions=tuple(kept))


def _of_text(samples: KernelSamples) -> Function:
    """Instructions as the profile prints them: no control codes, so no scoreboards."""
    first = samples.rows[0].address
    size = 16
    instructions = []
    for n, row in enumerate(samples.rows):
        match = _TEXT.match(_TARGET.sub("", row.text))
        if match is None:
            raise SmlabError.at(
                f"{samples.where}: {row.address:#x}",
                "no instruction of SASS",
                row.text or None,
                "as ncu prints",
            )
        operands = split_operands(match["operands"])
        if match["mnemonic"].split(".")[0] in ("BRA", "JMP") and operands:
            operands = (*operands[:-1], _relative(operands[-1], first, n * size))
        guard = Predicate(match["guard"], match["negated"] is not None) if match["guard"] else None
        source = SourceLine(samples.kernel, row.line) if row.line else None
        address = row.address - first
        instructions.append(SassInstruction(address, match["mnemonic"], operands, guard, None, source))
    return Function(samples.kernel, samples.architecture or "unknown", tuple(instructions))


def _relative(operand: Operand, first: int, address: int) -> Operand:
    """A branch target in the GPU's memory as one in the function; one that is not told goes nowhere."""
    value = operand.value
    if value is None:
        return Operand(f"{address:#x}")
    return Operand(f"{value - first:#x}") if value >= first else operand


def _spread(samples: KernelSamples, function: Function) -> KernelSamples:
    by_line: dict[int, list[SassInstruction]] = {}
    for instruction in function.instructions:
        line = _line(instruction)
        if line is not None and not instruction.never_executed:
            by_line.setdefault(line, []).append(instruction)
    stalled: dict[int, dict[str, int]] = {}
    waiting: dict[int, dict[str, int]] = {}
    for row in samples.rows:
        places = by_line.get(row.address)
        if places is None:
            raise SmlabError.at(
                f"{samples.where}: line {row.address}",
                f"has samples, but {function.name} has no instruction of it",
                None,
                "code compiled with -lineinfo from the same source",
            )
        for counts, table in ((row.stalled, stalled), (row.not_issued, waiting)):
            for reason, count in counts.items():
                able = [i.address for i in places if _can_have(i, reason)] or [i.address for i in places]
                for n, address in enumerate(able):
                    part = count // len(able) + (n < count % len(able))
                    if part:
                        table.setdefault(address, {})[reason] = part
    rows = tuple(
        InstructionSamples(
            i.address, str(i), _line(i), stalled.get(i.address, {}), waiting.get(i.address, {})
        )
        for i in function.instructions
        if i.address in stalled
    )
    return dataclasses.replace(samples, rows=rows, by_line=False)


def _can_have(instruction: SassInstruction, reason: str) -> bool:
    control = instruction.control
    if reason in ("long_scoreboard", "short_scoreboard"):
        return control is None or control.wait_mask != 0
    if reason == "barrier":
        return instruction.opcode == "BAR"
    if reason == "drain":
        return instruction.opcode == "EXIT"
    return True
