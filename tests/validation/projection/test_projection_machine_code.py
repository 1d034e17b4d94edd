"""The second predictor: what is run and kept, and how its errors are told. What runs is a stand-in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass.image import CompiledResources
from smlab.validation.projection import machine_code
from smlab.validation.projection.machine_code import CodeRun, LaunchData, RunTime, run_codes, whole_shape
from smlab.validation.projection.tuning_simulated import SimulatedSpace, simulated_errors

HERE, THERE = load_gpu("rtx-2080-ti"), load_gpu("rtx-3090")
DATA = LaunchData((), "data")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[CodeRun]:
    seen: list[CodeRun] = []

    def run(one: CodeRun, data: LaunchData) -> RunTime:
        seen.append(one)
        return RunTime(1000.0 * len(one.cubin), 900.0, 1100.0, 1e9, 1e9, 1e9)

    monkeypatch.setattr(machine_code, "_run", run)
    return seen


def test_what_was_run_is_kept_until_something_changes(ran: list[CodeRun], tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    one = CodeRun(b"abc", "k", (4, 1, 1), (32, 1, 1), HERE)
    steps: list[tuple[int, int]] = []
    first = run_codes([one, one], DATA, store, lambda done, total: steps.append((done, total)))
    assert [f.cycles for f in first] == [3000.0, 3000.0]
    assert first[0].seconds == 3e-6
    assert steps == [(1, 2), (2, 2)]
    assert len(ran) == 1
    assert run_codes([one], DATA, store) == first[:1]
    assert len(ran) == 1
    changed = HERE.with_values({"l1.latency_cycles": 99}, source="a test")
    # The same clock, which somebody knows now: no power limit holds it.
    known = HERE.with_values({"clock.sm_hz": HERE.number("clock.sm_hz")}, source="a test")
    for gpu in (changed, known):
        run_codes([replace(one, gpu=gpu)], DATA, store)
    for other in (replace(one, grid=(5, 1, 1)), replace(one, cubin=b"abd")):
        run_codes([other], DATA, store)
    run_codes([one], LaunchData((), "other data"), store)
    assert len(ran) == 6
    run_codes([one], DATA, None)  # nothing kept, nothing found
    assert len(ran) == 7


def test_what_was_run_before_an_interruption_is_there_afterwards(
    ran: list[CodeRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [CodeRun(b"x" * n, "k", (4, 1, 1), (32, 1, 1), HERE) for n in (1, 2, 3)]
    run = machine_code._run

    def interrupted(one: CodeRun, data: LaunchData) -> RunTime:
        if len(one.cubin) == 3:
            raise KeyboardInterrupt
        return run(one, data)

    monkeypatch.setattr(machine_code, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_codes(runs, DATA, tmp_path / "s.sqlite")
    monkeypatch.setattr(machine_code, "_run", run)
    run_codes(runs, DATA, tmp_path / "s.sqlite")
    assert [len(one.cubin) for one in ran] == [1, 2, 3]


def test_a_set_without_shapes_is_refused() -> None:
    assert whole_shape("row 1", np.array([4.0, 2.0, 1.0])) == (4, 2, 1)
    for shape in (None, np.array([4.0, np.nan, 1.0])):
        with pytest.raises(SmlabError, match="row 1: the set does not tell the launch's shape"):
            whole_shape("row 1", shape)


def test_widths_are_fitted_without_the_family_that_they_judge() -> None:
    """Ten families off by 10 %, one by 60 %: its own interval does not know."""
    rng = np.random.default_rng(0)
    family = tuple(f"f{i % 11}" for i in range(1100))
    spread = np.where(np.array(family) == "f10", 0.6, 0.1)
    actual = np.exp(rng.normal(size=1100) * spread / 1.645)
    one = np.ones(1100)
    space = SimulatedSpace(one * 2, one, one * 1.1, one * 0, one, ())
    found = simulated_errors(space, actual, family, HERE, THERE)
    assert found.families == 11
    assert found.source == pytest.approx(1.1)
    assert found.errors.median_width == pytest.approx(10.5, abs=4)
    assert 80 < found.errors.coverage < 92
    with pytest.raises(SmlabError, match="rows of one family only"):
        simulated_errors(space, actual, ("one",) * 1100, HERE, THERE)


def test_readings_that_are_apart_widen_their_own_rows() -> None:
    """A tenth of the rows, off by a factor of two either way, has readings that far apart; the others stay
    narrow."""
    rng = np.random.default_rng(1)
    family = tuple(f"f{i % 11}" for i in range(1100))
    distant = np.where(np.arange(1100) % 10 == 0, np.log(2), 0.0)
    actual = np.exp(rng.normal(size=1100) * np.hypot(0.05, distant) / 1.645)
    one = np.ones(1100)
    told, blind = (
        simulated_errors(SimulatedSpace(one, one, one, known, one, ()), actual, family, HERE, THERE).errors
        for known in (distant, 0 * distant)
    )
    assert 87 < told.coverage < 93
    assert told.median_width < 0.85 * blind.median_width


def test_code_that_another_compiler_could_make_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {b"a": (40, 0, 0), b"b": (50, 0, 0), b"c": (51, 0, 0), b"d": (40, 0, 8)}
    monkeypatch.setattr(machine_code, "resources_of", lambda cubin, kernel: CompiledResources(*made[cubin]))
    assert not machine_code.compiled_otherwise(b"a", b"b", "k")
    assert machine_code.compiled_otherwise(b"a", b"c", "k")
    assert machine_code.compiled_otherwise(b"c", b"a", "k")
    assert machine_code.compiled_otherwise(b"a", b"d", "k")
