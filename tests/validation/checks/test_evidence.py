"""Published measurements of the memory path: the rows are sound, and the simulator meets those that judge
it."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import pytest

from smlab.hw_bench.datasets.evidence import EVIDENCE_FILE, Evidence, judged_rows, load_evidence
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import list_gpus, load_gpu
from smlab.validation.channel_histograms import ENTRIES, simulate_entry
from smlab.validation.checks.evidence import EvidenceResult, simulate_rows
from smlab.validation.evidence import EXPERIMENTS

MISSED = {"t4-looped-add-1", "h800-atomic-chain", "h800-atomic-interval", "h100-pcie-hand-over"}
"""Judged rows that are told as missed: a T4's under the alternative *rounds* alone (18 % too slow). An H100
of our own takes 26 cycles for a link of a chain of shared atomics and 4 from one to the next. 33.48 and 4.89
are published of an H800; the published chain has the instructions of an address in it."""


@pytest.fixture(scope="module")
def simulated() -> dict[str, EvidenceResult]:
    return {s.row.id: s for s in simulate_rows(load_evidence())}


def test_rows_name_what_exists() -> None:
    rows = load_evidence()
    assert len({row.id for row in rows}) == len(rows)
    assert {row.gpu for row in rows} <= set(list_gpus())
    assert {row.experiment for row in rows} == set(EXPERIMENTS)
    for row in rows:
        assert len(row.source) > 30
        assert row.low is None or row.low <= row.value <= (row.high or row.value)
    assert len(judged_rows("b300")) > 10
    assert judged_rows("l4") == []


def test_judged_rows_are_met_under_every_alternative(simulated: dict[str, EvidenceResult]) -> None:
    judged = {name: s for name, s in simulated.items() if s.row.used == "judged"}
    assert len(judged) > 50
    assert {name for name, s in judged.items() if not all(s.holds)} == MISSED


def test_fitted_rows_are_met_too(simulated: dict[str, EvidenceResult]) -> None:
    assert [n for n, s in simulated.items() if s.row.used == "fitted" and not all(s.holds)] == []


def test_a_bound_binds_on_one_side_only(simulated: dict[str, EvidenceResult]) -> None:
    bound = simulated["thor-counting-loop"]
    assert bound.row.bound
    assert bound.values[0] < bound.row.value
    slower = dataclasses.replace(bound, values=(bound.row.value * 1.01,))
    assert slower.holds == (False,)
    assert slower.error(bound.row.value / 2) == 0


def test_an_error_is_that_from_the_nearer_end_of_a_range(simulated: dict[str, EvidenceResult]) -> None:
    triad = simulated["a100-40-triad"]
    assert triad.error(1365.0) == 0
    assert triad.error(1360 * 0.9) == pytest.approx(-0.1)
    assert triad.error(1370 * 1.1) == pytest.approx(0.1)


def test_another_machine_would_miss_them() -> None:
    """The table can tell: without the path's constants the rows are not met."""
    row = next(r for r in load_evidence() if r.id == "a6000-issue-8-of-4-3")
    quick = load_gpu("a6000").with_values({"mio.request_interval_cycles": 1}, source="a test")
    found = EvidenceResult(row, ("x",), (EXPERIMENTS[row.experiment](quick, **row.parameters),))
    assert found.holds == (False,)


def test_the_h100_histograms_come_in_the_right_order_and_within_a_quarter() -> None:
    """No constant was fitted to them; a rule of atomics in L2 was chosen after a look at entry 3."""
    for _, gpu in load_gpu("h100-sxm").variants():
        found = {e.entry: simulate_entry(gpu, e) for e in ENTRIES}
        times = [found[k].ms for k in (3, 4, 6, 8)]
        assert times == sorted(times, reverse=True)
        # Entry 3 adds to global memory, lane by lane: too fast, as the true hash of L2's slices is unknown.
        assert found[3].ms < 0.5 * next(e.ms for e in ENTRIES if e.entry == 3)
        for e in ENTRIES[1:]:
            assert found[e.entry].ms == pytest.approx(e.ms, rel=0.25)
        # What each waits for: loads, and the data stage nearly full.
        assert found[4].long_scoreboard == pytest.approx(38.0, rel=0.25)
        assert found[6].long_scoreboard == pytest.approx(6.01, rel=0.25)
        assert found[8].stage_percent > 75


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('used = "judged"', 'used = "guessed"', r"evidence\.\d+\.used: "),
        ("value = 13.0", "value = -13.0", r"evidence\.\d+\.value: "),
        ('unit = "cycles"', 'units = "cycles"', r"evidence\.\d+\.unit"),
    ],
)
def test_a_wrong_row_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(EVIDENCE_FILE.read_text().replace(old, new, 1))
    with pytest.raises(SmlabError, match=message):
        load_evidence(path)


def test_the_figures_are_those_that_were_given(shared_data: Path) -> None:
    """Against the collection of measurements, where it is there: barriers, shared loads and the B300's
    loops."""
    folder = shared_data / "measured-atomics"
    if not folder.is_dir():
        pytest.skip("the collection of measured atomics is not here")
    rows: dict[str, Evidence] = {row.id: row for row in load_evidence()}

    def table(name: str) -> list[dict[str, str]]:
        lines = [line for line in (folder / name).read_text().splitlines() if not line.startswith("#")]
        return list(csv.DictReader(lines))

    for line in table("syncthreads_cycles_a100.csv"):
        assert rows[f"a100-barrier-{line['warps']}"].value == float(line["cycles"])
    times = {line["pattern"]: line for line in table("shared_load_conflicts_ms.csv")}
    for gpu, column in (("a100-40", "a100_ms"), ("v100", "v100_ms")):
        ratio = float(times["conflict_8_way"][column]) / float(times["conflict_4_way"][column])
        assert rows[f"{gpu}-loads-8-over-4"].value == pytest.approx(ratio, abs=1e-4)
    loops = {(line["op"], line["returns"]): line for line in table("b300_single_warp_shared_atomics.csv")}
    assert rows["b300-loop-atomic-cas-one-bank-none"].value == float(loops["CAS", "no"]["one_bank_cycles"])
    assert rows["b300-loop-atomic-add-one-word-result"].value == float(
        loops["ADD variable", "yes"]["one_word_cycles"]
    )
