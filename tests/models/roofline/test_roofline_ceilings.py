"""Ceilings of kernels on a GPU: worked by hand, in their limits, and against the bounds that nothing can
beat."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.models.projection.peak_rates import maxima_of
from smlab.models.roofline.ceilings import RESOURCES, CeilingSwitches, ceilings
from smlab.models.roofline.violations import UNEXPLAINED, bound_violations, ceiling_violations
from smlab.models.roofline.work import active_lanes, flops, intensity, served_bytes

V100, A100 = load_gpu("v100"), load_gpu("a100-40")


def work(seconds: float = 1.0, **given: float) -> KernelWork:
    return KernelWork.of(["k"], seconds, **given)


def column(name: str) -> int:
    return RESOURCES.index(name)


def test_sustained_maxima_are_the_published_ones() -> None:
    top = maxima_of(V100)
    assert top.bandwidth.tolist() == [13963e9, 2460e9, 846e9]
    assert top.fma_flops_per_s[2] == pytest.approx(6890e9)
    # of FP32 nothing is published: the rated peak times the share that FP64 reached
    assert top.fma_flops_per_s[1] == pytest.approx(14e12 * 6890 / 7000)
    assert top.origin["fp32"].startswith("assumed: 0.984 of")
    assert top.origin["dram"].startswith("published: Van Lanker")
    assert top.add_mul_flops_per_s == pytest.approx(top.fma_flops_per_s / 2)


def test_rated_maxima_are_no_lower_than_what_the_pipes_do() -> None:
    """80 SMs x 64 lanes x 2 x 1.38 GHz is 14.13 TFLOP/s, which the maker rounds to 14."""
    top = maxima_of(V100, "spec")
    assert top.fma_flops_per_s[1] == pytest.approx(80 * 64 * 2 * 1.38e9)
    assert top.issue_per_s == pytest.approx(80 * 4 * 1.38e9)
    assert top.bandwidth[2] == 900e9
    with pytest.raises(SmlabError, match=r"maxima: unknown kind \(got 'best'"):
        maxima_of(V100, "best")  # type: ignore[arg-type]


def test_a_compute_bound_kernel_by_hand() -> None:
    """3 fma and 1 add in FP64 with 16 of 32 threads active: 7/8 of 6890 and half of that."""
    found = ceilings(
        work(fp64_fma=3e12, fp64_add=1e12, instructions=1e12 / 8, thread_instructions=2e12), V100
    )
    assert found.flops[0] == 7e12
    assert found.mixed_peak[0] == pytest.approx(6890e9 * 7 / 8)
    assert found.peak_ceiling[0] == pytest.approx(6890e9 * 7 / 16)
    assert found.limiter[0] == "fp64"
    assert found.bound_s[0] == pytest.approx(7e12 / (6890e9 * 7 / 8))


def test_a_streaming_kernel_by_hand() -> None:
    """Nothing is used again, so all three levels carry the same bytes and all ceilings are DRAM's."""
    found = ceilings(work(fp32_add=1e9, l1_bytes=8e9, l2_bytes=8e9, dram_bytes=8e9), V100)
    assert found.bandwidth_ceilings[0] == pytest.approx([846e9] * 3)
    assert found.intensity[0] == pytest.approx([0.125] * 3)
    assert found.rooflines[0] == pytest.approx([846e9 / 8] * 3)
    assert found.level_s[0] == pytest.approx([8 / 846] * 3)
    assert found.limiter[0] == "dram"


def test_hits_at_each_level_by_hand() -> None:
    """10, 6 and 2 GB traverse the levels, so L1 serves 4, L2 4 and DRAM 2."""
    w = work(l1_bytes=10e9, l2_bytes=6e9, dram_bytes=2e9, fp32_fma=1.0)
    assert served_bytes(w).tolist() == [[4e9, 4e9, 2e9]]
    times = np.array([4 / 13963, 4 / 2460, 2 / 846])
    found = ceilings(w, V100)
    assert found.level_s[0] == pytest.approx([times.sum(), times[1:].sum(), times[2]])
    assert found.bandwidth_ceilings[0] == pytest.approx([10e9 / times.sum(), 6e9 / times[1:].sum(), 846e9])
    # alone, each level needs only its own bytes: L1 10 of 13963, L2 6 of 2460, DRAM 2 of 846
    assert found.bound_s[0] == pytest.approx(6 / 2460)
    assert found.limiter[0] == "l2"


