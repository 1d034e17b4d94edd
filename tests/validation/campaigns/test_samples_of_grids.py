"""Samples of a grid beside the whole grid: what is stored, and one kernel again."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.validation.campaigns.advisor.pairs import ChangedKernel, read_round
from smlab.validation.campaigns.sampling import __main__ as campaign

STORED = json.loads(Path(campaign.__file__).with_name("results.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("gpu", campaign.SETS)
def test_summaries_are_those_of_the_rows(gpu: str) -> None:
    assert campaign.summary(STORED[gpu]["rows"]) == STORED[gpu]["summary"]
    assert STORED[gpu]["use"] == campaign.SETS[gpu][0]


def test_nothing_is_dropped_but_small_grids() -> None:
    """All kernels of the rounds are there that have more blocks than the card has SMs."""
    kernels = {pair.name for name in campaign.ROUNDS for pair in read_round(name, "h100-sxm")}
    stored = {row["kernel"] for row in STORED["h100-sxm"]["rows"]}
    assert stored < {row["kernel"] for row in STORED["a100-40"]["rows"]} < kernels


@pytest.mark.skipif(not has_compiler(), reason="the CUDA compiler of the extra cuda12 is not installed")
@pytest.mark.parametrize("kernel", ["ray_spheres", "expert_load"])
def test_a_kernel_again(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What all blocks read at once, and SMs with more blocks than others."""

    def only(name: str, gpu: str) -> Sequence[ChangedKernel]:
        return [pair for pair in read_round(name, gpu) if pair.name == kernel]

    monkeypatch.setattr(campaign, "read_round", only)
    (row,) = campaign.rows_of("a100-40", campaign.ROUNDS)
    (stored,) = (r for r in STORED["a100-40"]["rows"] if r["kernel"] == kernel)
    assert row["whole"] == pytest.approx(stored["whole"], rel=0.02)
    for sms in map(str, campaign.SAMPLES):
        assert row[sms][0] == pytest.approx(row["whole"], rel=0.05)
        assert row[sms][1] < row["whole"] < row[sms][2]
