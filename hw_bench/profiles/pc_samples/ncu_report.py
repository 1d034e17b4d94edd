"""Samples by instruction, and the cubin that ran, from Nsight Compute's own reports (``.ncu-rep``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import read_bytes
from smlab.hw_bench.profiles.ncu.ncu_report_process import read_in_process
from smlab.hw_bench.profiles.pc_samples.samples import (
    SELECTED,
    InstructionSamples,
    KernelSamples,
    LaunchFacts,
)
from smlab.hw_bench.sass.cubin import read_cubin

_STALLED: Final = "smsp__pcsamp_warps_issue_stalled_"
_NOT_ISSUED: Final = "_not_issued"
_ELF: Final = b"\x7fELF\x02\x01"
_FACTS: Final = {
    "blocks": "launch__grid_size",
    "threads_per_block": "launch__block_size",
    "registers_per_thread": "launch__registers_per_thread",
    "shared_bytes_per_block": "launch__shared_mem_per_block_allocated",
    "sms": "device__attribute_multiprocessor_count",
}


_CYCLES: Final = ("sm__cycles_elapsed.max", "gpc__cycles_elapsed.max", "smsp__cycles_active.avg")
"""The kernel's time, in cycles of the SMs; the GPCs have the same clock."""
_COUNTED: Final = {
    "wavefronts": "memory_l1_wavefronts_shared",
    "wavefronts_ideal": "memory_l1_wavefronts_shared_ideal",
    "lines": "memory_l1_tag_requests_global",
    "sectors": "memory_l2_theoretical_sectors_global",
    "sectors_ideal": "memory_l2_theoretical_sectors_global_ideal",
}
"""Counts by instruction of what its accesses ask for."""
_BUSY: Final = {
    "issue": "sm__inst_issued.avg.pct_of_peak_sustained_elapsed",
    "dram": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "l2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "memory": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "fp64": "sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active",
    "fp32": "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    "int32": "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active",
    "sfu": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
}
"""Utilizations, by the resource."""


def read_report_samples(path: Path) -> tuple[KernelSamples, ...]:
    """The samples of each kernel of a report that was made with source counters.

    Raises:
        SmlabError: no ncu-report, a damaged report, a report without samples.
    """
    kernels = read_in_process(path, _kernels, "source")
    if not kernels:
        wanted = "ncu --set full, or --section SourceCounters"
        raise SmlabError.at(str(path), "holds no samples by instruction", expected=wanted)
    return kernels


def _cubins(content: bytes) -> dict[str, bytes]:
    """The CUDA binaries that lie in the report as they are, by the names of their functions."""
    cubins: dict[str, bytes] = {}
    at = content.find(_ELF)
    while at >= 0:
        try:
            cubin = read_cubin(content[at:])
            for function in cubin.functions:
                cubins.setdefault(function.name, content[at:])
        except SmlabError:
            pass
        at = content.find(_ELF, at + 1)
    return cubins


def _kernels(where: str, ncu: Any) -> tuple[KernelSamples, ...]:
    kernels = []
    cubins = _cubins(read_bytes(Path(where)))
    report = ncu.load_report(where)
    for i in range(report.num_ranges()):
        results = report.range_by_idx(i)
        for j in range(results.num_actions()):
            kernel = _kernel(where, results.action_by_idx(j), cubins)
            if kernel is not None:
                kernels.append(kernel)
    return tuple(kernels)