def test_more_bytes_below_than_above_are_not_negative_hits() -> None:
    assert served_bytes(work(l1_bytes=1.0, l2_bytes=5.0, dram_bytes=7.0)).tolist() == [[0.0, 0.0, 7.0]]


def test_bank_conflicts_stretch_the_time_in_shared_memory() -> None:
    given = {
        "l1_bytes": 1e6,
        "l2_bytes": 1e6,
        "dram_bytes": 1e6,
        "fp32_fma": 1e6,
        "shared_ideal_wavefronts": 1e9,
    }
    free = ceilings(work(**given, shared_wavefronts=1e9, shared_bytes=128e9), V100)
    twofold = ceilings(work(**given, shared_wavefronts=2e9, shared_bytes=128e9), V100)
    i = column("shared")
    assert free.bounds_s[0, i] == pytest.approx(1e9 / (80 * 1.38e9))
    assert twofold.bounds_s[0, i] == pytest.approx(2 * free.bounds_s[0, i])
    assert free.limiter[0] == "shared"
    assert twofold.bandwidth_ceilings[0, 0] == pytest.approx(free.bandwidth_ceilings[0, 0] / 2, rel=1e-3)
    assert free.intensity[0, 0] == pytest.approx(2e6 / (128e9 + 1e6))


def test_precisions_have_pipes_of_their_own() -> None:
    """FP32 and FP64 at once: the slower of the two tells, not their sum."""
    both = ceilings(work(fp32_fma=7e12, fp64_fma=1e12), V100, switches=CeilingSwitches(parallelism=False))
    assert both.bounds_s[0, column("fp32")] == pytest.approx(2 * 7e12 / (14e12 * 6890 / 7000))
    assert both.bounds_s[0, column("fp64")] == pytest.approx(2e12 / 6890e9)
    assert both.compute_s[0] == both.bounds_s[0, column("fp32")]
    assert both.mixed_peak[0] == pytest.approx(16e12 / both.compute_s[0])


def test_tensor_operations_have_a_roof_of_their_own() -> None:
    found = ceilings(work(tensor_flops=112e12, fp32_fma=1e12), V100)
    assert found.limiter[0] == "tensor"
    assert found.bound_s[0] == pytest.approx(1.0)
    assert found.flops[0] == 114e12


def test_an_integer_kernel_has_an_instruction_roofline() -> None:
    found = ceilings(work(instructions=80 * 4 * 1.38e9, l1_bytes=1.0, l2_bytes=1.0, dram_bytes=1.0), V100)
    assert found.compute_s[0] == pytest.approx(1.0)
    assert found.limiter[0] == "issue"
    assert np.isnan([found.peak_ceiling[0], found.mixed_peak[0]]).all()
    assert np.isnan(found.rooflines).all()
    assert found.achieved_flops_per_s[0] == 0


def test_a_level_that_was_not_counted_is_left_out() -> None:
    found = ceilings(work(fp32_fma=1e9, l2_bytes=4e9), V100)
    assert np.isnan(found.level_s[0, [0, 2]]).all()
    assert np.isfinite(found.level_s[0, 1])
    assert np.isnan(found.intensity[0, [0, 2]]).all()
    none = KernelWork.of(["k"], 1.0, dram_bytes=1e9, **{f"{p}_{o}": np.nan for p in PRECISIONS for o in OPS})
    assert np.isnan(flops(none)[0])
    assert np.isnan(intensity(none)).all()


PRECISIONS, OPS = ("fp16", "fp32", "fp64"), ("add", "mul", "fma")


def test_active_lanes_are_all_where_nobody_counted() -> None:
    assert active_lanes(work()).tolist() == [32.0]
    assert active_lanes(work(instructions=4.0, thread_instructions=20.0)).tolist() == [5.0]


