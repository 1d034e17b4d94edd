"""``python -m smlab.validation.campaigns.instruction_forms``: assemble each form of PTX for some
architectures, and ask the decoder for the machine code."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass import Function
from smlab.hw_bench.sass.tools import Tool, assemble, disassemble, find_nvdisasm, find_ptxas
from smlab.sim.isa.decode.decode import decode
from smlab.sim.isa.decode.operands import OperandRows

FORMS: Final = Path(__file__).with_name("forms.txt")
ARCHITECTURES: Final = ("sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a")
_TOGETHER: Final = 60
_KINDS: Final = (("b32", "r", 4), ("b64", "d", 8), ("f32", "f", 4), ("f64", "g", 8), ("u16", "h", 2))
_HEAD: Final = """.version 8.8
.target {architecture}
.address_size 64
.const .align 16 .b8 con[64];
.global .texref tx;
"""
_REGISTERS: Final = """.reg .pred %p<9>; .reg .b16 %h<10>; .reg .b32 %r<12>; .reg .b64 %d<12>;
.reg .f32 %f<12>; .reg .f64 %g<12>; .reg .b128 %o<3>;
.shared .align 128 .b8 sh[4096]; .local .align 16 .b8 loc[64];
ld.param.u64 %d9, [p]; mov.u32 %r9, sh; mov.u32 %r10, %tid.x; mad.wide.u32 %d9, %r10, 128, %d9;
"""


def forms() -> list[str]:
    return [line for line in FORMS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]


def _kernel(number: int, form: str) -> str:
    """A kernel in which no register is a constant, and what the form computes is stored."""
    loads = [
        f"ld.global.{kind} %{letter}{n}, [%d9+{128 * row + size * n}];"
        for row, (kind, letter, size) in enumerate(_KINDS)
        for n in range(8)
    ]
    tests = [f"setp.gt.s32 %p{n}, %r{n}, 7;" for n in range(8)]
    stores = [
        f"st.global.{kind} [%d9+{1024 + 8 * row}], %{letter}0;"
        for row, (kind, letter, _) in enumerate(_KINDS)
    ]
    body = "\n".join(
        [*loads, *tests, form.replace("L1:", f"L1_{number}:").replace("bra L1", f"bra L1_{number}")]
    )
    stored = "\n".join(stores)
    return f".visible .entry k{number}(.param .u64 p) {{\n{_REGISTERS}{body}\n{stored}\nret; }}\n"


def functions(
    numbered: Sequence[tuple[int, str]], architecture: str, tools: tuple[Tool, Tool]
) -> Iterator[Function]:
    """The machine code of the forms that the assembler takes; a file that it refuses is halved."""
    text = _HEAD.format(architecture=architecture) + "".join(_kernel(*one) for one in numbered)
    try:
        cubin, _ = assemble(text, architecture, tools[0])
    except SmlabError:
        if len(numbered) > 1:
            half = len(numbered) // 2
            yield from functions(numbered[:half], architecture, tools)
            yield from functions(numbered[half:], architecture, tools)
        return
    yield from disassemble(cubin, tools[1])


def refused(disassembled: Iterable[Function]) -> Iterator[tuple[int, str | None]]:
    """Of each form its number, and why it is refused, or None."""
    for function in disassembled:
        reason = None
        try:
            decode(function, OperandRows(lambda bank, offset: 0))
        except SmlabError as error:
            reason = str(error).partition("executed here")[2].strip() or str(error)
        yield int(function.name.removeprefix("k")), reason


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.json"))
    parser.add_argument("--architecture", action="append", help="only this one, such as sm_90a")
    asked = parser.parse_args()
    named = list(enumerate(forms()))
    stored: dict[str, object] = {}
    for architecture in asked.architecture or ARCHITECTURES:
        plain = architecture.rstrip("a")
        tools = find_ptxas(architecture=plain), find_nvdisasm(architecture=plain)
        told: dict[int, str | None] = {}
        for first in range(0, len(named), _TOGETHER):
            told |= refused(functions(named[first : first + _TOGETHER], architecture, tools))
        wrong = {named[n][1]: reason for n, reason in sorted(told.items()) if reason is not None}
        stored[architecture] = {
            "assembler": tools[0].release,
            "assembled": len(told),
            "executed": len(told) - len(wrong),
            "refused": wrong,
        }
        print(f"{architecture}: {len(told) - len(wrong)} of {len(told)} forms are executed")
    asked.out.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
