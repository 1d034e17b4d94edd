"""``smlab project --dataset``: the JSON document, the printed tables, the picture, and refusals."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from smlab.commands.project.dataset import operator_switches, run_dataset_projection
from smlab.hw_bench.errors import SmlabError
from smlab.models.operators import OperatorSwitches
from smlab.models.projection.projection import PAPER, ProjectionSwitches
from smlab.validation.projection.operators import PAPER as PUBLISHED

HEADER = "OPName,Latency,Device,Kernel Name,Grid x,Grid y,Grid z,Block x,Block y,Block z,B,H\n"
PRODUCTS = "OPName,Latency,Device,Kernel Name,Grid x,Grid y,Grid z,Block x,Block y,Block z,B,M,N,K\n"
TABLE = [
    "n",
    "mape",
    "median_ape",
    "worst_ape",
    "bias",
    "spread",
    "kendall_tau",
    "within_5",
    "within_10",
    "within_25",
]
TABLE += ["mape_low", "mape_high", "baseline_mape"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "measured"
    place.mkdir()
    streams, products = [], []
    devices = (("Tesla V100-PCIE-32GB", 820e9, 13e12), ("Tesla T4", 240e9, 3.8e12))
    for device, bandwidth, flops in devices:
        for i in range(1, 11):
            seconds = 20e-6 + 8 * i * 2**14 * 2048 / bandwidth
            streams.append(f"relu,{1e3 * seconds},{device},k,{i * 2**14},1,1,128,1,1,{i * 2**14},2048\n")
            seconds = 2 * (i * 1024) * 2048 * 2048 / flops
            products.append(
                f"linear,{1e3 * seconds},{device},sgemm,{16 * i},8,1,256,1,1,1,{i * 1024},2048,2048\n"
            )
    (place / "elem.csv").write_text(HEADER + "".join(streams))
    (place / "linear.csv").write_text(PRODUCTS + "".join(products))
    return place


def document(capsys: pytest.CaptureFixture[str], folder: Path, target: str) -> Any:
    run_dataset_projection(f"neusight:{folder}", "v100", target, as_json=True)
    return json.loads(capsys.readouterr().out)


def test_json_has_the_agreed_keys(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    got = document(capsys, folder, "t4")
    assert (got["from"], got["to"]) == ("v100", "t4")
    assert len(got["kernels"]) == 20
    for row in got["kernels"]:
        assert {"kernel", "source_s", "low_s", "mid_s", "high_s", "limiter", "flags", "actual_s"} <= set(row)
        assert 0 < row["low_s"] <= row["mid_s"] <= row["high_s"]
    assert set(got["errors"]) == {"linear", "elementwise"}
    for errors in got["errors"].values():
        assert set(TABLE) <= set(errors)
        assert {"peak ratio", "bandwidth ratio", "best constant (fitted to the truth)"} <= set(
            errors["baselines"]
        )
        assert errors["baseline_mape"] == errors["baselines"]["peak ratio"]["mape"]
        assert all(set(TABLE) <= set(table) for table in errors["parts"].values())
    linear = got["errors"]["linear"]
    assert linear["mape"] < 10 < 40 < linear["baseline_mape"]
    assert got["launch_s"] == {"elementwise": pytest.approx(20e-6), "linear": pytest.approx(20e-6)}
    assert {"coverage", "median_width", "baseline_constant_mape", "spearman_ratio"} <= set(linear)
    assert got["skipped"] == []


def test_a_gpu_that_nobody_measured_is_projected_without_errors(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    got = document(capsys, folder, "l4")
    assert got["errors"] is None
    assert "actual_s" not in got["kernels"][0]
    assert "no measurement of l4" in got["notes"][0]
    run_dataset_projection(f"neusight:{folder}", "v100", "l4")
    assert "10 shapes" in capsys.readouterr().out


def test_people_get_a_table_for_each_operator(
    folder: Path, capsys: pytest.CaptureFixture[str], recorded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)  # a long path is folded in its middle, where no number of ours stands
    with recorded() as prints:
        run_dataset_projection(f"neusight:{folder.name}", "v100", "t4")
    prints.check_every_width()
    text = capsys.readouterr().out
    for expected in (
        "linear",
        "elementwise",
        "peak ratio",
        "best constant (fitted to the truth)",
        "without power",
    ):
        assert expected in text
    assert "nan" not in text.lower()


def test_the_picture_comes_with_its_data(folder: Path, tmp_path: Path) -> None:
    run_dataset_projection(f"neusight:{folder}", "v100", "t4", plot=tmp_path / "errors.png")
    assert (tmp_path / "errors.png").stat().st_size > 10_000
    with (tmp_path / "errors.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 20
    assert float(rows[0]["actual_s"]) > 0
    with pytest.raises(SmlabError, match="no actual time to draw against"):
        run_dataset_projection(f"neusight:{folder}", "v100", "l4", plot=tmp_path / "errors.png")


def test_unusable_requests_are_refused(folder: Path) -> None:
    with pytest.raises(SmlabError, match="no measurement of the source"):
        run_dataset_projection(f"neusight:{folder}", "p100", "t4")
    with pytest.raises(SmlabError, match="nosuch"):
        run_dataset_projection(f"neusight:{folder}", "nosuch", "t4")
    with pytest.raises(SmlabError, match="unknown set of measurements"):
        run_dataset_projection("nosuch:here", "v100", "t4")


def test_switches_of_profiles_carry_over() -> None:
    assert operator_switches(None) == operator_switches(ProjectionSwitches()) == OperatorSwitches()
    assert operator_switches(PAPER) == PUBLISHED
    off = operator_switches(ProjectionSwitches(cache=False, launch_overhead=False, maxima="spec"))
    assert off == OperatorSwitches(launch=False, sustained=False, cache=False, repeats=False)
