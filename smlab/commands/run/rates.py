"""The rates that a run's counters make with its time."""

from __future__ import annotations

from typing import Final

from smlab.sim.execution.run import TimedRun
from smlab.validation.grid_counters import TENSOR_SOURCES, whole_gpu

OPERATIONS: Final = {"add": 1, "mul": 1, "fma": 2}
"""Floating-point operations that a lane does in one instruction."""
_RATES: Final = {
    "warp_instructions_per_s": "smsp__inst_executed.sum",
    "l1_bytes_per_s": "l1tex__t_bytes.sum",
    "l2_bytes_per_s": "lts__t_bytes.sum",
    "dram_bytes_per_s": "dram__bytes.sum",
}


def rates(done: TimedRun, seconds: float) -> dict[str, float]:
    """What the whole grid does a second. ``flops_per_s`` has those of tensor cores on floats."""
    counted = whole_gpu(done)
    flops = sum(
        times * counted[f"smsp__sass_thread_inst_executed_op_{letter}{operation}_pred_on.sum"]
        for letter in "hfd"
        for operation, times in OPERATIONS.items()
    )
    flops += sum(v for n, v in counted.items() if n.startswith("sm__ops_path_tensor") and "_int" not in n)
    by_name = {name: counted[counter] / seconds for name, counter in _RATES.items()}
    by_name["flops_per_s"] = flops / seconds
    for kind, name in TENSOR_SOURCES.items():
        if (operations := counted.get(f"sm__ops_path_tensor_{name}.sum")) is not None:
            by_name[f"tensor_{kind}_ops_per_s"] = operations / seconds
    return by_name


def tensor_lines(done: TimedRun, seconds: float) -> list[str]:
    """What the tensor cores did, a line for each type of products, and how much of the peak that is."""
    machine, lines = done.lowered.machine, []
    for name, value in rates(done, seconds).items():
        if not name.startswith("tensor_"):
            continue
        kind = name.removeprefix("tensor_").removesuffix("_ops_per_s")
        peak = 2 * machine.peak_multiply_adds(kind) * machine.sms * machine.sm_hz
        lines.append(
            f"tensor cores, {kind.replace('_', ' with sums in ')}: {value / 1e12:,.1f} T operations/s, "
            f"{100 * value / peak:.1f} % of the peak"
        )
    return lines
