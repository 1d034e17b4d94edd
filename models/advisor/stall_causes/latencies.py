"""Latencies by opcode: the paper's, those of its code, and ours from the GPU's description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass import SassInstruction
from smlab.hw_bench.sass.opcodes import kind_of_opcode

UPPER_GLOBAL: Final = 1029
"""A miss of the TLB on V100 (Jia et al. 2018), the paper's upper bound for global memory."""

SECTOR_BYTES: Final = 32

_PAPER: Final[Mapping[int, str]] = {
    UPPER_GLOBAL: "global local constant barrier",
    80: "shared shared-atomic",
    33: "tensor",
    31: "special exchange",
    14: "conversion other",
    10: "control",
    8: "fp64",
    6: "fp16 uniform",
    5: "int",
    4: "fp32",
}
_CODE: Final[Mapping[int, str]] = {
    1024: "global local constant barrier",
    80: "shared shared-atomic exchange",
    14: "special conversion",
    8: "fp64",
    4: "int fp32 fp16 uniform control other tensor",
}


def _by_kind(table: Mapping[int, str]) -> dict[str, float]:
    return {kind: float(cycles) for cycles, kinds in table.items() for kind in kinds.split()}


@dataclass(frozen=True)
class Latencies:
    """``upper`` bounds how many cycles after its issue an instruction can still hold others up; ``expected``
    is how long it usually does; of loads that L1 has the words of ``hit_cycles``. Requests of ``schedulers``
    queues of ``queue_entries`` share a data stage; beyond L1 lie L2 and DRAM, which moves a sector in
    ``sector_cycles`` for one of ``sms``."""

    upper: Callable[[SassInstruction], float]
    expected: Callable[[SassInstruction], float]
    hit_cycles: float = 0.0
    schedulers: float = 4.0
    queue_entries: float = 0.0
    l2_cycles: float = 0.0
    dram_cycles: float = 0.0
    sector_cycles: float = 0.0
    sms: float = 1.0


def published_latencies() -> Latencies:
    """As the paper: Volta's by micro-benchmark, upper bounds for what varies."""
    table = _by_kind(_PAPER)

    def upper(instruction: SassInstruction) -> float:
        return table[kind_of_opcode(instruction)]

    return Latencies(upper, upper)


def coded_latencies() -> Latencies:
    """As its code: 5 for IMAD, 4 for other arithmetic, 8 for FP64, 14 for MUFU and conversions, 80 for
    shared, 1024 for other memory, whatever the GPU."""
    table = _by_kind(_CODE)

    def upper(instruction: SassInstruction) -> float:
        return 5.0 if instruction.opcode == "IMAD" else table[kind_of_opcode(instruction)]

    return Latencies(upper, upper)


def described_latencies(gpu: Gpu) -> Latencies:
    """From a GPU's description. What goes through queues has no upper bound, so nothing is pruned by it."""

    def expected(instruction: SassInstruction) -> float:
        kind = kind_of_opcode(instruction)
        if kind in ("global", "local"):
            return gpu.number("l2.latency_cycles")
        if kind == "shared":
            return gpu.number("shared.load_latency_cycles")
        if kind == "shared-atomic":
            return gpu.number("atomic.add.latency_cycles")
        if kind in ("special", "conversion", "exchange"):
            return gpu.number("pipe.sfu.latency_cycles")
        if kind == "constant":
            return gpu.number("l1.latency_cycles")
        pipe = {"fp64": "fp64", "fp16": "fp16", "fp32": "fp32"}.get(kind, "int32")
        return gpu.number(f"pipe.{pipe}.latency_cycles")

    def upper(instruction: SassInstruction) -> float:
        return float("inf") if kind_of_opcode(instruction) in _QUEUED else 2 * expected(instruction)

    return Latencies(
        upper,
        expected,
        gpu.number("l1.latency_cycles"),
        gpu.number("sm.schedulers"),
        gpu.number("mio.queue_entries"),
        gpu.number("l2.latency_cycles"),
        gpu.number("dram.latency_cycles"),
        SECTOR_BYTES * gpu.number("clock.sm_hz") / gpu.number("dram.sustained_bandwidth_bytes_per_s"),
        gpu.number("gpu.sms"),
    )


_QUEUED: Final = frozenset(("global", "local", "shared", "shared-atomic", "constant", "special", "exchange"))
