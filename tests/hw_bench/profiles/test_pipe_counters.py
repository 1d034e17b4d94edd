"""What each arithmetic pipe executed: by hand, in every spelling, and where only the rest is known."""

from __future__ import annotations

import numpy as np
import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles import Profile
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterRow, CounterTable
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.hw_bench.profiles.work.roofline_quantities import roofline_quantities
from smlab.models.roofline.ceilings import RESOURCES, ceilings

TURING = load_gpu("rtx-2080-ti")
SHARE = "avg.pct_of_peak_sustained_active"
Counters = dict[str, tuple[float, str]]
BASE: Counters = {
    "gpu__time_duration.sum": (1e-3, "second"),
    "smsp__inst_executed.sum": (8000.0, "inst"),
    "smsp__thread_inst_executed.sum": (256_000.0, "inst"),
}
ISSUE: Counters = {f"smsp__issue_active.{SHARE}": (50.0, "%")}
KINDS: Counters = {
    f"smsp__sass_thread_inst_executed_op_{kind}_pred_on.sum": (count, "inst")
    for kind, count in {
        **dict.fromkeys(("fp16", "fp64", "misc", "conversion"), 0.0),
        **{"fp32": 96_000.0, "integer": 64_000.0, "control": 16_000.0, "memory": 16_000.0},
    }.items()
}


def read(counters: Counters) -> KernelWork:
    rows = [CounterRow("k", 0, WHOLE_GPU, name, value, unit) for name, (value, unit) in counters.items()]
    table = CounterTable.from_rows(rows)
    profile = Profile("p.csv", "counter-table", "smlab", table, np.arange(len(table)) + 2)
    return roofline_quantities(profile, TURING).work


def test_a_share_goes_over_the_cycles_that_the_schedulers_worked() -> None:
    """8,000 instructions in half of the cycles: 16,000 cycles. A special function takes 8 of them: a quarter
    is 500 instructions; an integer instruction takes 2: three eighths are 3,000."""
    shares: Counters = {
        f"smsp__inst_executed_pipe_xu.{SHARE}": (25.0, "%"),
        f"sm__inst_executed_pipe_alu.{SHARE}": (37.5, "%"),
    }
    work = read(BASE | ISSUE | shares)
    assert work.xu_instructions[0] == pytest.approx(500)
    assert work.alu_instructions[0] == pytest.approx(3000)
    counted = read(BASE | ISSUE | shares | {"smsp__inst_executed_pipe_xu.sum": (480.0, "inst")})
    assert counted.xu_instructions[0] == 480
    assert np.isnan(read(BASE | shares).xu_instructions[0])


@pytest.mark.parametrize(
    "of_fma",
    [
        ISSUE | {f"smsp__pipe_fma_cycles_active.{SHARE}": (25.0, "%")},
        {"smsp__pipe_fma_cycles_active.sum": (4000.0, "cycle")},
        {"smsp__inst_executed_pipe_fma.sum": (2000.0, "inst")},
        {
            "sm__inst_executed_pipe_fmaheavy.sum": (1500.0, "inst"),
            "sm__inst_executed_pipe_fmalite.sum": (500.0, "inst"),
        },
    ],
)
def test_comparisons_are_no_multiply_adds(of_fma: Counters) -> None:
    """Of 3,000 FP32 instructions 2,000 went through the multiply-add pipe. The ALU had the other
    1,000 and the 2,000 of integers, and a third more that predicates switched off."""
    work = read(BASE | KINDS | of_fma)
    assert work.fma[0, 1] == pytest.approx(2000 * 32)
    assert work.alu_instructions[0] == pytest.approx(5000 * 4 / 3 - 2000)
    assert any("are comparisons" in flag for flag in work.flags[0])
    without = read(BASE | KINDS)
    assert without.fma[0, 1] == 96_000
    assert np.isnan(without.alu_instructions[0])


def test_multiply_adds_that_were_counted_by_themselves_are_kept() -> None:
    counted: Counters = {
        f"smsp__sass_thread_inst_executed_op_f{o}_pred_on.sum": (n, "inst")
        for o, n in (("add", 0.0), ("mul", 0.0), ("fma", 64_000.0))
    }
    work = read(BASE | counted | {"smsp__inst_executed_pipe_fma.sum": (1000.0, "inst")})
    assert work.fma[0, 1] == 64_000


def test_the_alu_bounds_by_its_lanes() -> None:
    """68 SMs x 4 schedulers x 16 lanes on both cards a cycle, though GA102 has twice the FP32 lanes."""
    work = KernelWork.of(["k"], [1.0], alu_instructions=1e9, xu_instructions=1e8, instructions=1.2e9)
    for gpu in (TURING, load_gpu("rtx-3090")):
        bounds = ceilings(work, gpu).bounds_s[0]
        cycles = float(gpu.number("gpu.sms") * gpu.number("sm.schedulers") * gpu.number("clock.sm_hz"))
        assert bounds[RESOURCES.index("alu")] == pytest.approx(2e9 / cycles)
        assert bounds[RESOURCES.index("xu")] == pytest.approx(8e8 / cycles)
        assert ceilings(work, gpu).limiter[0] == "alu"
