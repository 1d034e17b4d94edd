"""Eq. 9 and 10 as times, and what goes beyond them: worked numbers, identities, and what more bandwidth
may not do."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.models.projection.peak_rates import maxima_of
from smlab.models.projection.projection import PAPER, ProjectionSwitches, project
from smlab.models.projection.residency import latency_ratio, miss_share, target_dram_bytes
from smlab.models.projection.uncertainty import NAMES
from smlab.models.roofline.ceilings import CeilingSwitches, ceilings

V100, A100 = load_gpu("v100"), load_gpu("a100-40")
PRECISIONS, OPS = ("fp16", "fp32", "fp64"), ("add", "mul", "fma")


def stream(seconds: float = 1.0, **given: float) -> KernelWork:
    """Half of what the V100's memory could do, nothing used again."""
    return KernelWork.of(
        ["stream"], seconds, l1_bytes=423e9, l2_bytes=423e9, dram_bytes=423e9, fp32_fma=1e9, **given
    )


@st.composite
def kernels(draw: st.DrawFn, launched: bool | None = None) -> KernelWork:
    dram = draw(st.floats(1e3, 1e12))
    l2 = dram * draw(st.floats(1, 20))
    l1 = l2 * draw(st.floats(1, 20))
    instructions = draw(st.floats(1e3, 1e11))
    given: dict[str, float] = {
        f"{p}_{o}": draw(st.sampled_from((0.0, 1e6, 1e9, 1e11))) for p in PRECISIONS for o in OPS
    }
    if launched or (launched is None and draw(st.booleans())):
        given |= {
            "blocks": draw(st.integers(1, 20_000)),
            "threads_per_block": draw(st.sampled_from((32, 96, 256, 1024))),
            "registers_per_thread": draw(st.sampled_from((16, 32, 64))),
        }
    if draw(st.booleans()):
        given["working_set_bytes"] = dram * draw(st.floats(0.1, 2))
    return KernelWork.of(
        ["k"],
        draw(st.floats(1e-6, 10)),
        dram_bytes=dram,
        l2_bytes=l2,
        l1_bytes=l1,
        instructions=instructions,
        thread_instructions=instructions * draw(st.floats(1, 32)),
        shared_wavefronts=draw(st.sampled_from((0.0, 1e9))),
        **given,
    )


switches = st.builds(
    ProjectionSwitches,
    maxima=st.sampled_from(("sustained", "spec")),
    parallelism=st.booleans(),
    cache=st.booleans(),
    launch_overhead=st.booleans(),
    issue=st.booleans(),
    latency=st.booleans(),
    overhead_s=st.sampled_from((None, 3e-6)),
)


def test_a_streaming_kernel_goes_with_the_memory() -> None:
    """Half of 846 GB/s on the V100 becomes half of 1375 on the A100, at every level."""
    found = project(stream(), V100, A100, PAPER)
    assert found.level_s[0] == pytest.approx([846 / 1375] * 3)
    assert found.low_s[0] == pytest.approx(found.high_s[0])
    assert found.mid_s[0] == pytest.approx(846 / 1375)
    assert found.limiter[0] == "dram"
    assert found.source_s[0] == 1.0


def test_a_compute_bound_kernel_goes_with_the_peak() -> None:
    w = KernelWork.of(["k"], 1.0, l1_bytes=1.0, l2_bytes=1.0, dram_bytes=1.0, fp64_fma=3e12)
    found = project(w, V100, A100, PAPER)
    assert found.mid_s[0] == pytest.approx(6890 / 9476)
    assert found.limiter[0] == "fp64"


def test_a_kernel_between_two_levels_has_an_interval() -> None:
    """L2 serves 10 times what DRAM does: by DRAM it gains 1.63, by L2 and DRAM together more."""
    w = KernelWork.of(["k"], 1.0, l1_bytes=440e9, l2_bytes=440e9, dram_bytes=40e9, fp32_add=1.0)
    found = project(w, V100, A100, PAPER)
    ratio = (400 / 4710 + 40 / 1375) / (400 / 2460 + 40 / 846)
    assert found.level_s[0] == pytest.approx([ratio, ratio, 846 / 1375])
    assert found.mid_s[0] == pytest.approx((ratio + 846 / 1375) / 2)


