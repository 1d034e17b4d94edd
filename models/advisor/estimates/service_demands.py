"""What each instruction of a kernel takes of an SM, from the GPU's description and the profile's counters."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass import SassInstruction
from smlab.models.advisor.changes.matching import Context
from smlab.models.advisor.estimates.replay import ATOMIC, BARRIER, EXCHANGE, FREE, GLOBAL, WORK, Floats, Ints

PIPES: Final = (
    "int32", "fp32", "fp64", "fp16", "sfu", "control", "conversion", "uniform", "vote", "special-register",
    "tensor", "redux",
)  # fmt: skip
_BY_KIND: Final = {
    "fp32": "fp32", "fp64": "fp64", "fp16": "fp16", "tensor": "tensor", "control": "control",
    "uniform": "uniform", "conversion": "conversion",
}  # fmt: skip
_BY_OPCODE: Final = {
    "MUFU": "sfu", "POPC": "sfu", "FLO": "sfu", "BREV": "sfu", "S2R": "special-register",
    "S2UR": "special-register", "VOTE": "vote", "VOTEU": "vote", "REDUX": "redux",
    "CREDUX": "redux", "B2R": "sfu", "I2FP": "conversion", "FSETP": "int32", "FSEL": "int32",
    "FMNMX": "int32", "FCHK": "int32", "BMOV": "control", "DEPBAR": "control", "WARPSYNC": "control",
    "MEMBAR": "control", "ERRBAR": "control", "CCTL": "control", "FENCE": "control", "ULDC": "uniform",
}  # fmt: skip
"""Comparisons, minima and selections of FP32 values take the integer pipe (ALU in Nsight Compute)."""
_STORES: Final = ("ST", "STG", "STL", "STS", "RED", "REDG", "ATOM", "ATOMG", "ATOMS")
_EXCHANGES: Final = ("SHFL", "MATCH", "LDC", "LDCU")
_BETWEEN_LANES: Final = {"SHFL": "mio.shuffle_latency_cycles", "MATCH": "mio.match_latency_cycles"}
_MEMORY: Final = ("global", "local")
FAR_ATOMICS: Final = ("RED", "REDG", "ATOM", "ATOMG")
_QUEUED: Final = frozenset(("global", "local", "shared", "shared-atomic", "constant", "exchange"))


EXTRA: Final = ("arithmetic", "barrier", "store", "load", "constant", "shuffle", "flush")
"""Instructions that changes may add: an integer operation, a barrier, a word stored to and loaded from shared
memory, a constant that is loaded, a shuffle, an atomic on global memory (as one of the kernel's own)."""
INSTRUCTION_BYTES: Final = 16


def instructions_a_line(gpu: Gpu) -> int:
    """Instructions of a line of the instruction caches."""
    return max(1, gpu.integer("icache.line_bytes") // INSTRUCTION_BYTES)


@dataclass
class Costs:
    """What each instruction takes, arrays of shape ``(instructions + len(EXTRA),)``; ``work`` is by `WORK`.

    ``tail`` is what a result takes beyond its place in the queues, of accesses to global and local memory of
    the share ``miss`` that L1 does not have; the others take ``near``, and nothing beyond the data stage. The
    last rows are those of `EXTRA`.
    """

    stall: Ints
    unit: Ints
    pipe: Ints
    interval: Ints
    latency: Ints
    reading: Ints
    tail: Floats
    near: Floats
    miss: Floats
    work: Floats

    def extra(self, name: str) -> int:
        """The row of an instruction of `EXTRA`."""
        return len(self.stall) - len(EXTRA) + EXTRA.index(name)

    def take(self, number: int, other: int) -> None:
        """Let an instruction take what another does."""
        for f in dataclasses.fields(self):
            getattr(self, f.name)[number] = getattr(self, f.name)[other]

    def copy(self) -> Costs:
        return Costs(*(getattr(self, f.name).copy() for f in dataclasses.fields(self)))


def pipe_of(instruction: SassInstruction, kind: str) -> tuple[str, str]:
    """The pipe that arithmetic takes, and whose timing."""
    if instruction.opcode in ("IMAD", "IMUL"):
        return "fp32", "imad"
    if instruction.never_executed:
        return "control", "control"
    name = _BY_OPCODE.get(instruction.opcode) or _BY_KIND.get(kind, "int32")
    return name, name


def atomic_operation(instruction: SassInstruction) -> str:
    """Whose timing an atomic on shared memory has."""
    if any(m in ("CAS", "CAST") for m in instruction.modifiers):
        return "cas"
    return "popc_inc" if "POPC" in instruction.modifiers else "add"


def atomic_work(gpu: Gpu, instruction: SassInstruction, passes: float) -> tuple[float, float]:
    """Cycles of the data stage and of the atomic unit."""
    base, each = (
        gpu.number(f"atomic.{atomic_operation(instruction)}.{k}_interval_cycles") for k in ("base", "pass")
    )
    stage = gpu.number("atomic.stage_factor") * gpu.number("shared.interval_cycles_per_pass")
    return passes * stage, base + each * passes


def costs_of(context: Context) -> Costs:
    """From description and counters; tails are unloaded ones, of global memory L2's."""
    code, gpu = context.code, context.gpu
    size = len(code) + len(EXTRA)
    stall, unit, pipe, interval, latency, reading = (np.zeros(size, dtype=np.int64) for _ in range(6))
    tail, near, miss, work = np.zeros(size), np.zeros(size), np.ones(size), np.zeros((size, len(WORK)))
    costs = Costs(stall, unit, pipe, interval, latency, reading, tail, near, miss, work)
    costs.pipe[:] = -1
    for i, instruction in enumerate(code.instructions):
        row = context.rows.get(i)
        costs.stall[i] = code.stalls[i]
        passes = max(1.0, (row.passes if row is not None else None) or 1.0)
        kind = code.kinds[i]
        if row is not None and row.lanes == 0 and kind in _QUEUED and not instruction.never_executed:
            costs.unit[i] = FREE  # no lane ever takes part: it issues, and goes nowhere
        elif instruction.opcode == "BAR":
            costs.unit[i] = BARRIER
        elif not instruction.never_executed and (kind == "shared" or instruction.opcode in _EXCHANGES):
            _near(costs, i, gpu, instruction, kind, passes)
        elif kind == "shared-atomic":
            costs.unit[i] = ATOMIC
            costs.work[i, :2] = atomic_work(gpu, instruction, passes)
            unloaded = gpu.number(f"atomic.{atomic_operation(instruction)}.latency_cycles")
            service = atomic_work(gpu, instruction, 1.0)[1]
            costs.tail[i] = max(unloaded - gpu.number("mio.front_cycles") - service, 1.0)
            costs.reading[i] = gpu.integer("shared.store_read_cycles")
        elif kind in _MEMORY:
            _far(costs, i, gpu, instruction, passes)
        else:
            _arithmetic(costs, i, gpu, *pipe_of(instruction, kind))
    _extras(costs, gpu)
    return costs


def _extras(costs: Costs, gpu: Gpu) -> None:
    """The rows of `EXTRA`; that of a flush is set where it is used."""
    row = costs.extra
    _arithmetic(costs, row("arithmetic"), gpu, "int32", "int32")
    costs.stall[[row("arithmetic"), row("barrier")]] = costs.latency[row("arithmetic")]
    costs.stall[[row(name) for name in ("store", "load", "constant", "shuffle", "flush")]] = 1
    costs.unit[row("barrier")] = BARRIER
    _exchange(costs, row("store"), gpu, "shared.store", gpu.number("shared.interval_cycles_per_pass"))
    _exchange(costs, row("load"), gpu, "shared.load", gpu.number("shared.interval_cycles_per_pass"))
    _exchange(costs, row("constant"), gpu, "constant", 0.0)
    costs.take(row("shuffle"), row("load"))
    costs.tail[row("shuffle")] = gpu.number("mio.shuffle_latency_cycles") - gpu.number("mio.front_cycles") - 1


def _exchange(costs: Costs, i: int, gpu: Gpu, name: str, stage: float) -> None:
    costs.unit[i], costs.work[i, 0] = EXCHANGE, stage
    costs.reading[i] = gpu.integer(f"{name}_read_cycles" if "." in name else f"{name}.read_cycles")
    latency = gpu.number(f"{name}_latency_cycles" if "." in name else f"{name}.latency_cycles")
    costs.tail[i] = max(latency - gpu.number("mio.front_cycles") - min(stage, 1.0), 1.0)


def _arithmetic(costs: Costs, i: int, gpu: Gpu, pipe: str, timing: str) -> None:
    costs.pipe[i] = PIPES.index(pipe)
    costs.interval[i] = round(gpu.number(f"pipe.{timing}.interval_cycles"))
    costs.latency[i] = round(gpu.number(f"pipe.{timing}.latency_cycles"))


def _near(costs: Costs, i: int, gpu: Gpu, instruction: SassInstruction, kind: str, passes: float) -> None:
    """Shared memory, shuffles, matches, constants that are loaded."""
    costs.unit[i] = EXCHANGE
    stores = instruction.opcode in _STORES
    if kind == "constant":
        indexed = any(o.registers for o in instruction.operands[1:])
        key, stage = ("constant." if indexed else "constant.immediate_") + "latency_cycles", 0.0
        costs.reading[i] = gpu.integer("constant.read_cycles")
    else:
        key = f"shared.{'store' if stores else 'load'}_latency_cycles"
        key = _BETWEEN_LANES.get(instruction.opcode, key)
        each = "mio.match_pass_cycles" if instruction.opcode == "MATCH" else "shared.interval_cycles_per_pass"
        stage = passes * gpu.number(each)
        costs.reading[i] = gpu.integer(f"shared.{'store' if stores else 'load'}_read_cycles")
    costs.work[i, 0] = stage
    costs.tail[i] = max(gpu.number(key) - gpu.number("mio.front_cycles") - min(stage, 1.0), 1.0)


def _far(costs: Costs, i: int, gpu: Gpu, instruction: SassInstruction, passes: float) -> None:
    """Global and local memory; who takes how much of port, L2 and DRAM comes later."""
    front = gpu.number("mio.front_cycles")
    costs.unit[i] = GLOBAL
    costs.work[i, 0] = passes * gpu.number("l1.interval_cycles_per_line")
    costs.near[i] = gpu.number("l1.latency_cycles") - front - 1
    costs.tail[i] = gpu.number("l2.latency_cycles") - front - 1
    costs.reading[i] = gpu.integer(f"l1.{'store' if instruction.opcode in _STORES else 'load'}_read_cycles")
