"""One kernel's machine code for two architectures: where its floating-point operations differ, and by how
much.

The intermediate code (PTX) of a kernel is the same for all GPUs, but each architecture has instruction
sequences of its own for division, square root, logarithm and the like. Van Lanker et al. 2024 (Euro-Par,
Section 4.2) therefore compare the basic blocks that contain such special functions to estimate the
operational intensity on the target GPU. Here the counts of all blocks are compared, loop by loop, and the
share of the special blocks is told apart.

A *region* is what one loop holds outside the loops in it, or what the function holds outside of all loops.
Each of its blocks counts once. A call that can be passed by (the slow paths of division and roots, for
operands near the ends of the range) is *rare*: its operations count apart. What a loop's body is executed,
the code does not tell; `CodeComparison.ratio` takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import machine_code_bytes
from smlab.hw_bench.sass.flow import BasicBlock, ControlFlow, NaturalLoop
from smlab.hw_bench.sass.instruction import Function, SassInstruction
from smlab.hw_bench.sass.linking import mangled_name, plain_name, short_name
from smlab.hw_bench.sass.listing import parse_listing
from smlab.hw_bench.sass.operations import (
    Footprint,
    IssuedCounts,
    OperationCounts,
    Precision,
    count_issued,
    count_operations,
    footprint_of,
    special_function,
)
from smlab.hw_bench.sass.tools import disassemble

_CALLS: Final = ("CALL", "CAL", "JCAL")
_OLD_FLOW: Final = frozenset({"SYNC", "BRK", "CONT", "PRET"})
_NOTHING: Final = OperationCounts()
_ELF: Final = b"\x7fELF"


@dataclass(frozen=True)
class Region:
    """A loop's own code, or the code outside of all loops (``depth`` 0); counts are static, each block once.

    ``counts`` leaves out what rare calls execute (``rare``); ``in_special_blocks`` is the part of ``counts``
    in blocks with a special function or a call. ``issued`` are the instructions of the region itself, calls
    left out. ``functions`` are the special functions and the functions called, sorted.
    """

    address: int
    depth: int
    counts: OperationCounts
    in_special_blocks: OperationCounts
    rare: OperationCounts
    issued: IssuedCounts
    functions: tuple[str, ...]


@dataclass(frozen=True)
class FunctionRegions:
    """The regions of one function, outermost code first, then loops by address, and what a launch of it
    reserves (None where nobody read that)."""

    name: str
    architecture: str
    regions: tuple[Region, ...]
    footprint: Footprint | None = None

    def total(
        self, loop_executions: float = 1.0, rare_share: float = 0.0, executions: Sequence[float] | None = None
    ) -> OperationCounts:
        """Operations a thread: each loop body is executed ``loop_executions`` times as often as what is
        around it, or each region as often as ``executions`` says; of rare calls a share is executed."""
        total = _NOTHING
        for index, region in enumerate(self.regions):
            times = loop_executions**region.depth if executions is None else executions[index]
            total += (region.counts + region.rare * rare_share) * times
        return total

    def issued(self, loop_executions: float = 1.0) -> IssuedCounts:
        """Instructions and requests a warp, loops as in `total`."""
        total = IssuedCounts()
        for region in self.regions:
            total += region.issued * loop_executions**region.depth
        return total


@dataclass(frozen=True)
class CodeComparison:
    """One kernel for a source and a target architecture.

    ``aligned`` says that both have the same loops, so that their regions correspond one to one.
    """

    source: FunctionRegions
    target: FunctionRegions

    @property
    def kernel(self) -> str:
        return self.source.name

    @property
    def aligned(self) -> bool:
        depths = [[r.depth for r in side.regions] for side in (self.source, self.target)]
        return depths[0] == depths[1]

    @property
    def same_operations(self) -> bool:
        """Whether every region has the same floating-point operations, so that no execution count matters."""
        return self.aligned and not any(
            s.counts.difference(t.counts) or s.rare.difference(t.rare)
            for s, t in zip(self.source.regions, self.target.regions, strict=True)
        )

    def ratio(
        self,
        precision: Precision,
        *,
        loop_executions: float = 1.0,
        rare_share: float = 0.0,
        executions: Sequence[float] | None = None,
    ) -> float | None:
        """Operations of the target over those of the source; 1 where neither has any, None where only the
        target has.

        ``executions`` gives how often each region of the source is executed (from traces or source counters);
        the target's corresponding regions are taken to be executed as often, as Van Lanker et al. do.
        """
        if executions is not None and not (self.aligned and len(executions) == len(self.source.regions)):
            raise SmlabError.at(
                self.kernel,
                "executions must be given for each region of code whose loops correspond",
                len(executions),
                f"{len(self.source.regions)} regions" if self.aligned else "code with the same loops",
            )
        of_source, of_target = (
            side.total(loop_executions, rare_share, executions).flops(precision)
            for side in (self.source, self.target)
        )
        if of_source == 0:
            return 1.0 if of_target == 0 else None
        return of_target / of_source

    def differences(self) -> tuple[str, ...]:
        """In words, region by region, what the target has more or fewer."""
        names = f"{self.target.architecture} against {self.source.architecture}"
        if not self.aligned:
            depths = [", ".join(str(r.depth) for r in s.regions) for s in (self.source, self.target)]
            return (f"{names}: other loops (depths {depths[0]} and {depths[1]}), compared as a whole",)
        notes = []
        for s, t in zip(self.source.regions, self.target.regions, strict=True):
            where = "outside of loops" if s.depth == 0 else f"loop at {s.address:#x} (depth {s.depth})"
            if difference := s.counts.difference(t.counts):
                special = s.in_special_blocks.difference(t.in_special_blocks)
                part = "none of it in special functions" if not special else f"special functions: {special}"
                notes.append(f"{names}, {where}: {difference} ({part})")
            if difference := s.rare.difference(t.rare):
                notes.append(f"{names}, {where}, in rare calls: {difference}")
            if s.functions != t.functions:
                of_s, of_t = (", ".join(r.functions) or "none" for r in (s, t))
                notes.append(f"{names}, {where}: special functions {of_t} instead of {of_s}")
        return tuple(notes)


@dataclass(frozen=True)
class CodeComparisons:
    """The kernels that two files have in common; ``unmatched`` names the others, with the file that has
    them."""

    comparisons: tuple[CodeComparison, ...]
    unmatched: tuple[str, ...]

    def of(self, kernel: str) -> CodeComparison | None:
        """The comparison for a kernel as a profiler names it: with or without its parameters and mangling.

        A file with one kernel is taken to be about that one only if the names agree.
        """
        wanted = plain_name(kernel)
        exact = [c for c in self.comparisons if c.kernel == kernel]
        similar = [c for c in self.comparisons if wanted in (plain_name(c.kernel), mangled_name(c.kernel))]
        matches = exact or similar
        return matches[0] if len(matches) == 1 else None


def profile_code(function: Function, footprint: Footprint | None = None) -> FunctionRegions:
    """Count a function's operations and instructions region by region.

    Raises:
        SmlabError: for code before Volta that uses its reconvergence stack, whose flow the listing does not
        show.
    """
    old = next((i for i in function.instructions if i.opcode in _OLD_FLOW), None)
    if old is not None:
        raise SmlabError.at(
            f"{function.name}, {old.address:#x}",
            f"{function.architecture} code whose branches meet by a stack cannot be followed",
            old.opcode,
            "code for sm_70 or later",
        )
    flow = ControlFlow(function)
    subroutines = _subroutines(function)
    loops: list[NaturalLoop | None] = [None, *flow.loops]
    regions = []
    for loop in loops:
        blocks = [flow.blocks[b] for b in sorted(flow.reachable) if flow.innermost_loop(b) == loop]
        regions.append(_region(flow, loop, blocks, subroutines))
    return FunctionRegions(function.name, function.architecture, tuple(regions), footprint)


def compare_code(source: Function, target: Function) -> CodeComparison:
    """Compare one kernel's code for two architectures."""
    return CodeComparison(profile_code(source), profile_code(target))


