"""Random pieces of machine code, for both engines: results, cycles and counters must be equal.

A piece is a listing with encodings (only the control codes in them mean anything): arithmetic of all kinds,
predicates, forward branches and short loops with convergence barriers, shared and global memory, atomics,
exchanges between lanes, barriers, and constants, by loads and as operands. Control codes are random too; what
waits for what need not make sense, as both engines execute at issue.
"""

from __future__ import annotations

import dataclasses
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass import Function, parse_listing
from smlab.hw_bench.sass.image import listed_image
from smlab.sim import Record
from smlab.sim.execution.source import lower_machine_code
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.machine import (
    TICKS_PER_CYCLE,
    CacheShape,
    ConstantTiming,
    FetchTiming,
    Machine,
    ReadMerging,
    machine_from,
)
from smlab.sim.policies import POLICIES
from smlab.sim.simulate import ENGINES
from smlab.sim.traces.compare import first_difference

REGISTERS: Final = 16
"""R0 to R15 hold what is computed with; those above are for addresses, counters and the stack of the
frame."""
WORDS: Final = 64
"""Words of shared memory, and of the global array that pieces work on."""
TABLE_BYTES: Final = 8192
"""Of a table in constant memory, which no first cache of constants holds."""
TABLE_BANK: Final = 3

_COMPARE: Final = ("LT", "EQ", "LE", "GT", "NE", "GE")
_TEMPLATES: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_BINARY, _SHARED, _GLOBAL, _CONSTANTS = (
    _TEMPLATES[kind] for kind in ("arithmetic", "shared", "global", "constants")
)


@dataclass(frozen=True)
class Outcome:
    """One piece in both engines; ``difference`` is empty where they are equal. ``opcodes`` are those that it
    has, with their modifiers."""

    seed: int
    opcodes: frozenset[str]
    warp_instructions: int
    cycles: int
    difference: str


