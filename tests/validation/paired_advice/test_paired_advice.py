"""Proxies do what was counted, and paired runs show what a change brings."""

from dataclasses import replace

import numpy as np
import pytest

from judged_advice import changed_kernel, judge_advice
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.sim.address_patterns import Strided
from smlab.validation.paired_advice.paired_advice import advise, changes
from smlab.validation.paired_advice.proxies import BODY, proxy_of, seconds_on

V100, A100 = load_gpu("v100"), load_gpu("a100-40")
WARPS = 8 * 100


def work(**given: float) -> KernelWork:
    """100 blocks of 8 warps, each of 400 instructions: loads, shared accesses, multiply-adds."""
    known = {
        "blocks": 100,
        "threads_per_block": 256,
        "registers_per_thread": 32,
        "shared_bytes_per_block": 8192,
        "instructions": 400 * WARPS,
        "memory_requests": 120 * WARPS,
        "shared_wavefronts": 80 * WARPS,
        "shared_ideal_wavefronts": 80 * WARPS,
        "fp32_fma": 200 * 32 * WARPS,
        "l1_bytes": 40 * 128 * WARPS,
        "l2_bytes": 20 * 128 * WARPS,
        "dram_bytes": 10 * 128 * WARPS,
    }
    return KernelWork.of(["k"], [1e-5], **{**known, **given})


def test_a_proxy_has_the_counted_mix() -> None:
    found = proxy_of(work(), 0, V100)
    mix = found.mix
    assert (mix.fp32, mix.shared, mix.loads) == pytest.approx((0.5, 0.2, 0.1))
    assert mix.integer == pytest.approx(0.2)
    assert (mix.from_dram, mix.from_l2, mix.ways, mix.lane_stride_bytes) == pytest.approx((0.25, 0.25, 1, 4))
    assert (found.warps, found.blocks, found.instructions) == (8, 100, pytest.approx(400))
    ops = [i.op for i, _ in found.kernel(1, 100).programs[0].instructions()]
    assert len(ops) == BODY
    assert ops.count("fp32") == 20
    assert ops.count("shared-load") == 8
    assert ops.count("global-load") == 4


def test_passes_between_powers_of_two_are_a_mixture() -> None:
    found = proxy_of(work(shared_wavefronts=240 * WARPS), 0, V100)
    assert found.mix.ways == pytest.approx(3)
    body = [i for i, _ in found.kernel(1, 1).programs[0].instructions() if i.op == "shared-load"]
    strides = [repr(i.shared) for i in body]
    assert 2 * strides.count(repr(Strided(2))) + 4 * strides.count(repr(Strided(4))) == 3 * len(body)


def test_twice_the_work_takes_twice_as_long_whatever_part_of_it_runs() -> None:
    once = proxy_of(work(), 0, V100)
    longer = replace(once, instructions=40 * once.instructions)
    more = replace(once, blocks=100 * 80)
    one, many, large = seconds_on(V100, once, longer, more)
    assert many / one == pytest.approx(40, rel=0.25)
    # 80 SMs hold all 100 blocks at once, two on some; 8,000 keep them busy to the end.
    assert 25 < large / one < 80


def test_bank_conflicts_are_padded_away_and_a_grid_is_made_to_fit() -> None:
    found = advise(work(shared_wavefronts=80 * 16 * WARPS), 0, V100, A100)
    padding = next(one for one in found if one.change == "padding")
    assert padding.target_change is not None
    assert padding.target_change < -0.3
    assert padding.source_change is not None
    assert padding.source_change < -0.5
    assert padding.evidence == "paired simulation"
    assert [one.target_change for one in found] == sorted(one.target_change or 0 for one in found)
    kinds = {one.kind for one in changes(proxy_of(work(), 0, V100), A100)}
    assert "padding" not in kinds
    assert {"grid", "block size", "L1 cache"} <= kinds


def test_atomics_make_passes_a_matter_of_aggregation() -> None:
    found = advise(work(shared_wavefronts=80 * 16 * WARPS), 0, V100, A100, frozenset({"atomics"}))
    kinds = [one.change for one in found]
    assert "padding" not in kinds
    assert kinds.count("aggregation") == 1
    none = advise(work(), 0, V100, A100, frozenset({"atomics", "shuffles"}))
    assert {one.change for one in none if one.evidence == "not simulable"} == {"aggregation", "reductions"}


def test_without_a_launch_there_is_no_proxy() -> None:
    with pytest.raises(SmlabError, match="no proxy without its blocks"):
        proxy_of(work(blocks=np.nan), 0, V100)


def test_what_is_advised_holds_for_the_kernel_itself() -> None:
    judged = [one for number in range(6) for one in judge_advice(number)]
    clear = [one for one in judged if abs(one.true) > 0.05]
    assert len(clear) >= 10
    # Grids of few, short blocks are the exception: the proxy knows less of what their dispatch takes.
    assert sum(one.foreseen * one.true > 0 for one in clear) / len(clear) > 0.7


def test_a_changed_kernel_does_the_same_work() -> None:
    base = proxy_of(work(), 0, V100)
    kernel = base.kernel(216, 100)
    for change in changes(base, A100):
        if change.kind not in ("grid", "block size"):
            continue
        after = changed_kernel(kernel, change)
        counts = [
            sum(n for _, n in k.programs[0].instructions()) * k.blocks * len(k.roles[0])
            for k in (kernel, after)
        ]
        assert counts[1] == pytest.approx(counts[0], rel=0.1)
