"""Writing what was executed here as Accel-Sim's tracer would have: ``kernelslist.g`` and
``kernel-1.traceg``.

Two things differ from the tracer's files. The result of an instruction that prints a predicate first (a
shuffle, an atomic) is written as its result; the tracer takes it for a source. And an asynchronous copy is
one line with its global address, as the tracer's own clean-up leaves it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import replacing
from smlab.hw_bench.sass import SassInstruction
from smlab.hw_bench.sass.effects import split_operands
from smlab.hw_bench.sass.instruction import Operand
from smlab.sim.execution.recording import Executions
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.operation_codes import LOCAL_WINDOW, SHARED_WINDOW
from smlab.sim.traces.reading import LIST_NAME
from smlab.sim.traces.text import (
    MAX_SOURCES,
    NO_REGISTER,
    TraceHeader,
    TraceInstruction,
    addresses_text,
    head_text,
    width_named,
)

KERNEL_NAME: Final = "kernel-1.traceg"
_REGISTER: Final = re.compile(r"[-|~!]*R(\d+|Z)\b")
_INSIDE: Final = re.compile(r"\[R(\d+|Z)\b")
_MEMORY: Final = (d.LOAD, d.STORE, d.ATOMIC, d.COPY)


def trace_header(launch: MachineLaunch) -> TraceHeader:
    """What a launch puts before its trace."""
    return TraceHeader(
        name=launch.where,
        grid=launch.grid,
        block=launch.block,
        shared_bytes=launch.shared_bytes,
        registers=launch.image.registers,
        binary_version=launch.image.architecture,
        shared_base=SHARED_WINDOW << 32,
        local_base=LOCAL_WINDOW << 32,
    )


def traced_instruction(micro: MicroOperation) -> TraceInstruction:
    """An instruction as a trace names it: only general registers, pairs by their first."""
    instruction = micro.instruction
    results, sources = _registers(instruction)
    width = width_named(instruction.mnemonic) if micro.code in _MEMORY else 0
    return TraceInstruction(
        instruction.address, instruction.mnemonic, results[:1], sources[:MAX_SOURCES], width
    )


def _registers(instruction: SassInstruction) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Results and sources, in the order in which they are printed."""
    results, sources = split_operands(instruction)
    return _numbers(results), _numbers(sources)


def _numbers(operands: Sequence[Operand]) -> tuple[int, ...]:
    found = []
    for operand in operands:
        match = (_INSIDE.search if operand.kind == "memory" else _REGISTER.match)(operand.text)
        if match is not None:
            found.append(NO_REGISTER if match[1] == "Z" else int(match[1]))
    return tuple(found)


def _immediate(instruction: SassInstruction) -> int:
    """The last whole immediate, as the tracer prints it: 32 bits with a sign."""
    values = [o.value for o in instruction.operands if o.value is not None]
    value = (values[-1] if values else 0) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def write_traces(folder: Path, launch: MachineLaunch, executed: Executions) -> None:
    """Write the two files; the copies are those of the launch's arrays.

    Raises:
        SmlabError: a folder that cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / KERNEL_NAME) as path, path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in _lines(launch, executed))
        with replacing(folder / LIST_NAME) as path:
            copies = [f"MemcpyHtoD,0x{a.address:016x},{len(a.content)}\n" for a in launch.allocations]
            path.write_text("".join([*copies, f"{KERNEL_NAME}\n"]), encoding="utf-8")
    except OSError as error:
        raise SmlabError(f"{folder}: cannot be written: {error.strerror}") from error


def _lines(launch: MachineLaunch, executed: Executions) -> Iterator[str]:
    header = trace_header(launch)
    yield from header.lines()
    code = [traced_instruction(micro) for micro in launch.code]
    generic = [micro.code in _MEMORY and micro.fields["space"] == d.GENERIC for micro in launch.code]
    immediate = [_immediate(micro.instruction) for micro in launch.code]
    heads: dict[tuple[int, int], str] = {}
    warps = header.warps_per_block
    ends = [*executed.warp.searchsorted(range(1, header.blocks * warps + 1)).tolist()]
    pcs, masks = executed.pc.tolist(), executed.mask.tolist()
    begin = 0
    for warp, end in enumerate(ends):
        if warp % warps == 0:
            block, (x, y, _) = warp // warps, header.grid
            yield ""
            yield "#BEGIN_TB"
            yield ""
            yield f"thread block = {block % x},{block // x % y},{block // (x * y)}"
        yield ""
        yield f"warp = {warp % warps}"
        yield f"insts = {end - begin}"
        for n in range(begin, end):
            pc, mask = pcs[n], masks[n]
            head = heads.get((pc, mask))
            if head is None:
                head = head_text(code[pc], mask)
                if not code[pc].width:
                    head += f" {immediate[pc]} "
                heads[pc, mask] = head
            if not code[pc].width:
                yield head
                continue
            addresses = executed.addresses(n)
            if generic[pc] and addresses and addresses[0] < 1 << 32:
                addresses = tuple(a + (SHARED_WINDOW << 32) for a in addresses)
            yield f"{head} {addresses_text(mask, addresses)} {immediate[pc]} "
        begin = end
        if warp % warps == warps - 1:
            yield ""
            yield "#END_TB"
