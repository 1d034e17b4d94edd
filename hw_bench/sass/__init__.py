"""Reading machine code: NVIDIA's assembly (SASS) as instructions, control codes, basic blocks, loops and
source lines.

`disassemble` runs nvdisasm on a cubin; `parse_listing` reads what nvdisasm printed. Both give `Function`
objects, and `ControlFlow` finds the basic blocks and loops of one. `read_cubin` looks into a cubin with no
tool at all. `compare_files` tells how a kernel's floating-point operations differ between two architectures.
"""

from smlab.hw_bench.sass.compare import (
    CodeComparison,
    CodeComparisons,
    compare_code,
    compare_files,
    read_code,
    read_regions,
)
from smlab.hw_bench.sass.cubin import Cubin, CubinFunction, read_cubin
from smlab.hw_bench.sass.flow import BasicBlock, ControlFlow, NaturalLoop
from smlab.hw_bench.sass.instruction import (
    ControlCode,
    Function,
    Operand,
    Predicate,
    SassInstruction,
    SourceLine,
)
from smlab.hw_bench.sass.listing import parse_listing
from smlab.hw_bench.sass.operations import (
    Footprint,
    IssuedCounts,
    OperationCounts,
    Precision,
    count_issued,
    count_operations,
)
from smlab.hw_bench.sass.tools import Tool, assemble, disassemble, find_nvdisasm, find_ptxas, listing_of

__all__ = [
    "BasicBlock",
    "CodeComparison",
    "CodeComparisons",
    "ControlCode",
    "ControlFlow",
    "Cubin",
    "CubinFunction",
    "Footprint",
    "Function",
    "IssuedCounts",
    "NaturalLoop",
    "Operand",
    "OperationCounts",
    "Precision",
    "Predicate",
    "SassInstruction",
    "SourceLine",
    "Tool",
    "assemble",
    "compare_code",
    "compare_files",
    "count_issued",
    "count_operations",
    "disassemble",
    "find_nvdisasm",
    "find_ptxas",
    "listing_of",
    "parse_listing",
    "read_code",
    "read_cubin",
    "read_regions",
]
