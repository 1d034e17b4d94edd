"""The kept results on kernels that others measured: what ships is whole, reads back, and is shown."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import list_gpus, load_gpu
from smlab.validation.checks import Plan, projection
from smlab.validation.projection.measured import records
from smlab.validation.projection.measured.records import EACH, shipped_records, write_records
from smlab.validation.report import Report


def test_what_ships_names_cards_and_is_whole() -> None:
    found = shipped_records()
    assert {p.kind for p in found.pairs} >= {
        "tuned convolution, with counters",
        "tuned convolution, times only",
        "operator: linear",
    }
    for pair in found.pairs:
        assert {pair.source, pair.target} <= {*list_gpus(), EACH}
        assert pair.comparison.n > 50
        assert math.isfinite(pair.comparison.error)
        assert 0 <= pair.held <= 100


def test_each_mechanism_buys_something_on_some_set() -> None:
    """None is kept that buys nothing on any set, simulated ones included."""
    gained: dict[str, float] = {}
    for b in shipped_records().bought:
        gained[b.mechanism] = max(gained.get(b.mechanism, 0.0), b.without - b.with_it)
    assert not {name for name, gain in gained.items() if gain < 0.05}


def test_records_read_back_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = replace(shipped_records(), about="another set")
    path = tmp_path / "r.json"
    write_records(found, path)
    monkeypatch.setattr(records, "RECORDS", path)
    assert shipped_records.__wrapped__() == found
    path.write_text("{}")
    with pytest.raises(SmlabError, match="cannot be read .*smlab.validation.projection.measured"):
        shipped_records.__wrapped__()


def test_the_report_tells_each_kind_once_and_every_pair() -> None:
    page = Report("title", "about")
    plan = Plan(load_gpu("v100"), quick=True, seed=0, processes=1)
    assert projection.tasks(plan) == []
    projection.report(page, plan, {})
    found = shipped_records()
    pooled = {p.kind for p in found.pairs if p.source == EACH}
    told = [p for p in found.pairs if p.kind not in pooled or p.source == EACH]
    assert len(page.findings) == len(told)
    assert len(page.tables()["projection-measured-pairs"].rows) == len(found.pairs)
    assert len(page.tables()["projection-mechanisms"].rows) == len(found.bought)
