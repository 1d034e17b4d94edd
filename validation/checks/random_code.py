"""Random pieces of machine code, for both engines: results, cycles and counters must be equal.

A piece is a listing with encodings (only the control codes in them mean anything): arithmetic of all kinds,
predicates, forward branches and short loops with convergence barriers, shared and global memory, atomics,
exchanges between lanes, barriers. Control codes are random too; what waits for what need not make sense, as
both engines execute at issue.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass import Function, parse_listing
from smlab.hw_bench.sass.image import listed_image
from smlab.sim import Record
from smlab.sim.execution.source import lower_machine_code
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.machine import CacheShape, FetchTiming, Machine, machine_from
from smlab.sim.policies import POLICIES
from smlab.sim.simulate import ENGINES
from smlab.sim.traces.compare import first_difference

REGISTERS: Final = 16
"""R0 to R15 hold what is computed with; those above are for addresses, counters and the stack of the
frame."""
WORDS: Final = 64
"""Words of shared memory, and of the global array that pieces work on."""

_COMPARE: Final = ("LT", "EQ", "LE", "GT", "NE", "GE")
_BINARY: Final = (
    "IADD3 {d}, {a}, {b}, {c}",
    "IADD3 {d}, -{a}, {b}, {i}",
    "IADD3 {d}, {P}, {a}, {b}, RZ",
    "IADD3 {d}, {P}, -{a}, {b}, RZ",
    "IADD3.X {d}, {a}, {b}, RZ, {p}, !PT",
    "IADD3.X {d}, {a}, ~{b}, {c}, {p}, {q}",
    "IMAD {d}, {a}, {b}, {c}",
    "IMAD.IADD {d}, {a}, 0x1, {c}",
    "IMAD.SHL.U32 {d}, {a}, 0x10, RZ",
    "IMAD.MOV.U32 {d}, RZ, RZ, {c}",
    "IMAD.X {d}, {a}, {b}, {c}, {p}",
    "IMAD.WIDE.U32 {dd}, {a}, {b}, {cc}",
    "IMAD.WIDE {dd}, {a}, {i}, {cc}",
    "IMAD.HI.U32 {d}, {a}, {b}, {cc}",
    "IMAD.HI.U32 {d}, {P}, {a}, {b}, {cc}",
    "IMAD.WIDE.U32 {dd}, {P}, {a}, {b}, {cc}",
    "LOP3.LUT {d}, {a}, {b}, {c}, {lut}, !PT",
    "LOP3.LUT {P}, {d}, {a}, {b}, {c}, {lut}, {p}",
    "SHF.L.U32 {d}, {a}, {b}, RZ",
    "SHF.R.U32.HI {d}, RZ, {s}, {c}",
    "SHF.R.S32.HI {d}, RZ, {b}, {c}",
    "SHF.L.U64.HI {d}, {a}, {s}, {c}",
    "SHF.R.U64 {d}, {a}, {b}, {c}",
    "SHF.L.W.U32.HI {d}, {a}, {b}, {c}",
    "LEA {d}, {P}, {a}, {b}, {t}",
    "LEA.HI {d}, {a}, {b}, {c}, {t}",
    "LEA.HI.X {d}, {a}, {b}, {c}, {t}, {p}",
    "LEA.HI.X.SX32 {d}, {a}, {b}, {t}, {p}",
    "ISETP.{cmp}.AND {P}, PT, {a}, {b}, {p}",
    "ISETP.{cmp}.U32.OR {P}, {Q}, {a}, {i}, {p}",
    "ISETP.{cmp}.AND.EX {P}, PT, {a}, {b}, PT, {p}",
    "SEL {d}, {a}, {b}, {p}",
    "IMNMX {d}, {a}, {b}, {p}",
    "IMNMX.U32 {d}, {a}, {b}, !{p}",
    "IADD.64 {dd}, {aa}, -{bb}",
    "IADD.64 {dd}, -{aa}, {i}",
    "MOV.64 {dd}, {aa}",
    "SEL.64 {dd}, {aa}, {bb}, {p}",
    "ISETP.{cmp}.S64.AND {P}, PT, {aa}, {bb}, {p}",
    "ISETP.{cmp}.U64.OR {P}, {Q}, {aa}, {i}, {p}",
    "IMNMX.S64 PT, PT, {dd}, {aa}, {bb}, {p}, !PT",
    "IMNMX.U64 PT, PT, {dd}, {aa}, {bb}, !{p}, !PT",
    "VIMNMX {d}, PT, PT, {a}, {b}, {p}",
    "VIMNMX.S32.RELU {d}, {a}, {b}, !PT",
    "VIMNMX3 {d}, {a}, {b}, {c}, {p}",
    "VIMNMX3.U32 {d}, {a}, {i}, {c}, !{p}",
    "FMNMX3 {d}, {a}, -{b}, {c}, {p}",
    "PRMT {d}, {a}, {i}, {c}",
    "POPC {d}, {a}",
    "FLO.U32 {d}, {a}",
    "FLO {d}, {a}",
    "BREV {d}, {a}",
    "IABS {d}, {a}",
    "SGXT {d}, {a}, 0x8",
    "FADD {d}, {a}, -{b}",
    "FADD.FTZ {d}, |{a}|, {b}",
    "FMUL {d}, {a}, {b}",
    "FMUL.FTZ {d}, {a}, {b}",
    "FFMA {d}, {a}, {b}, {c}",
    "FFMA.FTZ {d}, -{a}, {b}, {c}",
    "FFMA.RM {d}, {a}, {b}, {c}",
    "FFMA.RP {d}, {a}, {b}, {c}",
    "FADD.SAT {d}, {a}, {b}",
    "FMNMX {d}, {a}, {b}, {p}",
    "FSETP.{cmp}.AND {P}, PT, {a}, {b}, {p}",
    "FSETP.{cmp}U.OR {P}, PT, |{a}|, {b}, {p}",
    "FSEL {d}, {a}, {b}, {p}",
    "DADD {dd}, {aa}, {bb}",
    "DMUL {dd}, {aa}, {bb}",
    "DFMA {dd}, {aa}, {bb}, -{cc}",
    "DSETP.{cmp}.AND {P}, PT, {aa}, {bb}, {p}",
    "MUFU.RCP {d}, {a}",
    "MUFU.RSQ {d}, |{a}|",
    "MUFU.EX2 {d}, {a}",
    "I2F {d}, {a}",
    "I2F.U32.RP {d}, {a}",
    "I2F.F64 {dd}, {a}",
    "F2I.TRUNC.NTZ {d}, {a}",
    "F2I.FTZ.U32.TRUNC.NTZ {d}, {a}",
    "F2I.F64.TRUNC {d}, {aa}",
    "F2F.F32.F64 {d}, {aa}",
    "F2F.F64.F32 {dd}, {a}",
    "FRND.FLOOR {d}, {a}",
    "HADD2 {d}, {a}.H0_H0, -{b}",
    "HADD2.F32 {d}, -RZ, {b}.H1_H1",
    "HADD2.SAT {d}, |{a}|, {b}",
    "HMUL2 {d}, {a}, {b}.H1_H1",
    "HFMA2 {d}, {a}, {b}, -{c}",
    "HFMA2.MMA {d}, {a}, 1, 0.5, {c}.H0_H0",
    "HSETP2.{cmp}.AND {P}, PT, {a}, {b}.H0_H0, {p}",
    "HSET2.BF.{cmp}.OR {d}, {a}, {b}, {p}",
    "F2F.F16.F32 {d}, {a}",
    "F2FP.PACK_AB {d}, {a}, {b}",
    "I2F.S16 {d}, {a}",
    "I2F.F16 {d}, {a}",
    "F2I.F16.NTZ {d}, {a}",
    "F2I.U8.TRUNC.NTZ {d}, {a}",
    "IDP.4A.S8.U8 {d}, {a}, {b}, {c}",
    "IDP.2A.HI.S16.U8 {d}, {a}, {b}, {c}",
    "VABSDIFF {d}, {a}, {b}, {c}",
    "VABSDIFF4.U8.ACC {d}, {a}, {b}, {c}",
    "VABSDIFF4.S8 {d}, {a}, {b}, RZ",
    "PLOP3.LUT {P}, PT, {p}, {q}, PT, {lut}, 0x0",
    "MOV {d}, {i}",
    "CS2R {dd}, SR_CLOCKLO",
    "S2R {d}, SR_LANEID",
    "S2R {d}, SR_LTMASK",
    "SHFL.BFLY PT, {d}, {a}, {t}, 0x1f",
    "SHFL.IDX {P}, {d}, {a}, {b}, 0x1f",
    "SHFL.UP {P}, {d}, {a}, {t}, RZ",
    "SHFL.DOWN PT, {d}, {a}, {t}, 0x1c1f",
    "VOTE.ANY {d}, PT, {p}",
    "VOTE.ALL {P}, {p}",
    "MATCH.ANY {d}, {a}",
    "BMSK {d}, {a}, {b}",
    "HMMA.16816.F32 {dddd}, {aaaa}, {bb}, {cccc}",
    "HMMA.1688.F16 {dd}, {aa}, {b}, {cc}",
    "HMMA.16816.F32.BF16 {dddd}, {aaaa}, {bb}, RZ",
    "HMMA.16816.F16 {dd}, {aaaa}, {bb}, {cc}",
    "HMMA.1688.F32.TF32 {dddd}, {aaaa}, {bb}, {cccc}",
    "HMMA.1684.F32.TF32 {dddd}, {aa}, {b}, {cccc}",
    "HMMA.884.F32.F32.STEP1 {dd}, {aa}.ROW, {bb}.COL, {cc}",
    "HMMA.884.F16.F16.STEP0 {dd}, {aa}.COL, {bb}.ROW, {cc}",
    "IMMA.16832.S8.U8 {dddd}, {aaaa}.ROW, {bb}.COL, {cccc}",
    "IMMA.16832.S8.S8.SAT {dddd}, {aaaa}.ROW, {bb}.COL, {cccc}",
    "IMMA.16832.S4.U4 {dddd}, {aa}.ROW, {b}.COL, {cccc}",
    "BMMA.168256.XOR.POPC {dddd}, {aaaa}.ROW, {bb}.COL, {cccc}",
    "DMMA.884 {dddd}, {aa}, {bb}, {cccc}",
    "QMMA.16832.F32.E4M3.E5M2 {dddd}, {aaaa}.ROW, {bb}.COL, {cccc}",
    "QMMA.16816.F16.E5M2.E2M1 {dd}, {aa}.ROW, {b}.COL, {cc}",
    "MOVM.16.MT88 {d}, {a}",
    "F2FP.F16.E4M3.UNPACK_B {d}, {a}.H1",
    "F2FP.SATFINITE.E5M2.F32.PACK_AB_MERGE_C {d}, {a}, {b}, {c}",
    "F2FP.SATFINITE.E4M3.F16.UNPACK_B_MERGE_C {d}, {a}, {b}",
    "F2FP.TF32.F32.PACK_B {d}, {a}",
    "LDSM.16.M88.4 {dddd}, [R18]",
    "LDSM.16.MT88.2 {dd}, [R18+0x40]",
    "STSM.16.M88.4 [R18], {aaaa}",
    "STSM.16.MT88 [R18+0x20], {a}",
)
_SHARED: Final = (
    "LDC {d}, c[0x0][R20+0x10]",
    "LDC.128 {dddd}, c[0x0][0x10]",
    "LDS.U {d}, [R20]",
    "LDS.64 {dd}, [R21]",
    "STS [R20], {a}",
    "STS.64 [R21], {aa}",
    "ATOMS.ADD {d}, [R20], {a}",
    "ATOMS.ADD RZ, [R20+0x4], {a}",
    "ATOMS.CAS {d}, [R20], {a}, {b}",
    "ATOMS.MAX.S32 RZ, [R20], {a}",
    "ATOMS.EXCH {d}, [R20], {a}",
    "ATOMS.CAST.SPIN {P}, [R20], {a}, {b}",
    "ATOMS.CAST.SPIN.64 {P}, [R21], {aa}, {bb}",
    "BAR.ARV 0x7, 0x60",
)
_GLOBAL: Final = (
    "LDG.E.SYS {d}, [R22]",
    "LDG.E.U8.SYS {d}, [R22+0x1]",
    "STG.E.SYS [R22], {a}",
    "ATOMG.E.ADD.STRONG.GPU PT, {d}, [R22], {a}",
    "ATOMG.E.CAS.STRONG.GPU PT, {d}, [R22+0x4], {a}, {b}",
    "RED.E.MAX.S32.STRONG.GPU [R22], {a}",
    "RED.E.XOR.STRONG.GPU [R22], {a}",
    "RED.E.ADD.F32.FTZ.RN.STRONG.GPU [R22], {a}",
    "MEMBAR.SC.GPU",
    "MEMBAR.SC.SYS",
    "MEMBAR.SC.CTA",
    "CCTL.IVALL",
    "LDGSTS.E [R21], [R22.64]",
    "LDGSTS.E [R21], [R22.64], P1",
    "LDGDEPBAR",
    "DEPBAR.LE SB0, {few}",
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
    """Writes one piece as a listing, instruction by instruction."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
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


