"""Terms of a ratio: they add up, each goes to the constant that was changed; launches alone tell little."""

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.models.portability.causes import CAUSES, SMS, Causes, causes

GPU = load_gpu("v100")
ALONE = {
    "clock": {"clock.sm_hz": 1.1e9},
    "dram": {"dram.bandwidth_bytes_per_s": 600e9, "dram.sustained_bandwidth_bytes_per_s": 560e9},
    "shared": {"shared.interval_cycles_per_pass": 2.0},
    "launch_overhead": {"launch.overhead_s": 4e-6},
}


def work(**given: float) -> KernelWork:
    launch = {"blocks": 8000, "threads_per_block": 256, "registers_per_thread": 32}
    return KernelWork.of(["k"], [1e-3], **{**launch, "shared_bytes_per_block": 0, **given})


BOUND_BY = {
    "clock": work(instructions=4.4e8),
    "dram": work(instructions=1e6, dram_bytes=0.8e9, l2_bytes=0.8e9, l1_bytes=0.8e9),
    "shared": work(instructions=1e8, shared_wavefronts=1.1e8, shared_ideal_wavefronts=1.1e8),
    "launch_overhead": work(instructions=4.4e8).with_values(seconds=np.array([2e-5])),
}


def terms(found: Causes) -> dict[str, float]:
    return dict(zip(CAUSES, found.terms[0].tolist(), strict=True))


def adds_up(found: Causes) -> bool:
    return bool(np.allclose(found.terms.sum(axis=1) + found.unexplained, found.log_ratio, rtol=0, atol=1e-12))


def target(values: dict[str, float]) -> Gpu:
    return GPU.with_values({**values}, "test")


@pytest.mark.parametrize("cause", ALONE)
def test_a_single_change_is_its_cause(cause: str) -> None:
    found = causes(BOUND_BY[cause], GPU, target(ALONE[cause]))
    assert found.ranked(0)[0][0] == cause
    assert terms(found)[cause] > 0.1
    assert all(value == 0 for name, value in terms(found).items() if name != cause)
    assert found.unexplained == pytest.approx(0)


def test_terms_and_what_is_left_add_up_over_all_groups_at_once() -> None:
    everything = target({k: v for values in ALONE.values() for k, v in values.items()} | {"gpu.sms": 108})
    measured = np.log([0.7])
    found = causes(BOUND_BY["dram"], GPU, everything, measured, [0.02])
    assert adds_up(found)
    assert found.unexplained_low < found.unexplained < found.unexplained_high
    assert (found.low <= found.terms).all()
    for other in ("a100-80", "rtx-3090", "h100-sxm", "p100"):
        assert adds_up(causes(BOUND_BY["shared"], GPU, load_gpu(other), measured))


@pytest.mark.parametrize(
    ("blocks", "ratio"), [(64, 1.0), (96, 1 / 2), (160, 1.0), (192, 2 / 3), (224, 1.0), (1024, 10 / 13)]
)
def test_the_jumps_of_small_grids_are_the_tail_s(blocks: int, ratio: float) -> None:
    """ceil(blocks / 108) over ceil(blocks / 80): the number of SMs brings the same at every grid."""
    of_launch = work(blocks=blocks, threads_per_block=1024)
    found = causes(of_launch, GPU, target({"gpu.sms": 108}))
    assert not found.counted[0]
    assert np.exp(found.modelled) == pytest.approx([ratio], rel=1e-4)  # blocks changing places cost a little
    assert terms(found)["sms"] == pytest.approx(np.log(80 / 108), abs=0.03)
    assert sum(terms(found)[name] for name in SMS) == pytest.approx(np.log(ratio), abs=1e-4)


def test_registers_and_instructions_of_the_target_s_code_are_causes_of_their_own() -> None:
    kernel = work(instructions=4.4e8, registers_per_thread=32)
    more = kernel.with_values(instructions=kernel.instructions * 1.5)
    found = causes(kernel, GPU, GPU, np.log([1.5]), target_work=more)
    assert found.ranked(0)[0][0] == "code"
    assert terms(found)["code"] == pytest.approx(np.log(1.5), abs=0.02)
    waiting = work(instructions=2e7)
    fewer = waiting.with_values(registers_per_thread=np.array([128.0]))
    found = causes(waiting, GPU, GPU, np.log([2.0]), target_work=fewer)
    assert found.ranked(0)[0][0] == "occupancy"
    assert terms(found)["occupancy"] > np.log(2)


def test_the_target_s_registers_are_a_cause_where_it_has_no_counters() -> None:
    """A tuner tells what its compiler chose, whether or not it was profiled there."""
    waiting = work(instructions=2e7)
    told = KernelWork.of(["k"], [2e-3], registers_per_thread=128)
    found = causes(waiting, GPU, GPU, np.log([2.0]), target_work=told)
    assert terms(found)["occupancy"] > np.log(2)
    large = work(instructions=2e7, threads_per_block=1024)
    too_many = KernelWork.of(["k"], [2e-3], registers_per_thread=255)  # no block of 1,024 threads fits
    assert terms(causes(large, GPU, GPU, np.log([2.0]), target_work=too_many))["occupancy"] == 0


def test_what_the_code_spills_is_the_code_s_and_not_the_cache_s() -> None:
    kernel = work(instructions=1e7, l1_bytes=4e8, l2_bytes=4e8, dram_bytes=1e8)
    spills = kernel.with_values(l1_bytes=kernel.l1_bytes * 4, l2_bytes=kernel.l2_bytes * 4)
    given = (kernel, GPU, GPU, np.log([3.0]))
    counted, coded = (causes(*given, target_work=spills, by_code=known) for known in (False, True))
    assert counted.ranked(0)[0][0] == "shared"
    assert coded.ranked(0)[0][0] == "code"
    assert coded.modelled == pytest.approx(counted.modelled)
    assert adds_up(coded)


def test_a_what_if_that_changes_the_memory_s_rating_alone_means_its_sustained_rate_too() -> None:
    found = causes(BOUND_BY["dram"], GPU, target({"dram.bandwidth_bytes_per_s": 1.8e12}))
    assert terms(found)["dram"] < -0.3


def test_another_number_of_kernels_is_refused() -> None:
    two = KernelWork.of(["a", "b"], [1.0, 1.0])
    with pytest.raises(SmlabError, match="other kernels"):
        causes(work(), GPU, load_gpu("t4"), target_work=two)
