"""The middle of two readings of the target's code, and what it says of its uncertainty."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.models.projection.projection import PAPER, Projection, project
from smlab.models.projection.uncertainty import NAMES
from smlab.models.roofline.compiler_alternatives import mixed

HERE, THERE = load_gpu("rtx-2080-ti"), load_gpu("rtx-3090")
CODE = NAMES.index("code")


def work(*registers: float, dram_bytes: float = 4e8) -> KernelWork:
    n = len(registers)
    given: dict[str, float] = {
        "fp32_fma": 1e9,
        "instructions": 1e8,
        "thread_instructions": 3.2e9,
        "memory_requests": 1e7,
        "shared_wavefronts": 1e7,
        "l2_bytes": 4e8,
        "blocks": 5576,
        "threads_per_block": 128,
        "shared_bytes_per_block": 1024,
    }
    return KernelWork.of(
        ["k"] * n, [1e-3] * n, dram_bytes=dram_bytes, registers_per_thread=np.array(registers), **given
    )


def both(there: KernelWork, here: KernelWork) -> tuple[Projection, Projection]:
    return project(here, HERE, THERE, target_work=there), project(here, HERE, THERE)


def test_readings_that_agree_change_nothing() -> None:
    compiled, as_source = both(work(32, 40), work(32, 40))
    found = mixed(compiled, as_source)
    np.testing.assert_allclose(found.mid_s, compiled.mid_s)
    assert not found.parts.log[:, CODE].any()
    assert list(found.flags) == list(compiled.flags)


def test_readings_that_differ_are_mixed_and_the_interval_holds_both() -> None:
    compiled, as_source = both(work(32, 40, dram_bytes=4e9), work(32, 40))
    assert (compiled.mid_s > 1.3 * as_source.mid_s).all()
    found = mixed(compiled, as_source)
    np.testing.assert_allclose(found.mid_s, np.sqrt(compiled.mid_s * as_source.mid_s))
    assert (found.low_s < as_source.mid_s).all()
    assert (found.high_s > compiled.mid_s).all()
    assert all("two readings" in str(flag) for flag in found.flags)


def test_a_kernel_that_one_reading_cannot_project_keeps_the_other() -> None:
    compiled, as_source = both(work(32, 40, dram_bytes=4e9), work(32, 40))
    names = (
        "kernel",
        "launch",
        "source_s",
        "level_s",
        "low_s",
        "mid_s",
        "high_s",
        "limiter",
        "index",
        "flags",
    )
    rest = {name: getattr(as_source, name)[1:] for name in names}
    only = dataclasses.replace(as_source, **rest, parts=as_source.parts.take(np.array([1])))
    found = mixed(compiled, only)
    assert found.mid_s[0] == compiled.mid_s[0]
    assert found.mid_s[1] == pytest.approx(float(np.sqrt(compiled.mid_s[1] * as_source.mid_s[1])))


def test_without_parts_the_interval_spans_both_readings() -> None:
    there, here = work(32, dram_bytes=4e9), work(32)
    one, other = project(here, HERE, THERE, PAPER, target_work=there), project(here, HERE, THERE, PAPER)
    found = mixed(one, other)
    assert found.low_s[0] == min(one.low_s[0], other.low_s[0])
    assert found.high_s[0] == max(one.high_s[0], other.high_s[0])