def piece(seed: int, length: int = 8) -> Function:
    """A kernel ``(inout int[WORDS], out int[threads][REGISTERS])`` of random code."""
    w = Writer(seed)
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
    """The GPU with a policy drawn, and for half of the pieces with instruction caches that are too small
    and few places for atomics."""
    machine = machine_from(load_gpu(gpu), str(random.choice(sorted(POLICIES))))
    if random.random() < 0.5:
        return machine
    fetch = FetchTiming(
        line_instructions=int(random.integers(1, 9)),
        l0=CacheShape(int(random.integers(1, 3)), int(random.integers(1, 5))),
        l1=CacheShape(int(random.integers(1, 4)), int(random.integers(1, 6))),
        prefetch_lines=int(random.integers(0, 4)),
        l0_miss_cycles=int(random.integers(1, 90)),
        request_interval_cycles=int(random.integers(1, 5)),
        warm=bool(random.integers(0, 2)),
    )
    few = dataclasses.replace(machine.global_atomics, in_flight=int(random.integers(1, 6)))
    return dataclasses.replace(machine, fetch=fetch, global_atomics=few)


def compare(seed: int, gpu: str = "v100", length: int = 8) -> Outcome:
    """Run a piece in both engines: registers (stored at the end), memory, cycles, counters, stalls."""
    random = np.random.default_rng(seed)
    blocks, threads, sms = int(random.integers(1, 4)), int(random.integers(8, 65)), int(random.integers(1, 3))
    function = piece(seed, length)
    image = listed_image(function)
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