class Writer:
    """Writes one piece as a listing, instruction by instruction; ``constants`` are how much of it reads the
    table."""

    def __init__(self, seed: int, constants: float) -> None:
        self.random = np.random.default_rng(seed)
        self.constants = constants
        self.lines: list[str] = []
        self.labels = 0
        self.address = 0

    def pick(self, *choices: str) -> str:
        return choices[int(self.random.integers(len(choices)))]

    def put(self, text: str, *, guarded: bool = False, stall: int | None = None) -> None:
        """An instruction with a control code of its own."""
        variable = text.startswith(
            ("LD", "ATOM", "S2R", "MUFU", "SHFL", "I2F", "F2", "POPC", "FLO", "BREV", "D", "MATCH")
        )
        write = int(self.random.integers(6)) if variable and self.random.random() < 0.8 else 7
        reads = text.startswith(("ST", "LD", "ATOM", "RED")) and self.random.random() < 0.5
        read = int(self.random.integers(6)) if reads else 7
        waits = int(self.random.integers(64)) if self.random.random() < 0.3 else 0
        cycles = int(self.random.integers(1, 16)) if stall is None else stall
        code = cycles | int(self.random.integers(2)) << 4 | write << 5 | read << 8 | waits << 11
        guard = ""
        if guarded and self.random.random() < 0.3:
            guard = f"@{self.pick('', '!')}P{self.random.integers(6)} "
        self.lines.append(f"        /*{self.address:04x}*/  {guard}{text} ;  /* 0x0000000000000000 */")
        self.lines.append(f"                                /* {code << 41:#018x} */")
        self.address += 16

    def filled(self, template: str) -> str:
        """A template with registers, predicates and numbers chosen."""
        r = self.random

        def register(words: int = 1) -> str:
            return f"R{int(r.integers(REGISTERS)) & -words}"

        places = {name: register() for name in "dabc"}
        places |= {name * n: register(n) for n in (2, 4) for name in "dabc"}
        places |= {"P": f"P{r.integers(6)}", "Q": "PT", "p": f"P{r.integers(6)}", "q": f"!P{r.integers(6)}"}
        places["i"] = f"{int(r.integers(0, 1 << 32)):#x}" if r.random() < 0.5 else f"{int(r.integers(64)):#x}"
        places |= {
            "few": f"{int(r.integers(4)):#x}",
            "s": f"{int(r.integers(40)):#x}",
            "t": f"{int(r.integers(1, 32)):#x}",
        }
        if self.constants:
            places["table"] = f"{8 * int(r.integers(TABLE_BYTES // 8)):#x}"
            places["c3"] = f"c[{TABLE_BANK:#x}][{places['table']}]"
        places |= {"lut": f"{int(r.integers(256)):#x}", "cmp": self.pick(*_COMPARE)}
        return template.format(**places)

    def label(self) -> str:
        self.labels += 1
        return f".L_x_{self.labels}"

    def statement(self, depth: int, length: int) -> None:
        """Something: an instruction, a branch, a loop."""
        kind = self.random.random()
        if kind < 0.12 and depth < 3 and length > 3:
            self.branch(depth, length // 3)
        elif kind < 0.16 and depth < 2 and length > 3:
            self.loop(depth, length // 3)
        elif kind > 1 - self.constants:
            self.put(f"LOP3.LUT R20, {self.filled('{a}')}, {TABLE_BYTES // 2 - 8:#x}, RZ, 0xc0, !PT")
            self.put(self.filled("UMOV UR5, {table}"))
            self.put(self.filled(self.pick(*_CONSTANTS)), guarded=True)
        elif kind < 0.30:
            source = self.filled("{a}")
            self.put(f"LOP3.LUT R20, {source}, 0x7c, RZ, 0xc0, !PT")
            self.put("LOP3.LUT R21, R20, 0x78, RZ, 0xc0, !PT")
            self.put(self.filled(self.pick(*_SHARED)), guarded=True)
        elif kind < 0.42:
            self.put(f"LOP3.LUT R20, {self.filled('{a}')}, 0x1f, RZ, 0xc0, !PT")
            self.put("IMAD.WIDE.U32 R22, R20, 0x4, R24")
            self.put(self.filled(self.pick(*_GLOBAL)), guarded=True)
        else:
            self.put(self.filled(self.pick(*_BINARY)), guarded=True)

    def body(self, depth: int, length: int) -> None:
        for _ in range(length):
            self.statement(depth, length)

    def branch(self, depth: int, length: int) -> None:
        other, end = self.label(), self.label()
        self.put(f"BSSY B{depth}, `({end})")
        self.put(f"@P{self.random.integers(6)} BRA `({other})")
        self.body(depth + 1, length)
        if self.random.random() < 0.5:
            self.put(f"BRA `({end})")
        self.lines.append(f"{other}:")
        self.body(depth + 1, length)
        self.lines.append(f"{end}:")
        self.put(f"BSYNC B{depth}")

    def loop(self, depth: int, length: int) -> None:
        """A loop that lanes leave at different times, after at most six turns."""
        again, end, counter, left = (
            self.label(),
            self.label(),
            f"R{28 + depth}",
            f"P{self.random.integers(6)}",
        )
        self.put(f"LOP3.LUT {counter}, {self.filled('{a}')}, 0x5, RZ, 0xc0, !PT")
        self.put(f"BSSY B{depth}, `({end})")
        self.lines.append(f"{again}:")
        self.body(depth + 1, min(length, 5))
        self.put(f"IADD3 {counter}, {counter}, -0x1, RZ")
        self.put(f"ISETP.GE.AND {left}, PT, {counter}, RZ, PT")
        self.put(f"@{left} BRA `({again})")
        self.lines.append(f"{end}:")
        self.put(f"BSYNC B{depth}")


def piece(seed: int, length: int = 8, constants: float = 0.0) -> Function:
    """A kernel ``(inout int[WORDS], out int[threads][REGISTERS])`` of random code, which reads a table in
    constant memory in a part of its statements."""
    w = Writer(seed, constants)
    w.put("S2R R0, SR_TID.X")
    w.put("S2R R1, SR_CTAID.X")
    w.put("MOV R24, c[0x0][0x160]")
    w.put("MOV R25, c[0x0][0x164]")
    w.put("IMAD R30, R1, c[0x0][0x0], R0")
    w.put("LOP3.LUT R18, R0, 0x7, RZ, 0xc0, !PT")
    w.put("IMAD.SHL.U32 R18, R18, 0x10, RZ")
    for n in range(2, REGISTERS):
        w.put(f"IMAD R{n}, R0, {int(w.random.integers(1 << 32)):#x}, R{n - 1}")
    for n in range(6):
        w.put(f"ISETP.GT.U32.AND P{n}, PT, R{n + 2}, {int(w.random.integers(1 << 32)):#x}, PT")
    if w.random.random() < 0.5:
        w.put(w.pick("BAR.SYNC 0x0", "BAR.SYNC.DEFER_BLOCKING 0x5", "BAR.RED.POPC.DEFER_BLOCKING 0x2, P1"))
        w.put("B2R.RESULT R2, P2")
    w.body(0, length)
    if w.random.random() < 0.5:
        w.put(f"@P{w.random.integers(6)} EXIT")
        w.body(0, 4)
    w.put("IMAD.WIDE.U32 R22, R30, 0x40, R26")
    w.lines.insert(0, "")
    for n in range(0, REGISTERS, 4):
        w.put(f"STG.E.128.SYS [R22+{4 * n:#x}], R{n}")
    w.put("EXIT")
    head = [
        '\t.headerflags\t@"EF_CUDA_SM70 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM70)"',
        '\t.section\t.text.piece,"ax"',
        "piece:",
    ]
    head += [
        "        /*0000*/  MOV R26, c[0x0][0x168] ;  /* 0x0000000000000000 */",
        f"                                /* {(1 | 7 << 5 | 7 << 8) << 41:#018x} */",
        "        /*0010*/  MOV R27, c[0x0][0x16c] ;  /* 0x0000000000000000 */",
        f"                                /* {(1 | 7 << 5 | 7 << 8) << 41:#018x} */",
    ]
    body = [_moved(line, 32) for line in w.lines]
    return parse_listing("\n".join([*head, *body]), f"piece {seed}")[0]


def _moved(line: str, by: int) -> str:
    """A line with its address moved."""
    if not line.startswith("        /*"):
        return line
    return f"        /*{int(line[10:14], 16) + by:04x}*/{line[16:]}"


def _machine(gpu: str, random: np.random.Generator) -> Machine:
    """The GPU with a policy drawn, and for half of the pieces with caches of instructions and of constants
    that are too small, and few places for atomics."""
    machine = machine_from(load_gpu(gpu), str(random.choice(sorted(POLICIES))))
    if random.random() < 0.5:
        return machine
    fetch = FetchTiming(
        line_instructions=int(random.integers(1, 9)),
        l0=CacheShape(int(random.integers(1, 3)), int(random.integers(1, 5))),
        l1=CacheShape(int(random.integers(1, 4)), int(random.integers(1, 6))),
        prefetch_lines=int(random.integers(0, 4)),
        l0_miss_cycles=int(random.integers(1, 90)),
        l1_miss_cycles=int(random.integers(0, 90)),
        preloaded_lines=int(random.integers(0, 8)),
        request_interval_cycles=int(random.integers(1, 5)),
        warm=int(random.integers(0, 3)),
        l0_sub_cores=int(random.integers(1, 5)),
    )
    l2 = dataclasses.replace(
        machine.l2, hashed=bool(random.integers(0, 2)), halves=int(random.integers(1, 3))
    )
    merging = ReadMerging(*(int(random.integers(0, most)) for most in (200, 5, 3 * TICKS_PER_CYCLE)))
    few = dataclasses.replace(machine.global_atomics, in_flight=int(random.integers(1, 6)))
    line = int(random.choice([16, 64, 256]))
    constants = ConstantTiming(
        line_bytes=line,
        first=CacheShape(int(random.integers(1, 4)), int(random.integers(1, 5))),
        load_miss_cycles=int(random.integers(1, 90)),
        operand_miss_cycles=int(random.integers(1, 90)),
        second_lines=int(random.integers(1, 5)),
        second_miss_cycles=int(random.integers(0, 300)),
    )
    return dataclasses.replace(
        machine,
        fetch=fetch,
        l2=l2,
        read_merging=merging,
        global_atomics=few,
        constants=None if random.random() < 0.2 else constants,
        uniform_constant_cycles=int(random.integers(1, 3)),
    )


def compare(seed: int, gpu: str = "v100", length: int = 8) -> Outcome:
    """Run a piece in both engines: registers (stored at the end), memory, cycles, counters, stalls."""
    random = np.random.default_rng(seed)
    blocks, threads, sms = int(random.integers(1, 4)), int(random.integers(8, 65)), int(random.integers(1, 3))
    function = piece(seed, length, constants=0.2)
    table = np.random.default_rng(seed).integers(0, 256, TABLE_BYTES, dtype=np.uint8)
    image = dataclasses.replace(listed_image(function), banks={TABLE_BANK: table.tobytes()})
    machine = _machine(gpu, random)
    results, arrays = [], []
    for engine in ("compiled", "simpy"):
        words = np.arange(WORDS, dtype=np.int32) * np.int32(40503)
        registers = np.zeros((blocks * threads, REGISTERS), dtype=np.uint32)
        launch = MachineLaunch(
            image,
            (blocks, 1, 1),
            (threads, 1, 1),
            [words, registers],
            ("words", "registers"),
            dynamic_shared_bytes=4 * WORDS,
            check_shared=False,
            ordered=True,
        )
        lowered = lower_machine_code(launch, machine, min(sms, blocks))
        results.append(ENGINES[engine](lowered, Record.ALL, None, None))
        arrays.append((words, registers))
    difference = first_difference(*results) or ""
    for name, one, other in zip(("memory", "registers"), *arrays, strict=True):
        if not difference and not np.array_equal(one, other):
            difference = f"{name} differ at {tuple(np.argwhere(one != other)[0])}"
    for name in ("instruction_stalls", "instruction_executions"):
        one, other = (getattr(r, name) for r in results)
        if not difference and not np.array_equal(one, other):
            difference = f"{name} differ"
    opcodes = frozenset(i.mnemonic for i in function.instructions)
    return Outcome(seed, opcodes, results[0].warp_instructions, results[0].cycles, difference)
