"""Which counters the shared-atomic utilization model needs, what else will do, and how to collect them.

Names and what stands in for them, by tool and architecture:

- Nsight Compute, sm_70 to sm_90: jobs are ``smsp__inst_executed_op_shared_atom.sum``; on sm_89, where a
  sibling of that counter read 2.65 times what the ``sass`` one did,
  ``sm__sass_inst_executed_op_shared_atom.sum``.
- nvprof, up to sm_72: it alone gives each SM by itself. It has no counter of the passes, so that e comes from
  active lanes.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu

JOBS: Final = "smsp__inst_executed_op_shared_atom.sum"
JOBS_SASS: Final = (
    "sm__sass_inst_executed_op_shared_atom.sum",
    "smsp__sass_inst_executed_op_shared_atom.sum",
)
ALU: Final = "smsp__inst_executed_op_shared_atom_dot_alu.sum"
CAS: Final = "smsp__inst_executed_op_shared_atom_dot_cas.sum"
WAVEFRONTS: Final = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum"
CONFLICTS: Final = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_atom.sum"
THREADS: Final = "smsp__thread_inst_executed_op_shared_atom.sum"
LANES: Final = "smsp__thread_inst_executed_per_inst_executed.ratio"
ELAPSED: Final = "sm__cycles_elapsed.max"
ACTIVE: Final = "sm__cycles_active.avg"
WARPS: Final = "sm__warps_active.avg.per_cycle_active"
WARPS_PERCENT: Final = "sm__warps_active.avg.pct_of_peak_sustained_active"
PEAK_WARPS: Final = "sm__maximum_warps_avg_per_active_cycle"
PEAK_WARPS_PERCENT: Final = "sm__maximum_warps_per_active_cycle_pct"
GRID: Final = "launch__grid_size"
BLOCK: Final = "launch__block_size"


@dataclass(frozen=True)
class Need:
    """One counter to collect: the quantity it gives, its unit, what it counts, and what will do in its
    place."""

    quantity: str
    counter: str
    unit: str
    doc: str
    fallbacks: tuple[str, ...] = ()


@dataclass(frozen=True)
class HowTo:
    """How to collect what the model needs: the tool, the whole command line, and the counters it asks for."""

    tool: str
    command: str
    counters: tuple[Need, ...]


def _needs() -> dict[str, tuple[Need, ...]]:
    """The rows of ``needs.csv`` by who needs them."""
    found: dict[str, list[Need]] = {}
    text = Path(__file__).with_name("needs.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        fallbacks = tuple(filter(None, row["fallbacks"].split(" | ")))
        need = Need(row["quantity"], row["counter"], row["unit"], row["doc"], fallbacks)
        found.setdefault(row["tool"], []).append(need)
    return {tool: tuple(rows) for tool, rows in found.items()}


_NEEDS: Final = _needs()
(_TOTAL,), _NCU, _NVPROF = (_NEEDS[tool] for tool in ("total", "ncu", "nvprof"))
_REQUESTS: Final = _NEEDS["requests"]
"""What else goes through the memory path: narrows the answer, and need not be there."""

STATE: Final = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
"""Mean warps in a state for each instruction that is issued: the counters of warp state statistics."""

EXECUTED_PLAIN: Final = "smsp__inst_executed_op_{}.sum"
EXECUTED: Final = "smsp__sass_inst_executed_op_{}.sum"
SHARED_WAVEFRONTS: Final = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
SECTORS: Final = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
STATES: Final = (
    *("selected", "not_selected", "short_scoreboard", "mio_throttle", "long_scoreboard", "lg_throttle"),
    *("barrier", "drain", "wait", "math_pipe_throttle", "tex_throttle", "dispatch_stall"),
    *("no_instruction", "branch_resolving", "imc_miss", "membar", "sleeping", "misc"),
)
"""The warp states of Nsight Compute from sm_70 on (newer ones have gmma and warpgroup_arrive as well)."""
_STATES: Final = tuple(
    Need(
        "warp states",
        STATE.format(name),
        "warp",
        f"warps that are {name.replace('_', ' ')}, for each instruction issued",
        (f"smsp__average_warp_latency_issue_stalled_{name}.ratio",),
    )
    for name in STATES
)


def capability_number(capability: str) -> int:
    """70 for ``"7.0"``; `SmlabError` for what is no compute capability."""
    major, _, minor = capability.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise SmlabError.at("compute capability", "is not a version", capability, "such as 8.0")
    return 10 * int(major) + int(minor)


def how(gpu: Gpu, tool: str = "ncu") -> HowTo:
    """What to collect on ``gpu`` with ``tool`` (``ncu`` or ``nvprof``), and the command line that does it."""
    return how_for(gpu.compute_capability, tool)


def how_for(capability: str, tool: str = "ncu") -> HowTo:
    """As `how`, by compute capability, such as ``"8.0"``."""
    number = capability_number(capability)
    if tool == "nvprof":
        if number > 72:
            raise SmlabError.at(f"nvprof on sm_{number}", "not supported by nvprof", expected="ncu")
        events = ",".join(n.counter for n in _NVPROF)
        options = f"--csv --print-gpu-trace --aggregate-mode off --events {events} --log-file profile.csv"
        return HowTo("nvprof", f"nvprof {options} APPLICATION", _NVPROF)
    if tool != "ncu":
        raise SmlabError.at("tool", "unknown", tool, "ncu or nvprof")
    if number < 70:
        raise SmlabError.at(f"ncu on sm_{number}", "not supported by ncu", expected="sm_70 or later")
    counters: tuple[Need, ...] = (_TOTAL, *_NCU)
    if prefers_sass(capability):
        others = (JOBS_SASS[1], JOBS, f"{ALU} + {CAS}")
        total = Need("jobs", JOBS_SASS[0], "inst", _TOTAL.doc, others)
        counters = (total, Need("cas_jobs", JOBS, "inst", "to scale the share of compare-and-swap"), *_NCU)
    counters += (*_REQUESTS, *_STATES)
    metrics = ",".join(n.counter for n in counters)
    options = f"--csv --print-units base --log-file profile.csv --metrics {metrics}"
    return HowTo("ncu", f"ncu {options} APPLICATION", counters)


def prefers_sass(capability: str | None) -> bool:
    """Whether the ``sass`` counters are the ones to believe: on sm_89."""
    return capability == "8.9"
