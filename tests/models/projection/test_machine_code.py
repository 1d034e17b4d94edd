"""Operations on the target, from machine code."""

from pathlib import Path

import numpy as np
import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.hw_bench.sass import (
    CodeComparisons,
    Function,
    Operand,
    Predicate,
    SassInstruction,
    compare_code,
    compare_files,
)
from smlab.models.projection.machine_code import (
    LOOP_EXECUTIONS,
    operation_ratio,
    operation_ratios,
    target_work,
)
from smlab.models.projection.projection import ProjectionSwitches, project

LISTINGS = Path(__file__).parents[2] / "hw_bench" / "sass" / "listings"


def kernel(in_loop: list[str], outside: list[str], architecture: str) -> Function:
    """A loop of ``in_loop``, then ``outside``."""
    ops = ["MOV", *in_loop]
    code = [SassInstruction(16 * n, op) for n, op in enumerate(ops)]
    code.append(SassInstruction(16 * len(code), "BRA", (Operand("0x10"),), Predicate("P0")))
    code += [SassInstruction(16 * (len(code) + n), op) for n, op in enumerate([*outside, "EXIT"])]
    return Function("k", architecture, tuple(code))


def work(**given: float) -> KernelWork:
    base = {
        "l1_bytes": 1e6,
        "l2_bytes": 1e6,
        "dram_bytes": 1e6,
        "instructions": 1e6,
        "thread_instructions": 32e6,
    }
    return KernelWork.of(["k"], [1e-3], **{**base, **given})


def comparisons(source: Function, target: Function) -> CodeComparisons:
    return CodeComparisons((compare_code(source, target),), ())


def test_equal_operations_leave_the_work_as_it_is() -> None:
    pair = kernel(["FFMA"], ["FADD"], "sm_70"), kernel(["FFMA", "MOV"], ["FADD"], "sm_80")
    before = work(fp32_fma=1e9)
    after = target_work(before, comparisons(*pair))
    assert np.array_equal(after.fma, before.fma)
    assert after.flags[0] == ()
    assert [(r.low, r.mid, r.high) for r in operation_ratios(compare_code(*pair))] == [(1.0, 1.0, 1.0)] * 3


def test_each_kind_of_operation_changes_by_its_own_ratio() -> None:
    """All in the loop: twice the multiply-adds, no multiplications any more, an addition for each old
    multiply-add."""
    pair = kernel(["FFMA", "FMUL"], [], "sm_70"), kernel(["FFMA", "FFMA", "FADD"], [], "sm_80")
    after = target_work(work(fp32_fma=1e9, fp32_mul=1e9), comparisons(*pair))
    fp32 = 1
    assert after.fma[0, fp32] == pytest.approx(2e9)
    assert after.mul[0, fp32] == 0
    assert after.add[0, fp32] == pytest.approx(1e9)
    assert after.flags[0] == ("operations from machine code: fp32 x 1.667 (1.667 to 1.667)",)


def test_the_interval_covers_what_the_code_does_not_tell() -> None:
    """A multiply-add more in the loop: a ratio of 2 if the loop is all, less if what is outside counts."""
    code = compare_code(kernel(["FFMA"], ["FFMA"], "sm_70"), kernel(["FFMA", "FFMA"], ["FFMA"], "sm_80"))
    ratio = operation_ratio(code, "fp32")
    assert ratio.low == pytest.approx(1.5)
    assert ratio.high == pytest.approx(2, rel=1e-3)
    assert ratio.mid is not None
    assert ratio.low is not None
    assert ratio.high is not None
    for times in np.geomspace(min(LOOP_EXECUTIONS), max(LOOP_EXECUTIONS), 20):
        truth = (2 * times + 1) / (times + 1)
        assert ratio.low - 1e-9 <= truth <= ratio.high + 1e-9
    assert ratio.low < ratio.mid < ratio.high


def test_operations_that_only_the_target_has_are_told() -> None:
    pair = kernel(["MUFU.RCP"], [], "sm_70"), kernel(["FFMA"], [], "sm_80")
    assert operation_ratio(compare_code(*pair), "fp32").mid is None
    after = target_work(work(fp64_fma=1e6), comparisons(*pair))
    assert after.flags[0] == ("operations from machine code: fp32 only on the target",)
    assert np.array_equal(after.fma, work(fp64_fma=1e6).fma)


def test_a_kernel_without_code_is_told() -> None:
    pair = kernel(["FFMA"], [], "sm_70"), kernel(["FFMA"], [], "sm_80")
    one = KernelWork.of(["other"], [1e-3], fp32_fma=1e6)
    assert target_work(one, comparisons(*pair)).flags[0] == (
        "not in both files of machine code: operations as on the source",
    )


def test_more_operations_take_a_compute_bound_kernel_longer_and_a_memory_bound_one_not() -> None:
    """On one GPU, so that the target differs in its code only: 3 % more operations are 3 % more time, or
    none."""
    gpu = load_gpu("v100")
    on = ProjectionSwitches(
        maxima="spec", parallelism=False, launch_overhead=False, latency=False, issue=False
    )
    code = compare_files(LISTINGS / "gamma32.sm_70.sass", LISTINGS / "gamma32.sm_86.sass")
    for fma, expected in ((1e9, "longer"), (1e3, "same")):
        here = KernelWork.of(
            ["gamma32"], [1e-3], fp32_fma=fma, l1_bytes=1e6, l2_bytes=1e6, dram_bytes=1e6, instructions=1.0
        )
        there = target_work(here, code)
        more = float(there.fma[0, 1] / here.fma[0, 1])
        assert more == pytest.approx(50 / 47, rel=1e-9)
        mid = float(project(here, gpu, gpu, on, target_work=there).mid_s[0])
        assert mid == pytest.approx(1e-3 * (more if expected == "longer" else 1.0), rel=1e-6)
