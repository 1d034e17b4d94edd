"""The quantities of the ledger against theory, worked numbers and independent code."""

import math
from dataclasses import fields
from fractions import Fraction
from itertools import chain

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.validation.papers.claims import load_ledger
from smlab.validation.papers.claims.published import advisor_table, grid_table
from smlab.validation.papers.claims.quantities import (
    advisor_method,
    histogram_layout,
    histogram_study,
    portability_simulated,
    portability_tables,
    projection,
    service_table,
    specifications,
)
from smlab.validation.papers.claims.quantities import advisor_table as advisor
from smlab.validation.papers.claims.registry import Observed
from smlab.validation.papers.histogram.facts import facts
from smlab.validation.papers.histogram.study import CasePoint


def mean_largest_occupancy(balls: int, boxes: int) -> float:
    """The expected content of the fullest box, exactly.

    P(all below k) = balls! [x^balls] (sum_{j < k} x^j / j!)^boxes / boxes^balls.
    """
    total = Fraction(0)
    for k in range(1, balls + 1):  # E = sum of P(fullest >= k)
        one = [Fraction(1, math.factorial(j)) if j < k else Fraction(0) for j in range(balls + 1)]
        power = [Fraction(1)] + [Fraction(0)] * balls
        for bit in bin(boxes)[2:]:
            power = _product(power, power)
            if bit == "1":
                power = _product(power, one)
        total += 1 - power[balls] * math.factorial(balls) / Fraction(boxes) ** balls
    return float(total)


def _product(a: list[Fraction], b: list[Fraction]) -> list[Fraction]:
    return [sum((a[i] * b[n - i] for i in range(n + 1)), start=Fraction(0)) for n in range(len(a))]


@pytest.mark.parametrize(("reading", "boxes"), [("lanes on one bank", 32), ("lanes on one word", 256)])
def test_e_of_random_images_is_that_of_balls_in_boxes(reading: str, boxes: int) -> None:
    seen = histogram_layout.passes("uniform", "original", reading)
    exact = mean_largest_occupancy(32, boxes)
    half = (seen.high - seen.low) / 2
    assert abs(seen.value - exact) < 2 * half
    assert half < 0.01


def test_the_layout_counts_every_channel_of_every_pixel_once() -> None:
    for variant in ("original", "reordered"):
        words = histogram_layout.bins_of_warps("coloured", variant, 3)
        assert words.shape == (3, 4, 32)
        expected = [256 * c + v for c, v in enumerate(histogram_layout.SOLID["coloured"])]
        for lane in range(32):
            assert sorted(words[0, :, lane]) == expected
    with pytest.raises(SmlabError, match="unknown"):
        histogram_layout.bins_of_warps("sepia", "original", 1)


def test_reordering_a_grey_image_leaves_its_lanes_on_one_bank() -> None:
    assert histogram_layout.passes("grey", "reordered", "lanes on one bank").value == 32
    assert histogram_layout.passes("coloured", "reordered", "lanes on one bank").value == 8


def test_the_twofold_bound_is_reached_and_not_passed() -> None:
    for samples in (10, 100, 1001):
        assert advisor_method.bound_of_equation_4(samples).value <= 2
    assert advisor_method.bound_of_equation_4(100).value == 2


def test_unrolling_changes_the_order_of_the_work_and_nothing_else() -> None:
    kernels = [advisor_method.load_loop(64, unroll, 2) for unroll in (1, 4, 8)]
    assert {k.warp_instructions for k in kernels} == {2 * 2 * 64}
    addresses = []
    for kernel in kernels:
        seen = set()
        for instruction, times in kernel.programs[0].instructions():
            if instruction.op == "global-load":
                m = instruction.memory
                seen |= {m.base_bytes + i * m.iteration_stride_bytes for i in range(times)}
        addresses.append(seen)
    assert addresses[0] == addresses[1] == addresses[2] == set(range(0, 64 * 128, 128))
    with pytest.raises(SmlabError, match="does not divide"):
        advisor_method.load_loop(64, 7, 1)


def test_overlapping_loads_gain_more_than_twofold() -> None:
    """One warp that waits for each load alone, or for eight at a time: between a half and the whole of
    eightfold."""
    gain = advisor_method.unrolled_speedup("v100", 8, 4).value
    assert 4 < gain < 8


def test_a_lone_warp_issues_at_the_rate_of_equation_8() -> None:
    assert advisor_method.issue_rate_ratio("v100", 1, "issued").value == pytest.approx(1, abs=0.05)


def test_means_of_the_advisor_table() -> None:
    assert advisor.mean_error("arithmetic").value == pytest.approx(7.0, abs=0.1)
    assert advisor.mean_error("geometric").value == pytest.approx(4.1, abs=0.1)
    with pytest.raises(SmlabError, match="unknown"):
        advisor.mean_error("harmonic")
    assert len(advisor_table().rows) == 26
    for row in advisor_table().rows:
        error = 100 * abs(row.estimated - row.achieved) / row.achieved
        assert abs(error - row.error_percent) < 1.5


@pytest.mark.parametrize("blocks", [1, 79, 80, 81, 160, 1024])
def test_blocks_are_dealt_out_evenly(blocks: int) -> None:
    """The general path gives what counting the blocks on the fullest SM of each GPU gives."""
    shared_out = [max(sum(b % sms == sm for b in range(blocks)) for sm in range(sms)) for sms in (80, 108)]
    assert portability_tables.ratio_by_block_count([blocks]) == pytest.approx(
        shared_out[1] / shared_out[0], rel=1e-3
    )


