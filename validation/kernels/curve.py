"""The published curve of shared-memory atomics, measured on simulated GPUs as it was on real ones: by machine
code.

Eight warps of one block add to shared memory, N lanes on each word, in a loop; the cycles of an operation are
the difference between two lengths of the loop. The points for N = 1 and 32 made the constants of the
descriptions, those between did not. ``python -m smlab.validation.kernels.curve`` prints all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from smlab.hw_bench.datasets.publications import load_published_atomics
from smlab.hw_bench.errors import end_with
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass import parse_listing
from smlab.hw_bench.sass.image import KernelImage, listed_image
from smlab.sim import Record
from smlab.sim.machine_code.launch import MachineLaunch
from smlab.sim.machine_code.run import run_machine_code

UNROLLED: Final = 32
TURNS: Final = 6, 12
"""Of the two loops whose difference is timed."""
_ATOMIC: Final = {"add": "ATOMS.ADD RZ, [R1], R2", "popc-inc": "ATOMS.POPC.INC.32 RZ, [R1+URZ]"}
_NO_BARRIER: Final = 7
_ALL_BARRIERS: Final = 0x3F


@dataclass(frozen=True)
class CurvePoint:
    """Cycles a warp-instruction with ``same_word`` lanes on each word."""

    gpu: str
    op: str
    same_word: int
    published: float
    simulated: float

    @property
    def error_percent(self) -> float:
        return 100 * (self.simulated / self.published - 1)


def loop(op: str, same_word: int, turns: int) -> KernelImage:
    """The loop's machine code, whose control codes are those that ptxas gives such a loop."""
    atomic = _ATOMIC[op]
    code = [
        ("S2R R0, SR_TID.X", 1, 0, 0),
        ("LOP3.LUT R1, R0, 0x1f, RZ, 0xc0, !PT", 5, _NO_BARRIER, _ALL_BARRIERS),
        (f"SHF.R.U32.HI R1, RZ, {same_word.bit_length() - 1:#x}, R1", 5, _NO_BARRIER, 0),
        ("SHF.L.U32 R1, R1, 0x2, RZ", 5, _NO_BARRIER, 0),
        ("MOV R2, 0x1", 5, _NO_BARRIER, 0),
        (f"MOV R3, {turns:#x}", 5, _NO_BARRIER, 0),
        *[(atomic, 1, _NO_BARRIER, 0)] * UNROLLED,
        ("IADD3 R3, R3, -0x1, RZ", 5, _NO_BARRIER, 0),
        ("ISETP.NE.AND P0, PT, R3, RZ, PT", 12, _NO_BARRIER, 0),
        ("@P0 BRA `(again)", 5, _NO_BARRIER, 0),
        ("EXIT", 5, _NO_BARRIER, 0),
    ]
    lines = [
        '\t.headerflags\t@"EF_CUDA_SM70 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM70)"',
        '\t.section\t.text.curve,"ax"',
        "curve:",
    ]
    for n, (text, stall, write, waits) in enumerate(code):
        if n == len(code) - UNROLLED - 4:
            lines.append("again:")
        control = stall | 1 << 4 | write << 5 | _NO_BARRIER << 8 | waits << 11
        lines.append(f"        /*{16 * n:04x}*/  {text} ;  /* 0x0000000000000000 */")
        lines.append(f"                                /* {control << 41:#018x} */")
    return listed_image(parse_listing("\n".join(lines), "the curve's loop")[0])


def curve_points() -> list[CurvePoint]:
    """Of all published series."""
    found = []
    for series in load_published_atomics():
        gpu = load_gpu(series.gpu)
        for same, published in zip(series.same_word, series.cycles_per_instruction, strict=True):
            cycles = []
            for turns in TURNS:
                launch = MachineLaunch(
                    loop(series.op, same, turns),
                    (1, 1, 1),
                    (32 * series.warps, 1, 1),
                    [],
                    dynamic_shared_bytes=128,
                    check_shared=False,
                )
                cycles.append(run_machine_code(launch, gpu, keep=Record.TOTALS).cycles)
            operations = series.warps * UNROLLED * (TURNS[1] - TURNS[0])
            simulated = (cycles[1] - cycles[0]) / operations
            found.append(CurvePoint(series.gpu, series.op, same, published, simulated))
    return found


def mape(points: Sequence[CurvePoint]) -> float:
    """The mean absolute error in percent."""
    return float(np.mean([abs(p.error_percent) for p in points]))


def main() -> int:
    points = curve_points()
    for gpu, op in dict.fromkeys((p.gpu, p.op) for p in points):
        own = [p for p in points if (p.gpu, p.op) == (gpu, op)]
        print(f"{gpu} {op}: MAPE {mape(own):.2f} %")
        for p in own:
            told = f"{p.simulated:.2f} cycles, published {p.published:.2f} ({p.error_percent:+.1f} %)"
            print(f"    {p.same_word} lanes on a word: {told}")
    return 0


if __name__ == "__main__":
    end_with(main)
