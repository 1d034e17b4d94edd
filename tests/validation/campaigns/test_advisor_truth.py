"""Simulated samples and exact truth on the listing that ships: equal in both engines, exact, conserved."""

import numpy as np
import pytest

from smlab.examples import KERNEL, KERNEL_LAUNCH
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles.pc_samples.samples import REASONS, reason_of
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.stall_causes.blame import blame
from smlab.models.advisor.stall_causes.latencies import described_latencies
from smlab.sim.frontends.registry import load_kernel
from smlab.sim.instructions import Reason
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.workloads.histogram import share_of
from smlab.validation.campaigns.advisor.simulate import Executed, execute

GPU = share_of(load_gpu("v100"), 2)


def launched() -> MachineLaunch:
    image = load_kernel(KERNEL, "sm_70")
    random = np.random.default_rng(1)
    pixels = random.integers(0, 256, 4096, dtype=np.uint8)
    out = np.zeros(256, dtype=np.int32)
    assert KERNEL_LAUNCH.is_file()
    return MachineLaunch(
        image, (4, 1, 1), (128, 1, 1), [pixels, out, np.int32(4096)], dynamic_shared_bytes=1024
    )


@pytest.fixture(scope="module")
def run() -> Executed:
    return execute(launched(), GPU, sms=2)


def test_samples_are_the_same_from_both_engines(run: Executed) -> None:
    other = execute(launched(), GPU, sms=2, engine="simpy")
    first, second = run.table(16), other.table(16)
    assert np.array_equal(first.stalled, second.stalled)
    assert np.array_equal(first.not_issued, second.not_issued)
    assert first.samples > 100


def test_simulated_reasons_have_the_names_of_a_profile_s() -> None:
    """Optimizers match by name."""
    assert {reason_of(reason.label) for reason in Reason} <= set(REASONS)


def test_samples_measure_time_and_reasons(run: Executed) -> None:
    """A sample in each cycle: the active ones are the scheduler's issues, each of them."""
    table = run.table(1)
    assert table.stalled[:, Reason.SELECTED].sum() <= run.result.warp_instructions
    issued = (table.stalled - table.not_issued).sum()
    assert issued == run.result.warp_instructions  # every issue of a scheduler is one active sample
    assert not table.not_issued[:, [Reason.SELECTED, Reason.NOT_SELECTED]].any()
    assert table.samples <= run.cycles * 4 * 2


def test_truth_is_exact(run: Executed) -> None:
    truth = run.truth
    stalls = run.result.stalls
    assert truth.unexplained == 0
    assert truth.cycles == stalls["long_scoreboard"] + stalls["short_scoreboard"]
    assert truth.last.sum() == truth.cycles
    assert truth.shared.sum() == pytest.approx(truth.cycles)
    counted = run.result.instruction_stalls
    assert counted is not None
    by_instruction = counted[:, [Reason.LONG_SCOREBOARD, Reason.SHORT_SCOREBOARD]].sum(axis=1)
    assert np.array_equal(truth.last.sum(axis=1), by_instruction)


def test_blame_finds_the_last_finisher(run: Executed) -> None:
    code = AdvisedCode(run.launch.image.function)
    samples = run.every_warp_cycle()
    result = blame(code, samples, "smlab", described_latencies(GPU))
    assert sum(b.samples for b in result.blame) + result.unattributed_samples == samples.samples
    found = np.zeros_like(run.truth.last)
    for b in result.blame:
        if b.reason in ("long_scoreboard", "short_scoreboard"):
            found[b.stalled, b.cause] += b.samples
    assert np.minimum(found, run.truth.last).sum() > 0.95 * run.truth.cycles


def test_a_producer_made_free_is_waited_for_no_more(run: Executed) -> None:
    worst = int(run.truth.last.sum(axis=0).argmax())
    without = execute(launched(), GPU, sms=2, free=worst)
    assert without.cycles < run.cycles
    assert without.truth.last[:, worst].sum() < 0.01 * run.truth.last[:, worst].sum()


def test_jitter_moves_time_and_keeps_the_truth_exact() -> None:
    cycles = set()
    for seed in (1, 2):
        jittered = execute(launched(), GPU, sms=2, jitter_seed=seed)
        assert jittered.truth.unexplained == 0
        cycles.add(jittered.cycles)
    assert len(cycles) == 2
