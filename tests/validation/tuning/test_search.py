"""The search: what is run longer, when it stops, and that it goes on where it ended. Times come from a
function here; the product's own are in tests/smlab/test_tune.py."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smlab.examples import TUNING_SPACE
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.tuning import search as searching
from smlab.validation.tuning.ranking import (
    BETWEEN_SPREAD,
    RankedTime,
    agreement,
    expected_loss,
    failures,
    ranked,
)
from smlab.validation.tuning.search import LADDER, LONGEST, SETTLED, SPENT, SearchOptions, search
from smlab.validation.tuning.simulated import AskedConfiguration, Sample, SimulatedTime
from smlab.validation.tuning.space import TuningSpace
from smlab.validation.tuning.space_file import read_space, read_times

SCATTER = {Sample(1, 1): 0.05, Sample(2, 3): 0.02, Sample(4, 3): 0.01, Sample(8, 3): 0.005}
NAN = float("nan")


def wide_space(count: int = 300) -> TuningSpace:
    space = read_space(TUNING_SPACE)
    return replace(space, configurations=tuple((64, n) for n in range(1, count + 1)), restricted=0, first=0)


def cache_of(space: TuningSpace, seconds: Sequence[float]) -> dict[str, Any]:
    """Measured times as Kernel Tuner keeps them."""
    rows = [{**space.settings(n), "time": 1e3 * s} for n, s in enumerate(seconds)]
    return {
        "device_name": "V100",
        "kernel_name": "histogram",
        "tune_params_keys": list(space.parameters),
        "cache": {str(n): row for n, row in enumerate(rows)},
    }


class ScatteredTimes:
    """Times of configurations: true ones grow with the number of blocks, samples scatter around them."""

    def __init__(self, *, gap: float, broken: int = 0) -> None:
        self.gap, self.broken = gap, broken
        self.asked: list[tuple[int, Sample]] = []

    def true_s(self, blocks: int) -> float:
        return 1e-3 * math.exp(self.gap * ((37 * blocks) % 300))

    def __call__(
        self, kernel: Any, gpu: Any, asked: Sequence[AskedConfiguration], sample: Sample, identity: str
    ) -> list[SimulatedTime]:
        return [self.one(int(one.settings["BLOCKS"]), sample) for one in asked]

    def one(self, blocks: int, sample: Sample) -> SimulatedTime:
        self.asked.append((blocks, sample))
        if blocks <= self.broken:
            return SimulatedTime(NAN, NAN, NAN, 1.0, error="does not compile: k.cu(3): error: no")
        drawn = np.random.default_rng([blocks, sample.sms]).standard_normal()
        seconds = self.true_s(blocks) * math.exp(SCATTER[sample] * drawn)
        return SimulatedTime(seconds, seconds, seconds, float(sample.sms * sample.samples))


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> ScatteredTimes:
    made = ScatteredTimes(gap=0.003)
    monkeypatch.setattr(searching, "simulate_all", made)
    return made


def searched(folder: Path, space: TuningSpace | None = None, **options: Any) -> searching.SearchResult:
    given = SearchOptions(jobs=1, **options)
    return search(space or wide_space(), load_gpu("v100"), folder, given)


def test_all_are_screened_and_only_the_first_run_longer(simulated: ScatteredTimes, tmp_path: Path) -> None:
    found = searched(tmp_path)
    counts = [len(times) for times in found.times]
    assert counts[0] == 300
    assert counts[1] < 150
    assert counts[1] > counts[2] > 10
    assert len(simulated.asked) == sum(counts)
    rows = ranked(found, LADDER)
    best = wide_space().settings(rows[0].numbers[0])["BLOCKS"]
    order = sorted(range(1, 301), key=simulated.true_s)
    assert int(best) in order[:3]
    assert {int(wide_space().settings(row.numbers[0])["BLOCKS"]) for row in rows[:10]} & set(order[:10])
    assert found.ended == LONGEST


def test_a_search_stops_when_the_order_is_settled(simulated: ScatteredTimes, tmp_path: Path) -> None:
    simulated.gap = 0.5
    found = searched(tmp_path, top=3)
    assert found.ended == SETTLED
    assert len(found.open) == 1
    assert len(found.times) == 2


def test_intervals_hold_the_true_times(simulated: ScatteredTimes, tmp_path: Path) -> None:
    """Of all rows, whatever sample they were run by, at least 90 % where 95 % are said."""
    rows = ranked(searched(tmp_path), LADDER)
    space = wide_space()
    held = [r.low <= simulated.true_s(int(space.settings(r.numbers[0])["BLOCKS"])) <= r.high for r in rows]
    assert np.mean(held) > 0.9


def test_the_budget_ends_a_search_and_says_so(simulated: ScatteredTimes, tmp_path: Path) -> None:
    found = searched(tmp_path, budget_cpu_s=100.0)
    assert found.ended == SPENT
    assert 100 <= found.cpu_s < 130
    assert len(found.times[0]) < 130
    later = searched(tmp_path / "later", budget_cpu_s=500.0)
    assert (later.ended, len(later.times[0])) == (SPENT, 300)
    with pytest.raises(SmlabError, match="--budget-cpu-s: no time"):
        SearchOptions(budget_cpu_s=0.0)


def test_a_search_that_was_cut_off_ends_as_one_that_was_not(
    simulated: ScatteredTimes, tmp_path: Path
) -> None:
    whole = searched(tmp_path / "whole")
    asked = len(simulated.asked)
    searched(tmp_path / "cut", budget_cpu_s=50.0)
    searched(tmp_path / "cut", budget_cpu_s=700.0, resume=True)
    resumed = searched(tmp_path / "cut", resume=True)
    assert len(simulated.asked) == 2 * asked  # nothing was run twice
    assert resumed.times == whole.times
    assert (resumed.ratio, resumed.spread, resumed.ended) == (whole.ratio, whole.spread, whole.ended)
    first, second = (ranked(found, LADDER) for found in (whole, resumed))
    assert [(r.numbers, r.seconds) for r in first] == [(r.numbers, r.seconds) for r in second]


def test_a_folder_with_a_search_is_continued_only_when_asked(
    simulated: ScatteredTimes, tmp_path: Path
) -> None:
    searched(tmp_path, budget_cpu_s=5.0)
    with pytest.raises(SmlabError, match="holds an earlier search: continue it with --resume"):
        searched(tmp_path)
    other = replace(wide_space(), kernel=replace(wide_space().kernel, flags="-O1"))
    with pytest.raises(SmlabError, match="made with another space, GPU or version of smlab"):
        searched(tmp_path, other, resume=True)


def test_failures_are_counted_by_reason(simulated: ScatteredTimes, tmp_path: Path) -> None:
    simulated.broken = 40
    found = searched(tmp_path)
    (one,) = failures(found, wide_space())
    assert (one.reason, len(one.numbers)) == ("does not compile", 40)
    assert one.example.startswith("THREADS=64, BLOCKS=")
    assert one.example.endswith("k.cu(3): error: no")
    rows = ranked(found, LADDER)
    assert len(rows) == 260
    assert len(searched(tmp_path, resume=True).times[0]) == 300


def test_a_space_where_nothing_works_has_no_ranking(simulated: ScatteredTimes, tmp_path: Path) -> None:
    simulated.broken = 300
    found = searched(tmp_path)
    assert ranked(found, LADDER) == []
    assert found.open == ()


def test_drawn_configurations_are_those_of_the_seed(simulated: ScatteredTimes, tmp_path: Path) -> None:
    found = [searched(tmp_path / str(n), draw=20, seed=seed) for n, seed in enumerate((1, 1, 2))]
    drawn = [{m for members in f.groups.values() for m in members} for f in found]
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(0 in numbers and 20 <= len(numbers) <= 21 for numbers in drawn)


def test_an_order_is_judged_by_measured_times(simulated: ScatteredTimes, tmp_path: Path) -> None:
    space = wide_space()
    rows = ranked(searched(tmp_path), LADDER)
    seconds = [simulated.true_s(int(str(c[1]))) for c in space.configurations]
    path = tmp_path / "cache.json"
    path.write_text(json.dumps(cache_of(space, seconds)))
    times = read_times(path)
    found = agreement(space, rows, times)
    assert found.n == 300
    assert found.spearman > 0.97
    assert found.best_place <= 10
    assert found.fraction_first <= found.fraction_ten == 1.0


def rows_of(seconds: Sequence[float]) -> list[RankedTime]:
    time = SimulatedTime(1.0, 1.0, 1.0, 0.0)
    return [RankedTime((n,), s, s, s, LADDER[0], time) for n, s in enumerate(sorted(seconds))]


def test_measuring_all_loses_nothing_and_few_lose_more() -> None:
    rows = rows_of(np.geomspace(1.0, 1.3, 60).tolist())
    losses = [expected_loss(rows, measured) for measured in (1, 3, 10, 30, 60)]
    assert [loss.mean for loss in losses] == sorted((loss.mean for loss in losses), reverse=True)
    assert losses[0].high > losses[2].high > 0
    assert losses[-1].mean == losses[-1].high == 0
    assert expected_loss(rows_of([1.0, 5.0, 7.0]), 1).high == 0


def test_losses_are_those_of_drawn_cards() -> None:
    """Against cards whose errors are drawn here, one by one."""
    rows = rows_of(np.geomspace(1.0, 1.5, 200).tolist())
    random, found = np.random.default_rng(5), []
    for _ in range(400):
        card = [row.seconds * math.exp(random.normal(0, BETWEEN_SPREAD)) for row in rows]
        found.append(min(card[:10]) / min(card) - 1)
    told = expected_loss(rows, 10)
    assert told.mean == pytest.approx(np.mean(found), rel=0.15)
    assert np.mean(np.array(found) <= told.high) == pytest.approx(0.9, abs=0.05)
