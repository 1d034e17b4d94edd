"""The kernels of GPA's own benchmark: what was published, what is stored, and what the page says."""

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smlab.validation.campaigns.advisor import pairs
from smlab.validation.campaigns.advisor.gpa.changes import PublishedAnswer, gain_of, judged, published_changes
from smlab.validation.campaigns.advisor.gpa.inputs import DRAWN
from smlab.validation.campaigns.advisor.speedups import FirstRow
from smlab.validation.papers import claims

RESULTS = Path(pairs.__file__).with_name("results.json")


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))["published"]
    return found


def test_each_change_is_a_row_of_the_published_table() -> None:
    path = Path(claims.__file__).with_name("tables") / "zhou2021.toml"
    table = {(row[0], row[1]): row[2] for row in tomllib.loads(path.read_text(encoding="utf-8"))["rows"]}
    kernels = published_changes()
    assert len(kernels) == 22
    for pair in kernels:
        gain = gain_of(pair)
        assert table[f"{gain.application}: {gain.kernel}", gain.optimization] == gain.gain, pair.name
        assert pair.change in pairs.RULES
        assert (pair.folder / "before.cu").is_file()
        assert (pair.folder / "after.cu").is_file()


def test_a_launch_has_a_time_only_where_all_are_alike() -> None:
    times = {pair.name: gain_of(pair).launch_us for pair in published_changes()}
    assert times["gpa_lud"] == pytest.approx(218.33 / 16)
    assert times["gpa_bfs"] is None
    assert times["gpa_kmeans"] is None


def test_what_is_stored_is_of_all_of_them(stored: dict[str, Any]) -> None:
    kernels = published_changes()
    assert [row["kernel"] for row in stored["rows"]] == [pair.name for pair in kernels]
    assert [row["measured"] for row in stored["rows"]] == [gain_of(pair).gain for pair in kernels]
    rows = [pairs.ChangeRow(**row) for row in stored["advised"]]
    clock_us = {row["kernel"]: row["simulated_us"] for row in stored["rows"]}
    first = FirstRow("", "", 1.0, (), 1.0, False)
    answers = [
        PublishedAnswer(
            pairs.PairAnswer(row, first, ()), clock_us[row.kernel], clock_us[row.kernel] / row.true
        )
        for row in rows
    ]
    again = judged(answers, [gain_of(pair) for pair in kernels])
    assert again["gain"]["mape"] == pytest.approx(stored["gain"]["mape"], rel=1e-3)
    assert again["times"]["mape"] == pytest.approx(stored["times"]["mape"], rel=1e-3)
    assert again["summary"]["among_the_first"] == stored["summary"]["among_the_first"]


def test_the_page_has_the_stored_figures(repository: Path, stored: dict[str, Any]) -> None:
    page = (repository / "docs" / "findings" / "advisor-speedups.md").read_text(encoding="utf-8")
    text = page[page.index("{#gpa}") : page.index("{#work-log}")]
    gain, among = stored["gain"], stored["summary"]["among_the_first"]
    assert (
        f"gains {gain['mape']:.1f} % more or less than they measured (median {gain['median_ape']:.1f} %)"
        in text
    )
    constant = gain["constant"]
    assert f"constant is {constant['mape']:.1f} % off ({constant['median_ape']:.1f} %)" in text
    assert f"among its first five on {among['5']} of 22, and first on {among['1']}" in text
    for row in stored["rows"]:
        assert f"| {row['measured']:.2f} |" in text
        name = row["kernel"].removeprefix("gpa_")
        (line,) = (one for one in text.splitlines() if one.startswith(f"| `{name}` |"))
        assert f"| {row['simulated']:.2f} |" in line


def test_drawn_arrays_are_what_they_should_be() -> None:
    names = {pair.name for pair in published_changes()}
    assert set(DRAWN) <= names
    matrix = DRAWN["gpa_lud"]()["matrix"]
    assert np.array_equal(matrix, matrix.T)
    huffman = DRAWN["gpa_huffman"]()
    share = np.bincount(huffman["source"].view(np.uint8), minlength=256) / (1 << 20)
    used = share[share > 0]
    assert -(used * np.log2(used)).sum() == pytest.approx(2.2066, abs=0.01)
    lengths = huffman["table_lengths"][share > 0].astype(float)
    assert (2.0**-lengths).sum() == 1.0  # Kraft's sum of a whole code
    tree = DRAWN["gpa_btree"]()
    assert (tree["high"] - tree["low"] == 3000).mean() > 0.99