def test_the_rule_of_blocks_for_the_two_gpus() -> None:
    """80 SMs against 108: one block each up to 80, then two against one, two against two, three against
    two, ..."""
    found = portability_tables.ratio_by_block_count([64, 96, 128, 192, 224, 512])
    np.testing.assert_allclose(found, [1, 1 / 2, 1, 2 / 3, 1, 5 / 7], rtol=1e-3)


def test_the_scan_takes_every_access_that_a_plain_scan_takes() -> None:
    """The words of the up-sweep, from Blelloch's two nested loops."""
    expected = []
    stride = 1
    while stride < 1024:
        for right in range(2 * stride - 1, 1024, 2 * stride):
            expected.append((right - stride, right))
        stride *= 2
    reads = [w.tolist() for w in portability_tables.scan_accesses(padded=False)]
    # In each step come the warps of the left operand, then those of the right one, then the others.
    seen = []
    at, active = 0, 512
    while active >= 1:
        warps = -(-active // 32)
        left = list(chain(*reads[at : at + warps]))
        right = list(chain(*reads[at + warps : at + 2 * warps]))
        seen += list(zip(left, right, strict=True))
        at, active = at + 7 * warps, active // 2
    assert seen == expected


def test_padding_removes_the_conflicts_that_are_there_without() -> None:
    assert portability_tables.scan_conflicts(False, "greatest").value == 32
    assert portability_tables.scan_conflicts(True, "greatest").value == 1


def test_the_conflict_kernel_takes_as_many_passes_as_it_says() -> None:
    with pytest.raises(SmlabError, match="no such conflict"):
        portability_simulated.conflict_kernel(3, 1, 1)
    kernel = portability_simulated.conflict_kernel(32, 80, 80)
    assert kernel.shared_bytes_per_block == 32768
    from smlab.sim.address_patterns import words_on_fullest_bank

    for ways in (1, 4, 32):
        words = portability_simulated.Grouped(1, ways).words(32, 32)
        assert int(words_on_fullest_bank(words, 32)) == ways


def test_twice_the_blocks_on_an_sm_take_about_twice_as_long() -> None:
    """With 32-way conflicts the shared-memory pipe is the bottleneck: the ratio of run times is that of
    the blocks."""
    one, two = (portability_simulated._run("v100", 32, b).cycles for b in (80, 160))
    assert two / one == pytest.approx(2, rel=0.05)


def test_a_batch_drains_so_its_mean_load_is_about_half() -> None:
    """With equal service times s, A jobs are present for s, A - 1 for s, ...: (A + 1) / 2 on average."""
    seen = service_table.load_of_a_batch("titan-v", 64, 32, "unbounded")
    assert seen.value == pytest.approx(65 / 2 / 64, rel=0.03)


def test_equation_2_is_exact_for_instructions_only() -> None:
    assert projection.mix_rate_ratio("instructions").value == 1
    assert projection.mix_rate_ratio("operations").value == pytest.approx((2 * 2 / 3 + 1 / 3) / 1.5)


def test_conversions_of_differences() -> None:
    assert portability_tables.drop_from_difference(100).value == pytest.approx(50)
    assert portability_tables.turboseti_gain("v100", "time").value == pytest.approx(100 * (1 - 13600 / 30022))
    with pytest.raises(SmlabError, match="unknown"):
        grid_table("bank-5")
    with pytest.raises(SmlabError, match="unknown"):
        grid_table("bank-4").state("warm")
    with pytest.raises(SmlabError, match="no such series"):
        specifications.lanes_ratio("a6000", "add", 1, 32)


def test_an_observation_is_a_number_inside_its_interval() -> None:
    seen = Observed.exactly(np.float64(3))
    assert (seen.low, seen.value, seen.high) == (3, 3, 3)
    assert isinstance(seen.value, float)


def test_the_facts_that_claims_name_are_facts_of_the_study() -> None:
    """With points of the study's grid that were not simulated: only the names count."""
    found: dict[str, set[str]] = {}
    for grid in ("main", "large"):
        for gpu in histogram_study.THREADS:
            specs = [s for s in histogram_study.grid_of(gpu) if histogram_study.belongs(s, grid)]
            points = [
                CasePoint(
                    gpu=gpu,
                    **{
                        f.name: getattr(spec, f.name, 0.5 if f.type == "float" else 100)
                        for f in fields(CasePoint)
                        if f.name != "gpu"
                    },
                )
                for spec in specs
            ]
            found[f"{gpu} {grid}"] = set(facts({gpu: points}))
    used = [
        (e.arguments["gpu"], e.arguments.get("grid", "main"), e.arguments["name"])
        for claim in load_ledger().claims
        for e in claim.expects
        if e.quantity.name == "histogram.fact"
    ]
    assert len(used) > 20
    for gpu, grid, name in used:
        assert f"{gpu}.{name}" in found[f"{gpu} {grid}"], (gpu, grid, name)


def test_a_fact_that_is_not_there_is_told() -> None:
    with pytest.raises(SmlabError, match="not in it"):
        histogram_study.grid_of("v100")
