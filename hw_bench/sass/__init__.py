"""Reading machine code: NVIDIA's assembly (SASS) as instructions, control codes, basic blocks, loops and source lines.

`disassemble` runs nvdisasm on a cubin; `parse_listing` reads what nvdisasm printed. Both give `Function` objects, and
`ControlFlow` finds the basic blocks and loops of one. `read_cubin` looks into a cubin with no tool at all.
"""

from hw_bench.sass.control import ControlCode
from hw_bench.sass.cubin import Cubin, CubinFunction, read_cubin
from hw_bench.sass.flow import BasicBlock, ControlFlow, Loop
from hw_bench.sass.instruction import Function, Instruction, Operand, Predicate, SourceLine
from hw_bench.sass.listing import parse_listing
from hw_bench.sass.tools import Tool, assemble, disassemble, find_nvdisasm, find_ptxas, flow_edges

__all__ = [
    "BasicBlock",
    "ControlCode",
    "ControlFlow",
    "Cubin",
    "CubinFunction",
    "Function",
    "Instruction",
    "Loop",
    "Operand",
    "Predicate",
    "SourceLine",
    "Tool",
    "assemble",
    "disassemble",
    "find_nvdisasm",
    "find_ptxas",
    "flow_edges",
    "parse_listing",
    "read_cubin",
]
