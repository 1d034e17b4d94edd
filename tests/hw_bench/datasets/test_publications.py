"""The published points: the table, its intervals, and its agreement with the file they were taken from."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import pytest

from smlab.hw_bench.datasets.publications import ATOMICS_FILE, load_published_atomics
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu


def test_eighteen_points_of_three_series() -> None:
    series = load_published_atomics()
    assert [(s.gpu, s.op) for s in series] == [("v100", "add"), ("a100-40", "add"), ("a100-40", "popc-inc")]
    for s in series:
        assert (s.warps, s.lanes) == (8, 32)
        assert s.same_word == (1, 2, 4, 8, 16, 32)
        assert len(s.cycles_per_instruction) == len(s.low) == len(s.high) == 6
        assert "S33322" in s.source
        assert "assumed" in s.note


def test_each_series_names_a_gpu_whose_clock_it_was_converted_with() -> None:
    for s in load_published_atomics():
        assert load_gpu(s.gpu).number("clock.sm_hz") == s.clock_hz


def test_intervals_are_a_fifth_of_a_gib_per_second_each_way() -> None:
    for s in load_published_atomics():
        for low, cycles, high in zip(s.low, s.cycles_per_instruction, s.high, strict=True):
            assert low < cycles < high

            def rate(c: float, clock_hz: float = s.clock_hz) -> float:
                return 128 * clock_hz / c / 2**30

            assert rate(low) - rate(cycles) == pytest.approx(0.2)
            assert rate(cycles) - rate(high) == pytest.approx(0.2)


def test_an_interval_worked_by_hand() -> None:
    """V100, all lanes on one word: 4.69 GiB/s +-0.2 at 1.38 GHz and 128 bytes is 33.6 to 36.6 cycles."""
    v100 = load_published_atomics()[0]
    assert v100.low[-1] == pytest.approx(164.51 / 4.8896, rel=1e-3)
    assert v100.high[-1] == pytest.approx(164.51 / 4.4896, rel=1e-3)


def test_series_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        load_published_atomics()[0].gpu = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("warps = 8 ", "warps = 0 ", "series.0.warps"),
        ('op = "add"', 'op = "sub"', "series.0.op"),
        ("[4.42, ", "[", "series.0: same_word and cycles_per_instruction differ in length"),
        ("[4.42, ", "[nan, ", "series.0.cycles_per_instruction.0"),
        ("[4.42, ", "[-4.42, ", "series.0.cycles_per_instruction.0"),
        ("16, 32]", "16, 64]", "series.0.same_word: more lanes on a word than are active .*64"),
        ("35.08", "3508", "series.0.cycles_per_instruction: the reading error exceeds the rate"),
        ("source = ", "sauce = ", "source: "),
        ("[[series]]", "[[series]", r"is not valid TOML: .*\(at line 10, column 9\)"),
    ],
)
def test_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = ATOMICS_FILE.read_text()
    assert old in text
    path = tmp_path / "points.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(SmlabError, match=message) as caught:
        load_published_atomics(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(SmlabError, match=r"gone\.toml: there is no such file"):
        load_published_atomics(tmp_path / "gone.toml")


def test_the_table_agrees_with_the_file_it_was_taken_from(shared_data: Path) -> None:
    path = shared_data / "shared-atomics" / "gtc2021_s33322_v100_a100.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    benchmark = {("v100", "add"): "inc_by_1", ("a100-40", "add"): "non1", ("a100-40", "popc-inc"): "inc_by_1"}
    for s in load_published_atomics():
        for n, cycles in zip(s.same_word, s.cycles_per_instruction, strict=True):
            (row,) = [
                r
                for r in rows
                if r["gpu"] == s.gpu[:4].upper()
                and r["source"].endswith(benchmark[s.gpu, s.op])
                and int(r["same_address_e"]) == n
            ]
            assert row["op"] == {"add": "ATOMS.ADD", "popc-inc": "ATOMS.POPC.INC"}[s.op]
            assert (int(row["warps_n"]), int(row["lanes_active"])) == (s.warps, s.lanes)
            assert cycles == pytest.approx(float(row["value"]), abs=0.05)  # the table may have a digit less