def test_eq_9_in_times_is_eq_9_in_rates() -> None:
    """Performance over roofline on the source, times the target's roofline, as the paper has it."""
    from smlab.models.roofline.equations import projected

    w = stream(fp64_fma=1e12, instructions=1e11, thread_instructions=2e12)
    here, there = (
        ceilings(w, gpu, switches=CeilingSwitches(issue=False, parallelism=False)) for gpu in (V100, A100)
    )
    rate = projected(here.achieved_flops_per_s[:, None], here.rooflines, there.rooflines)
    assert project(w, V100, A100, PAPER).level_s == pytest.approx(here.flops[:, None] / rate)


def test_an_integer_kernel_is_projected_by_instructions() -> None:
    w = KernelWork.of(["k"], 1.0, instructions=1e11, dram_bytes=1.0, l2_bytes=1.0, l1_bytes=1.0)
    found = project(w, V100, A100, replace(PAPER, issue=True))
    issue = [maxima_of(g).issue_per_s for g in (V100, A100)]
    assert found.mid_s[0] == pytest.approx(issue[0] / issue[1])
    assert found.limiter[0] == "issue"


def test_a_kernel_with_nothing_is_skipped_with_the_reason() -> None:
    w = KernelWork.of(["nothing", "something"], 1.0, dram_bytes=[0.0, 1e9])
    found = project(w, V100, A100)
    assert found.kernel.tolist() == ["something"]
    assert found.index.tolist() == [1]
    assert found.skipped == ((0, "neither operations nor traffic that a ceiling applies to"),)
    assert np.isfinite(found.mid_s).all()


def test_tensor_operations_need_tensor_cores() -> None:
    w = KernelWork.of(["k", "l"], 1.0, tensor_flops=[1e9, 0.0], dram_bytes=1e9)
    p100 = load_gpu("p100")
    assert maxima_of(p100).tensor_flops_per_s == 0
    found = project(w, V100, p100)
    assert found.kernel.tolist() == ["l"]
    assert found.skipped == ((0, "tensor operations, and p100 has no tensor cores"),)
    under = ceilings(w, p100)
    assert "has no tensor cores" in under.work.flags[0][0]
    assert np.isfinite(under.bound_s).all()


def test_a_block_that_does_not_fit_on_the_target_is_skipped() -> None:
    w = stream(blocks=100, threads_per_block=256, shared_bytes_per_block=150_000)
    found = project(w, A100, V100)
    assert len(found) == 0
    assert found.skipped == ((0, "a block of it does not fit on an SM of v100"),)
    assert len(project(w, A100, V100, replace(ProjectionSwitches(), parallelism=False))) == 1


@given(kernels(), switches, st.sampled_from((V100, A100)))
def test_onto_the_same_gpu_is_the_identity(w: KernelWork, on: ProjectionSwitches, gpu: Gpu) -> None:
    found = project(w, gpu, gpu, on)
    if len(found):
        assert found.low_s == pytest.approx(w.seconds)
        assert found.high_s == pytest.approx(w.seconds)


@given(kernels())
def test_there_and_back_is_the_identity_at_each_level(w: KernelWork) -> None:
    """Eq. 9 with the same kernel: each level's factor there is one over its factor back."""
    there = project(w, V100, A100, PAPER)
    for level in range(3):
        moved = w.with_values(seconds=there.level_s[:, level])
        back = project(moved, A100, V100, PAPER)
        assert back.level_s[:, level] == pytest.approx(w.seconds)


@pytest.mark.parametrize("seconds", [0.6, 1.0, 3.0, 30.0])
@pytest.mark.parametrize("blocks", [100, 1000, 80 * 108 * 8])
def test_there_and_back_with_everything_on_where_the_limiter_stays(seconds: float, blocks: int) -> None:
    """Few blocks and many, near the memory's bandwidth and far from it."""
    w = stream(seconds, blocks=blocks, threads_per_block=1024, instructions=1e9)
    on = ProjectionSwitches(overhead_s=0.05)
    there = project(w, V100, A100, on)
    assert there.limiter[0] == "dram"
    back = project(w.with_values(seconds=there.mid_s), A100, V100, on)
    assert back.mid_s == pytest.approx(w.seconds, rel=1e-6)