def compare_files(source: Path | bytes, target: Path | bytes) -> CodeComparisons:
    """Compare the kernels of two files, each a cubin (or its bytes) or a listing that nvdisasm printed.

    Raises:
        SmlabError: a file that is neither, or two files with no kernel in common.
    """
    names = [_name(x) for x in (source, target)]
    of_source, of_target = ({f.name: f for f in read_regions(x)} for x in (source, target))
    common = [name for name in of_source if name in of_target]
    if not common:
        raise SmlabError.at(
            names[1], "has no kernel that the other file has", sorted(of_target), ", ".join(of_source)
        )
    unmatched = [f"{name} ({names[0]})" for name in of_source if name not in of_target]
    unmatched += [f"{name} ({names[1]})" for name in of_target if name not in of_source]
    return CodeComparisons(
        tuple(CodeComparison(of_source[name], of_target[name]) for name in common), tuple(unmatched)
    )


def read_regions(code: Path | bytes) -> tuple[FunctionRegions, ...]:
    """The functions of a file or of a cubin in memory, region by region, with what a launch reserves."""
    content = machine_code_bytes(code) if isinstance(code, Path) else code
    functions = read_code(code) if isinstance(code, Path) else disassemble(code)
    return tuple(profile_code(f, footprint_of(content, f, _name(code))) for f in functions)