def test_a_faster_clock_raises_what_belongs_to_the_sm() -> None:
    w = work(fp32_fma=1e12, l1_bytes=1e9, l2_bytes=1e9, dram_bytes=1e9, clock_hz=1.38e9 / 2)
    rated, scaled = ceilings(w, V100), ceilings(w, V100, switches=CeilingSwitches(at_clock=True))
    ratio = scaled.bounds_s[0] / np.where(rated.bounds_s[0] > 0, rated.bounds_s[0], 1.0)
    assert ratio[[column("fp32"), column("l1")]] == pytest.approx([2.0, 2.0])
    assert ratio[[column("l2"), column("dram")]] == pytest.approx([1.0, 1.0])


def test_idle_sms_raise_the_bound() -> None:
    """20 blocks on 80 SMs: a quarter of the pipes; the memory is shared by all."""
    w = work(
        fp32_fma=1e12, l1_bytes=1e9, l2_bytes=1e9, dram_bytes=1e9, blocks=20, threads_per_block=1024,
        instructions=1e12 / 32,
    )  # fmt: skip
    on, off = ceilings(w, V100), ceilings(w, V100, switches=CeilingSwitches(parallelism=False))
    assert on.bounds_s[0, column("fp32")] == pytest.approx(4 * off.bounds_s[0, column("fp32")])
    assert on.bounds_s[0, column("dram")] == off.bounds_s[0, column("dram")]
    assert on.compute_s[0] >= 4 * off.compute_s[0] * (1 - 1e-12)


@st.composite
def kernels(draw: st.DrawFn) -> KernelWork:
    """Any consistent kernel: what passes a level passes the ones above it."""
    dram = draw(st.floats(1e3, 1e12))
    l2 = dram * draw(st.floats(1, 20))
    l1 = l2 * draw(st.floats(1, 20))
    instructions = draw(st.floats(1e3, 1e11))
    operations = {f"{p}_{o}": draw(st.sampled_from((0.0, 1e6, 1e9, 1e11))) for p in PRECISIONS for o in OPS}
    return KernelWork.of(
        ["k"],
        draw(st.floats(1e-6, 10)),
        dram_bytes=dram,
        l2_bytes=l2,
        l1_bytes=l1,
        instructions=instructions,
        thread_instructions=instructions * draw(st.floats(1, 32)),
        shared_wavefronts=draw(st.sampled_from((0.0, 1e9))),
        **operations,
    )


@given(kernels(), st.sampled_from((V100, A100)))
def test_no_bound_is_above_the_ceilings(w: KernelWork, gpu) -> None:
    """In time: what each resource needs alone is at most what the paper's ceilings give it."""
    for maxima in ("sustained", "spec"):
        found = ceilings(w, gpu, maxima)  # type: ignore[arg-type]
        highest = max(found.compute_s[0], np.nanmax(found.level_s))
        assert found.bound_s[0] <= highest * (1 + 1e-9)
        assert (found.level_s[0, :-1] >= found.level_s[0, 1:] * (1 - 1e-9)).all()
        if found.flops[0] > 0:
            assert found.peak_ceiling[0] <= found.mixed_peak[0] * (1 + 1e-9)
            with np.errstate(invalid="ignore"):
                through = found.intensity[0] * found.bandwidth_ceilings[0]
            no_issue = ceilings(w, gpu, maxima, CeilingSwitches(issue=False))  # type: ignore[arg-type]
            by_paper = np.minimum(through, found.peak_ceiling[0])
            if w.shared_wavefronts[0] == 0:
                assert no_issue.rooflines[0] == pytest.approx(by_paper)


@given(kernels(), st.floats(1e-3, 1e3))
def test_twice_the_work_takes_twice_as_long(w: KernelWork, factor: float) -> None:
    names = ("add", "mul", "fma", "l1_bytes", "l2_bytes", "dram_bytes", "instructions", "thread_instructions")
    more = w.with_values(
        seconds=w.seconds * factor,
        shared_wavefronts=w.shared_wavefronts * factor,
        **{n: getattr(w, n) * factor for n in names},
    )
    one, other = ceilings(w, V100), ceilings(more, V100)
    assert other.bounds_s == pytest.approx(one.bounds_s * factor)
    assert other.efficiency == pytest.approx(one.efficiency)