def _kernel(where: str, action: Any, cubins: dict[str, bytes]) -> KernelSamples | None:
    stalled: dict[int, dict[str, int]] = {}
    waiting: dict[int, dict[str, int]] = {}
    for name in action.metric_names():
        if not name.startswith(_STALLED):
            continue
        reason = name.removeprefix(_STALLED)
        table = waiting if reason.endswith(_NOT_ISSUED) else stalled
        reason = reason.removesuffix(_NOT_ISSUED)
        for address, count in _by_address(action.metric_by_name(name)):
            table.setdefault(address, {})
            if count:
                table[address][reason] = int(count)
    if not any(stalled.values()):
        return None
    executed = dict(_by_address(action.metric_by_name("inst_executed")))
    lanes = dict(_by_address(action.metric_by_name("thread_inst_executed")))
    counted = {name: dict(_by_address(action.metric_by_name(metric))) for name, metric in _COUNTED.items()}
    first = _number(action, "launch__function_pcs")
    base = int(first) if first is not None else min(stalled)
    rows = []
    for address in sorted(stalled):
        counts = stalled[address]
        late = {r: min(c, counts.get(r, 0)) for r, c in waiting.get(address, {}).items() if r != SELECTED}
        info = action.source_info(address)
        times = executed.get(address)
        rows.append(
            InstructionSamples(
                address - base,
                str(action.sass_by_pc(address) or "").strip(),
                int(info.line()) if info is not None else None,
                counts,
                {r: c for r, c in late.items() if c},
                int(times) if times is not None else None,
                lanes[address] / times if times and address in lanes else None,
                **_accesses(address, times, counted),
            )
        )
    name = str(action.name() or "kernel")
    major, minor = (_number(action, f"device__attribute_compute_capability_{x}") for x in ("major", "minor"))
    mangled = str(action.name(action.NameBase_MANGLED) or name)
    return KernelSamples(
        kernel=name,
        rows=tuple(rows),
        where=where,
        architecture=None if major is None or minor is None else f"sm_{int(major)}{int(minor)}",
        device=_text(action, "device__attribute_display_name"),
        launch=_facts(action),
        cubin=cubins.get(mangled) or cubins.get(name),
        period_cycles=_whole(action, "smsp__pcsamp_interval_cycles"),
        source=_source(action, name),
        busy=_busy(action),
        excess=_excess(counted),
    )


def _accesses(
    address: int, times: float | None, counted: dict[str, dict[int, float]]
) -> dict[str, float | None]:
    """Passes and sectors of an execution, where the report counts them for this instruction."""

    def mean(name: str) -> float | None:
        count = counted[name].get(address)
        return count / times if count and times else None

    return {
        "passes": mean("wavefronts") or mean("lines"),
        "passes_ideal": mean("wavefronts_ideal"),
        "sectors": mean("sectors"),
        "sectors_ideal": mean("sectors_ideal"),
    }


def _excess(counted: dict[str, dict[int, float]]) -> dict[str, float]:
    """How many times as many sectors of L2 global accesses ask for as their bytes fill."""
    asked, ideal = (sum(counted[name].values()) for name in ("sectors", "sectors_ideal"))
    return {"l2": asked / ideal} if asked and ideal else {}


def _by_address(metric: Any) -> list[tuple[int, float]]:
    if metric is None or not metric.num_instances() or not metric.has_correlation_ids():
        return []
    places = metric.correlation_ids()
    return [(int(places.value(n)), metric.value(n)) for n in range(metric.num_instances())]


def _number(action: Any, name: str) -> float | None:
    metric = action.metric_by_name(name)
    if metric is None:
        return None
    value = metric.value(0) if metric.num_instances() else metric.value()
    return float(value) if isinstance(value, int | float) else None


def _text(action: Any, name: str) -> str | None:
    metric = action.metric_by_name(name)
    value = None if metric is None else metric.value()
    return value.strip() or None if isinstance(value, str) else None


def _whole(action: Any, name: str) -> int | None:
    value = _number(action, name)
    return None if value is None else int(value)


def _facts(action: Any) -> LaunchFacts:
    facts: dict[str, Any] = {key: _whole(action, name) for key, name in _FACTS.items()}
    warps = _number(action, "smsp__warps_active.avg.per_cycle_active")
    sm_warps = _number(action, "sm__warps_active.avg.per_cycle_active")
    facts["warps_per_scheduler"] = warps or (None if sm_warps is None else sm_warps / 4)
    named = (_number(action, name) for name in _CYCLES)
    facts["cycles"] = next((cycles for cycles in named if cycles), None)
    return LaunchFacts(**facts)


def _source(action: Any, kernel: str) -> dict[int, str]:
    """The lines of the first source file that the report holds, if it holds any."""
    files = action.source_files() or {}
    for text in files.values():
        if text and kernel.split("(")[0] in text:
            return dict(enumerate(text.splitlines(), start=1))
    return {}


def _busy(action: Any) -> dict[str, float]:
    shares = {name: _number(action, metric) for name, metric in _BUSY.items()}
    return {name: min(share / 100, 1.0) for name, share in shares.items() if share}