def read_code(path: Path) -> tuple[Function, ...]:
    """The functions of a cubin (with the disassembler) or of a listing (without)."""
    content = machine_code_bytes(path)
    if content.startswith(_ELF):
        return disassemble(content)
    try:
        functions = parse_listing(content.decode("utf-8"), str(path))
    except UnicodeDecodeError:
        functions = ()
    if not functions:
        raise SmlabError.at(str(path), "holds no machine code", None, "a cubin, or the output of nvdisasm -c")
    return functions


def _name(code: Path | bytes) -> str:
    return str(code) if isinstance(code, Path) else "cubin"


def _region(
    flow: ControlFlow,
    loop: NaturalLoop | None,
    blocks: list[BasicBlock],
    subroutines: dict[str, OperationCounts],
) -> Region:
    counts = special = rare = _NOTHING
    issued = IssuedCounts()
    functions: list[str] = []
    for block in blocks:
        operations = count_operations(block.instructions)
        named = [f for i in block.instructions if (f := special_function(i)) is not None]
        calls = [name for i in block.instructions if (name := _called(i)) is not None]
        for name in calls:
            called = subroutines.get(name, _NOTHING)
            if _can_be_passed(flow, loop, block.index):
                rare += called
            else:
                operations += called
        counts += operations
        issued += count_issued(block.instructions)
        if named or calls:
            special += operations
        functions += [*named, *(short_name(name) for name in calls)]
    address = flow.function.instructions[0].address if loop is None else flow.blocks[loop.header].start
    depth = 0 if loop is None else loop.depth
    return Region(address, depth, counts, special, rare, issued, tuple(sorted(functions)))


def _can_be_passed(flow: ControlFlow, loop: NaturalLoop | None, block: int) -> bool:
    """Whether the loop can come round, or the function end, on a way that does not lead through this
    block."""
    start = 0 if loop is None else loop.header
    inside = flow.reachable if loop is None else loop.blocks
    ends = {b for b in inside if not flow.blocks[b].successors} if loop is None else set(loop.latches)
    seen, waiting = {start} - {block}, [start] if start != block else []
    while waiting:
        here = waiting.pop()
        if here in ends:
            return True
        fresh = {s for s in flow.blocks[here].successors if s in inside and s != block} - seen
        seen |= fresh
        waiting.extend(fresh)
    return False


def _called(instruction: SassInstruction) -> str | None:
    """The name of the function that an instruction calls, if it names one outside of this function's own
    code."""
    if instruction.opcode not in _CALLS or instruction.never_executed or not instruction.operands:
        return None
    label = instruction.operands[-1].label
    return None if label is None or label.startswith(".L_x_") else label


def _subroutines(function: Function) -> dict[str, OperationCounts]:
    """What the functions placed behind a kernel's own code execute, each instruction once, by name."""
    starts = sorted((address, name) for name, address in function.labels.items() if not name.startswith("."))
    ends = [*(address for address, _ in starts), function.instructions[-1].address + 1][1:]
    return {
        name: count_operations(i for i in function.instructions if begin <= i.address < end)
        for (begin, name), end in zip(starts, ends, strict=True)
    }