def test_many_kernels_are_as_one_after_the_other() -> None:
    rng = np.random.default_rng(1)
    many = KernelWork.of([f"k{i}" for i in range(50)], 1.0, **{
        n: 10 ** rng.uniform(6, 11, 50) for n in ("fp32_fma", "fp64_add", "l1_bytes", "l2_bytes",
        "dram_bytes")
    }, blocks=rng.integers(1, 5000, 50), threads_per_block=256)  # fmt: skip
    joint = ceilings(many, V100)
    for i in range(len(many)):
        alone = ceilings(many.take(np.array([i])), V100)
        assert alone.bound_s[0] == joint.bound_s[i]
        assert alone.level_s[0] == pytest.approx(joint.level_s[i])
        assert alone.limiter[0] == joint.limiter[i]


def violation(w: KernelWork, maxima: str = "sustained") -> str:
    (found,) = bound_violations(ceilings(w, V100, maxima), maxima_of(V100, "spec"))  # type: ignore[arg-type]
    return found.reason


def test_a_kernel_faster_than_a_bound_says_what_may_be_wrong() -> None:
    stream = {"dram_bytes": 870e9, "l2_bytes": 870e9, "l1_bytes": 870e9, "fp32_add": 1.0}
    assert "not than the rated peak" in violation(work(**stream))
    assert bound_violations(ceilings(work(**stream), V100, "spec")) == []
    faster = {k: 2 * v for k, v in stream.items()}
    assert violation(work(**faster)).startswith(UNEXPLAINED)
    assert "another card: " in violation(work(**faster, dram_peak_bytes_per_s=2e12))
    assert "2,000 GB/s, and v100 has 900" in violation(work(**faster, dram_peak_bytes_per_s=2e12))
    assert "1,530 MHz" in violation(work(fp32_fma=7.5e12, clock_hz=1.53e9), "spec")
    assert "lts__t_bytes" in violation(work(l2_bytes=3e12, dram_bytes=1.0))


def test_a_kernel_whose_transfers_overlap_beats_only_the_papers_ceilings() -> None:
    w = work(seconds=1.01, l1_bytes=13963e9, l2_bytes=2460e9, dram_bytes=846e9, fp32_add=1.0)
    found = ceilings(w, V100)
    assert bound_violations(found) == []
    (v,) = ceiling_violations(found)
    assert v.ceiling == "l1"
    assert "overlapped" in v.reason
    fills = work(seconds=1.2, l1_bytes=846e9, l2_bytes=2000e9, dram_bytes=846e9, fp32_add=1.0)
    (v,) = ceiling_violations(ceilings(fills, V100))
    assert v.reason.startswith("counter definition: L2 counted more bytes than passed L1")
    lanes = work(fp32_fma=0.9 * 7e12, instructions=1e9, thread_instructions=16e9)
    (v,) = ceiling_violations(ceilings(lanes, V100))
    assert (v.ceiling, "active threads" in v.reason) == ("compute", True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"dram_bytes": -1.0}, r"dram_bytes: an impossible number \(got -1.0; expected 0 or more"),
        ({"fp32_fma": np.inf}, r"fma: an impossible number \(got inf"),
        (
            {"seconds": 0.0},
            r"kernel 'k', launch 0: seconds: an impossible number \(got 0.0; expected above 0",
        ),
        ({"blocks": 0.0}, "blocks: an impossible number"),
        ({"tea": 1.0}, r"unknown quantity \(got 'tea'"),
        ({"l1_bytes": [1.0, 2.0]}, "l1_bytes: does not fit 1 kernels"),
    ],
)
def test_impossible_work_is_refused(given: dict, said: str) -> None:
    with pytest.raises(SmlabError, match=said):
        work(**given)
