"""Units as profilers write them, brought to base units; and the unit that a counter's name implies.

Base units are those of Nsight Compute's ``--print-units base`` (byte, inst, cycle, sector, request, warp,
thread, block, register, %), except that times are in seconds and rates a second. Nsight Compute counts in
thousands (its Kbyte is 1000 bytes: 8.192 Kbyte for 8192 in one report and its CSV); nvprof in 1024 (inferred:
a published trace sets 1.003906 KB in 1.888 us and calls it 0.507097 GB/s, which is whole bytes and right with
1024 only).
"""

from __future__ import annotations

import functools
import re
from typing import Final

from smlab.hw_bench.profiles.profile import UNKNOWN_UNIT

_TIMES: Final = {"n": 10**9, "u": 10**6, "m": 10**3, "": 1}
_THOUSANDS: Final = {"": 1, "K": 10**3, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_PLURALS: Final = {
    "sectors": "sector",
    "bytes": "byte",
    "cycles": "cycle",
    "requests": "request",
    "insts": "inst",
}

Scale = tuple[int, int, str]
"""Multiply by the first, divide by the second; then the value is in the third."""


def _part(unit: str) -> Scale:
    time = re.fullmatch(r"([num]?)s(?:ec|econd)?", unit)
    if time:
        return 1, _TIMES[time[1]], "second"
    byte = re.fullmatch(r"([KkMGT]?)bytes?", unit)
    if byte:
        return _THOUSANDS[byte[1]], 1, "byte"
    hertz = re.fullmatch(r"([KkMGT]?)[hH]z", unit)
    if hertz:
        return _THOUSANDS[hertz[1]], 1, "cycle/second"
    return 1, 1, _PLURALS.get(unit, unit)


@functools.cache
def scale(unit: str) -> Scale:
    """How to bring a value of Nsight Compute's ``unit`` to its base unit: (multiply by, divide by, base
    unit).

    An unknown unit is a base unit: (1, 1, unit).
    """
    top, slash, bottom = unit.strip().partition("/")
    up, down, name = _part(top)
    if not slash:
        return up, down, name
    below_up, below_down, below = _part(bottom)
    return up * below_down, down * below_up, f"{name}/{below}"


_NVPROF_UNITS: Final[dict[str, Scale]] = {
    "": (1, 1, ""),
    "%": (1, 1, "%"),
    "s": (1, 1, "second"),
    "ms": (1, 10**3, "second"),
    "us": (1, 10**6, "second"),
    "ns": (1, 10**9, "second"),
    **{f"{p}B": (1024**i, 1, "byte") for i, p in enumerate(("", "K", "M", "G", "T"))},
    **{f"{p}B/s": (1024**i, 1, "byte/second") for i, p in enumerate(("", "K", "M", "G", "T"))},
}


def nvprof_scale(unit: str) -> Scale:
    """As `scale`, for the units that nvprof writes into its unit row or behind a value."""
    return _NVPROF_UNITS.get(unit.strip()) or scale(unit)


_NVPROF_NAMES: Final[tuple[tuple[str, str], ...]] = (
    (r"active_cycles\w*|elapsed_cycles\w*", "cycle"),
    (r"active_warps\w*|warps_launched", "warp"),
    (r"active_ctas|sm_cta_launched", "block"),
    (r"achieved_occupancy", "ratio"),
    (r"(?:shared|global|generic|local)_(?:load|store|atom|atom_cas|red)", "inst"),
    (r"(?:thread_)?(?:not_predicated_off_thread_)?inst_(?:executed|issued)\w*", "inst"),
    (r"inst_(?:fp_\d+|integer|bit_convert|control|compute_ld_st|misc|inter_thread_communication)", "inst"),
    (r"ipc|issued_ipc", "inst/cycle"),
    (r"\w+_transactions", "transaction"),
    (r"flop_count_\w+", "flop"),
    (r"\w+_(?:efficiency|hit_rate)|stall_\w+", "%"),
    (r"\w+_bytes", "byte"),
)

_NCU_BASES: Final[tuple[tuple[str, str], ...]] = (
    (r"time_duration", "second"),
    (r"cycles", "cycle"),
    (r"bank_conflicts|wavefronts|throughput", ""),
    (r"(?:^|_)bytes", "byte"),
    (r"sectors", "sector"),
    (r"requests", "request"),
    (r"(?:^|_)inst(?:_|$)|(?:^|_)insts", "inst"),
    (r"(?:^|_)warps", "warp"),
)


_LAUNCH_NAMES: Final[tuple[tuple[str, str], ...]] = (
    (r"launch__(?:grid|block)_size|launch__sm_count|launch__waves_per_multiprocessor", ""),
    (r"launch__thread_count", "thread"),
    (r"launch__registers_per_thread\w*", "register/thread"),
    (r"launch__shared_mem_per_block\w*", "byte/block"),
    (r"launch__occupancy_limit_\w+", "block"),
)
"""As Nsight Compute 2021 to 2024 print them."""


@functools.cache
def unit_of_name(counter: str) -> str:
    """The base unit that a counter's name implies; `UNKNOWN_UNIT` where it implies none.

    >>> unit_of_name("sm__cycles_elapsed.avg.per_second"), unit_of_name("dram__bytes.sum"),
    unit_of_name("shared_atom")
    ('cycle/second', 'byte', 'inst')
    """
    if "__" not in counter:
        for pattern, unit in _NVPROF_NAMES:
            if re.fullmatch(pattern, counter):
                return unit
        return UNKNOWN_UNIT
    stem, *rollups = counter.split(".")
    if any(r.startswith("pct") for r in rollups) or stem.endswith("_pct"):
        return "%"
    if "ratio" in rollups:
        return ""
    if stem.startswith("launch__"):
        return next((unit for pattern, unit in _LAUNCH_NAMES if re.fullmatch(pattern, stem)), UNKNOWN_UNIT)
    if stem.startswith("device__"):
        return "" if stem.endswith("_count") else UNKNOWN_UNIT
    if stem == "sm__maximum_warps_avg_per_active_cycle":
        return "warp"
    if stem.endswith("per_inst_executed"):
        return ""
    quantity = stem.partition("__")[2]
    base = next((unit for pattern, unit in _NCU_BASES if re.search(pattern, quantity)), UNKNOWN_UNIT)
    if base == UNKNOWN_UNIT:
        return base
    last = rollups[-1] if rollups else ""
    if last == "per_second":
        return f"{base}/second"
    if last.startswith(
        "per_cycle"
    ):  # warps a cycle are given as warps, as in sm__warps_active.avg.per_cycle_active
        return "warp" if base == "warp" else f"{base}/cycle" if base else ""
    if last.startswith("peak_sustained"):
        return f"{base}/cycle" if base else ""
    return base


def scale_of_name(counter: str) -> Scale:
    """As `scale`, for a table with no units: what ``--print-units base`` prints, where times are in
    nanoseconds."""
    unit = unit_of_name(counter)
    return (1, 10**9, unit) if unit == "second" else (1, 1, unit)
