"""What synchronising operations cost, against published measurements."""

import json
from collections import Counter
from pathlib import Path

import pytest

from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.errors import SmlabError
from smlab.validation.campaigns.synchronization import judge as judging
from smlab.validation.campaigns.synchronization.judge import Judged, cost, summary
from smlab.validation.campaigns.synchronization.operations import OPERATIONS, PublishedCost, gpu_of, published

RESULTS = Path(judging.__file__).with_name("results.json")


def test_each_operation_was_measured_on_three_gpus_with_five_sizes() -> None:
    rows = list(published())
    sizes = Counter((row.gpu, row.operation, row.type) for row in rows)
    assert set(sizes.values()) == {5}
    for operation in OPERATIONS:
        on = {gpu for gpu, name, _ in sizes if name == operation}
        # The published file of this operation holds zeros alone on the RTX 2070 Super.
        assert len(on) == (2 if operation == "match" else 3)


def test_an_unknown_row_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("gpu,operation,type,1\na100-40,dance,int,5\n")
    with pytest.raises(SmlabError, match="no such operation"):
        list(published(tmp_path / "p.csv"))


def test_a_summary_counts_what_is_beyond_a_factor() -> None:
    rows = [
        Judged(PublishedCost("a100-40", "vote", "int", 1, 10.0), cycles) for cycles in (10.0, 11.0, 20.0, 5.0)
    ]
    assert summary(rows) == pytest.approx(
        {"rows": 4, "median_percent": 30.0, "beyond_percent": 50.0, "largest_factor": 2.0}
    )


def test_what_is_stored_is_of_all_published_costs() -> None:
    stored = json.loads(RESULTS.read_text(encoding="utf-8"))
    wanted = [r for r in published() if r.cycles >= judging.NO_COST_CYCLES]
    for policy in ("glr", "gto"):
        rows = stored[policy]["rows"]
        assert [tuple(row[:5]) for row in rows] == [
            (r.gpu, r.operation, r.type, r.threads, r.cycles) for r in wanted
        ]
        judged = [Judged(r, row[5]) for r, row in zip(wanted, rows, strict=True)]
        assert summary(judged) == pytest.approx(stored[policy]["all"], rel=1e-3)


@pytest.mark.skipif(not has_compiler(), reason="the CUDA compiler of the extra cuda12 is not installed")
@pytest.mark.parametrize(
    ("operation", "kind", "threads", "cycles"),
    [
        ("compare-and-swap, own words", "int", 256, 80.0),
        ("add, one word", "float", 256, 802.1),
        ("shuffle", "int", 32, 25.0),
        ("barrier of a block", "none", 1024, 85.0),
        ("fence", "int", 32, 773.3),
        ("match", "int", 32, 199.0),
        ("match", "double", 256, 511.0),
        ("barrier of a warp", "none", 1024, 8.0),
    ],
)
def test_an_operation_costs_what_was_measured_on_an_a100(
    operation: str, kind: str, threads: int, cycles: float
) -> None:
    assert cost(operation, kind, threads, gpu_of("a100-40")) == pytest.approx(cycles, rel=0.06)


@pytest.mark.skipif(not has_compiler(), reason="the CUDA compiler of the extra cuda12 is not installed")
@pytest.mark.parametrize(
    ("gpu", "threads", "cycles"),
    [("a100-40", 32, 16.7), ("rtx-2070-super", 128, 67.14), ("rtx-4090", 128, 74.67)],
)
def test_a_slice_adds_one_double_in_a_clock_or_two(gpu: str, threads: int, cycles: float) -> None:
    assert cost("add, own words", "double", threads, gpu_of(gpu)) == pytest.approx(cycles, rel=0.07)