@given(kernels(), switches, st.integers(0, 2), st.floats(1, 10))
def test_more_bandwidth_never_takes_longer(
    w: KernelWork, on: ProjectionSwitches, level: int, factor: float
) -> None:
    # Times by level: whether an SM decides, and the interval, may change with a bandwidth.
    on = replace(on, residency=False, interval=False)
    top = maxima_of(A100, on.maxima)
    more = top.bandwidth.copy()
    more[level] *= factor
    before = project(w, V100, A100, on)
    after = project(w, V100, A100, on, target_maxima=replace(top, bandwidth=more))
    for name in ("low_s", "mid_s", "high_s"):
        assert (getattr(after, name) <= getattr(before, name) * (1 + 1e-9)).all()


@given(kernels(launched=True), switches, st.floats(1, 3))
def test_a_description_with_more_memory_bandwidth_never_takes_longer(
    w: KernelWork, on: ProjectionSwitches, factor: float
) -> None:
    """As above, where the warps needed to keep the memory busy rise with it, and the same of two models
    carries the time before and after: by levels of memory, or by what waits on an SM.

    Where more bandwidth makes an SM the limit, the second takes over from the first, and of few warps that
    had filled the source's memory it can ask more (seen: 0.62 to 0.98 s). By latencies of descriptions, few
    warps that beat their bounds on the source can come out 0.05 % longer.
    """
    keys = ("dram.bandwidth_bytes_per_s", "dram.sustained_bandwidth_bytes_per_s")
    faster = A100.with_values({k: A100.number(k) * factor for k in keys}, source="test")
    levels = replace(on, residency=False)
    before, after = (project(w, V100, gpu, on) for gpu in (A100, faster))
    by_levels = [
        there.mid_s == project(w, V100, gpu, levels).mid_s for there, gpu in ((before, A100), (after, faster))
    ]
    longer = after.mid_s > before.mid_s * (1 + (1e-3 if on.latency else 1e-9))
    assert not (longer & (by_levels[0] == by_levels[1])).any()


@given(kernels(), switches)
def test_every_number_is_finite_and_in_order(w: KernelWork, on: ProjectionSwitches) -> None:
    found = project(w, V100, A100, on)
    assert (found.low_s > 0).all()
    assert (found.low_s <= found.mid_s).all()
    assert (found.mid_s <= found.high_s).all()
    assert np.isfinite(found.high_s).all()


def test_a_small_grid_gains_nothing_from_more_sms() -> None:
    """40 blocks, one on an SM, on 80 and on 108 SMs: by its clock and its pipes, each SM does what it did."""
    w = KernelWork.of(
        ["k"], 1.0, fp32_fma=1e12, instructions=1e12 / 32, blocks=40, threads_per_block=1024,
        l1_bytes=1.0, l2_bytes=1.0, dram_bytes=1.0,
    )  # fmt: skip
    published = project(w, V100, A100, PAPER)
    found = project(w, V100, A100, ProjectionSwitches(maxima="spec", latency=False))
    assert published.mid_s[0] < 0.75
    assert found.mid_s[0] == pytest.approx(1.38 / 1.41, rel=0.01)


def test_waiting_goes_by_latencies_that_are_to_be_believed() -> None:
    """Loads that DRAM serves, and nothing else to wait for: 375 and 549 cycles, by two papers."""
    w = stream(10.0, blocks=80 * 108 * 8, threads_per_block=256)
    here, far = (ceilings(w, gpu) for gpu in (V100, A100))
    dram = float(A100.number("dram.latency_cycles")) / float(V100.number("dram.latency_cycles"))
    assert latency_ratio(here, far, every=True)[0] == pytest.approx(dram, rel=1e-3)
    assert latency_ratio(here, far, every=False)[0] == 1.0
    assert latency_ratio(here, here, every=False)[0] == 1.0
    other = A100.with_values({"dram.latency_cycles": 700}, source=V100["dram.latency_cycles"].source)
    told = latency_ratio(here, ceilings(w, other), every=False)[0]
    assert told == pytest.approx(700 / float(V100.number("dram.latency_cycles")), rel=1e-3)


def test_a_kernel_that_waits_takes_longer_where_latencies_are() -> None:
    """Arithmetic beside loads of L2: by the descriptions' latencies, or by as many cycles; the interval knows
    of both."""
    w = KernelWork.of(
        ["k"], 1e-3, fp32_fma=1e7, instructions=1e6, l1_bytes=1e7, l2_bytes=1e7, dram_bytes=1e3,
        blocks=80 * 108, threads_per_block=32, registers_per_thread=32, memory_requests=1e6,
    )  # fmt: skip
    as_cycles, by_latency = (project(w, V100, A100, ProjectionSwitches(latency=x)) for x in (False, True))
    l2 = float(A100.number("l2.latency_cycles")) / float(V100.number("l2.latency_cycles"))
    assert 1.1 < by_latency.mid_s[0] / as_cycles.mid_s[0] < l2
    part = as_cycles.parts.log[0, NAMES.index("latency")]
    assert part == pytest.approx(np.log(by_latency.mid_s[0] / as_cycles.mid_s[0]) / 2, rel=0.01)


def test_launch_overhead_does_not_scale() -> None:
    on = replace(PAPER, launch_overhead=True, overhead_s=0.2)
    assert project(stream(), V100, A100, on).mid_s[0] == pytest.approx(0.2 + 0.8 * 846 / 1375)
    for absurd in (-1e-6, np.nan, np.inf):
        with pytest.raises(SmlabError, match="launch overhead: an absurd time"):
            ProjectionSwitches(overhead_s=absurd)
    # a kernel shorter than the overhead is all overhead, in proportion
    assert project(stream(0.1), V100, A100, on).mid_s[0] == pytest.approx(0.1)


def test_a_cache_that_holds_the_working_set_leaves_the_first_touch() -> None:
    """20 MB used again and again: the V100's 6 MiB miss 0.685 of it, the A100's 40 MiB nothing."""
    w = KernelWork.of(
        ["k"], 1.0, l1_bytes=1e9, l2_bytes=1e9, dram_bytes=600e6, fp32_add=1.0, working_set_bytes=20e6
    )
    assert target_dram_bytes(w, V100, A100).tolist() == [20e6]
    on = project(w, V100, A100, replace(PAPER, cache=True))
    off = project(w, V100, A100, PAPER)
    assert on.mid_s[0] < off.mid_s[0]
    assert any("DRAM traffic" in flag for flag in on.flags[0])
    # back again: of the 980 MB beyond the first touch, half of what the V100 misses if touched at random
    there = w.with_values(dram_bytes=np.array([20e6]))
    missed = 1 - 6291456 / 20e6
    assert target_dram_bytes(there, A100, V100) == pytest.approx([20e6 + 980e6 * missed / 2])


def test_what_is_written_and_still_in_l2_is_not_in_memory() -> None:
    """A kernel that reads 30 MB and writes 30 MB once: half of the last 6 MiB in the V100's L2 are written,
    of the 40 MiB in the A100's as well."""
    w = KernelWork.of(
        ["k"], 1.0, l2_bytes=60e6, dram_bytes=60e6 - 6291456 / 2, working_set_bytes=60e6, stored_bytes=30e6
    )
    assert target_dram_bytes(w, V100, A100) == pytest.approx([60e6 - 41943040 / 2])


@given(st.floats(1e3, 1e12), st.floats(1e3, 1e12), st.floats(1, 10))
def test_a_larger_cache_never_misses_more(capacity: float, working_set: float, factor: float) -> None:
    w = np.array([working_set])
    assert (miss_share(capacity * factor, w) <= miss_share(capacity, w)).all()
    assert (miss_share(capacity, w) >= 0).all()


def test_an_unknown_working_set_changes_nothing() -> None:
    assert target_dram_bytes(stream(), V100, A100).tolist() == [423e9]
    assert np.isnan(target_dram_bytes(KernelWork.of(["k"], 1.0, working_set_bytes=1.0), V100, A100)).all()


def test_other_work_on_the_target() -> None:
    """Twice the operations there: twice the time of what would be, and the flags of the target's work are
    kept."""
    w = KernelWork.of(["k"], 1.0, l1_bytes=1.0, l2_bytes=1.0, dram_bytes=1.0, fp64_fma=3e12)
    more = w.with_values(fma=2 * w.fma).flagged(np.array([True]), "from machine code")
    found = project(w, V100, A100, PAPER, target_work=more)
    assert found.mid_s[0] == pytest.approx(2 * 6890 / 9476)
    assert "from machine code" in found.flags[0]
    with pytest.raises(SmlabError, match=r"target_work: other kernels than the source's \(got 2; expected 1"):
        project(w, V100, A100, target_work=KernelWork.of(["a", "b"], 1.0))
