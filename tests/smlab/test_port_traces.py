"""``smlab port`` of traces as they happen: renamed kernels, whole applications, drift, and no cause without a
counter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smlab.cli.main import run

HEADER = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),"
    "Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name"
)
RELU = "void at::native::vectorized_elementwise_kernel<4, Relu>"
V100 = [
    ("volta_sgemm_128x128_tn", 640, 256, 400),
    (RELU, 1024, 128, 50),
    ("volta_sgemm_32x128_tn", 320, 256, 150),
]
A100 = [
    ("ampere_sgemm_128x64_tn", 1280, 128, 280),
    (RELU, 1024, 128, 35),
    ("ampere_sgemm_32x128_tn", 320, 256, 105),
]
STEPS = 20
GAP_NS, COPY_NS = 2000, 500_000


def trace(
    path: Path, device: str, kernels: list[tuple[str, int, int, float]], slow_from: int = STEPS
) -> Path:
    """A copy, then 20 steps of all kernels, 2 us between them; from ``slow_from`` on the first takes 6 %
    longer."""
    start, lines = 1000, [HEADER]
    lines.append(f'{start},{COPY_NS},1,,,,,,,,,,8.0,16000,Pageable,Device,"{device}",1,7,[CUDA memcpy HtoD]')
    start += COPY_NS + GAP_NS
    rng = np.random.default_rng(1)
    for step in range(STEPS):
        for i, (name, grid, block, us) in enumerate(kernels):
            slow = 1.06 if i == 0 and step >= slow_from else 1.0
            duration = int(1e3 * us * slow * (1 + 5e-4 * rng.standard_normal()))
            lines.append(f'{start},{duration},1,{grid},1,1,{block},1,1,64,0,0,,,,,"{device}",1,7,"{name}"')
            start += duration + GAP_NS
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    v100 = trace(tmp_path / "a.csv", "Tesla V100-PCIE-32GB (0)", V100)
    a100 = trace(tmp_path / "b.csv", "NVIDIA A100-PCIE-40GB (0)", A100, slow_from=12)
    return [f"v100={v100}", f"a100-40={a100}"]


def ported(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["port", *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_renamed_kernels_are_paired_in_their_order(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = ported(capsys, *files)
    assert [(r["source_kernel"], r["target_kernel"]) for r in found["renamed"]] == [
        ("volta_sgemm_128x128_tn", "ampere_sgemm_128x64_tn"),
        ("volta_sgemm_32x128_tn", "ampere_sgemm_32x128_tn"),
    ]
    assert found["renamed"][0]["by"] == "name without generation and numbers, work, 20 launches, order"
    assert "name without generation, grid and block, work, 20 launches" in found["renamed"][1]["by"]
    assert found["unmatched"] == {"v100": [], "a100-40": []}
    assert len(found["kernels"]) == 3
    for row in found["kernels"]:
        assert row["ratio"] == pytest.approx(0.7, rel=0.005)


def test_equal_work_decides_between_two_products(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two here, one there: 640 tiles of 128 x 128 are as many results as 1,280 of 128 x 64; 64 are not."""
    small, large = ("volta_sgemm_128x128_nt", 64, 256, 40), ("volta_sgemm_128x128_tn", 640, 256, 400)
    for number, order in enumerate(([small, large], [large, small])):
        here = trace(tmp_path / f"v{number}.csv", "Tesla V100-PCIE-32GB (0)", order)
        there = trace(
            tmp_path / f"a{number}.csv",
            "NVIDIA A100-PCIE-40GB (0)",
            [("ampere_sgemm_128x64_tn", 1280, 128, 280)],
        )
        found = ported(capsys, f"v100={here}", f"a100-40={there}")
        assert [row["source_kernel"] for row in found["renamed"]] == ["volta_sgemm_128x128_tn"]


def test_totals_over_the_application(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """600 us a step on the V100, 420 on the A100 with 8 steps of 16.8 us more; one copy; 60 gaps of 2 us."""
    found = ported(capsys, *files)
    v100, a100 = found["application"]["v100"], found["application"]["a100-40"]
    assert v100["kernels_s"] == pytest.approx(12e-3, rel=1e-3)
    assert a100["kernels_s"] == pytest.approx(8.4e-3 + 8 * 16.8e-6, rel=1e-3)
    for whole in (v100, a100):
        assert (whole["copies_s"], whole["memsets_s"]) == (pytest.approx(0.5e-3), 0)
        assert whole["gaps_s"] == pytest.approx(60 * 2e-6)
        assert whole["span_s"] == pytest.approx(whole["kernels_s"] + 0.5e-3 + 60 * 2e-6)
        assert (whole["launches"], whole["copies"]) == (60, 1)
        assert whole["matched_share"] == pytest.approx(1)
    assert a100["ratio"] == pytest.approx(a100["span_s"] / v100["span_s"])
    assert [row["weight"] for row in found["kernels"]] == pytest.approx(
        [400 / 600, 50 / 600, 150 / 600], rel=1e-3
    )
    assert sum(row["target_total_s"] for row in found["kernels"]) == pytest.approx(a100["kernels_s"])


def test_drift_is_named_by_gpu_time_and_size(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = ported(capsys, *files)
    drifting = [row for row in found["kernels"] if row["drifting"]]
    assert [row["kernel"] for row in drifting] == ["volta_sgemm_128x128_tn"]
    (drift,) = drifting[0]["drift"]
    assert (drift["platform"], drift["launch"]) == ("a100-40", 12)
    assert drift["change"] == pytest.approx(0.06, abs=0.002)
    assert drift["at_s"] == pytest.approx(12 * 426e-6, rel=0.01)
    assert run(["port", *files]) == 0
    assert "a100-40 +6.0% from launch 13" in " ".join(capsys.readouterr().out.split())


def test_another_unit_gives_the_same(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The A100's trace in microseconds."""
    first = ported(capsys, *files)
    path = tmp_path / "b.csv"
    header, *lines = path.read_text().splitlines()
    cells = [line.split(",", 2) for line in lines]
    changed = [f"{int(a) / 1e3:.3f},{int(b) / 1e3:.3f},{rest}" for a, b, rest in cells]
    path.write_text("\n".join([header.replace("(ns)", "(us)"), *changed]) + "\n")
    again = ported(capsys, *files)
    assert again["renamed"] == first["renamed"]
    for one, other in zip(again["kernels"], first["kernels"], strict=True):
        assert one["ratio"] == pytest.approx(other["ratio"], rel=1e-9)
        assert one["drifting"] == other["drifting"]
    whole, before = again["application"]["a100-40"], first["application"]["a100-40"]
    assert [whole[key] for key in whole] == pytest.approx([before[key] for key in whole])


def test_no_cause_is_named_without_a_counter(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = ported(capsys, *files)
    assert {row["dominant"] for row in found["kernels"]} <= {"not told", "unexplained", "nothing"}
    assert {row["fits"] for row in found["kernels"]} == {"sms and tail"}
    assert found["portability"] == []
    assert run(["port", *files]) == 0
    told = capsys.readouterr().out
    assert "no counters, so no cause" in told
    assert "portability: not told" in told
    assert "largest cause:" not in told


def test_a_file_pairs_what_nothing_else_tells(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = [("my_kernel_v2", 99, 64, 35.0) if name == RELU else (name, g, b, us) for name, g, b, us in A100]
    trace(tmp_path / "b.csv", "NVIDIA A100-PCIE-40GB (0)", other)
    assert ported(capsys, *files)["unmatched"]["a100-40"] != []
    pairs = tmp_path / "pairs.csv"
    pairs.write_text(f'source,target\n"{RELU}",my_kernel\n')
    found = ported(capsys, *files, "--pair", str(pairs))
    assert found["unmatched"] == {"v100": [], "a100-40": []}
    assert (found["renamed"][0]["target_kernel"], found["renamed"][0]["by"]) == (
        "my_kernel_v2",
        "the file of pairs",
    )
    for text, message in (
        ("a,b\n", "not the header"),
        ("source,target\nx\n", "not a pair of names"),
        ("source,target\nvolta,y\n", "no kernel of"),
        ("source,target\n", "no pair in it"),
        ("source,target\nvolta,my\nvolta,amp\n", "stands twice"),
    ):
        pairs.write_text(text)
        assert run(["port", *files, "--pair", str(pairs)]) == 2
        assert message in capsys.readouterr().err


def test_launch_shapes_that_only_one_gpu_has_more_of_are_not_guessed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One kernel with two grids here and one other grid there."""
    here = trace(
        tmp_path / "a.csv", "Tesla V100-PCIE-32GB (0)", [*V100, ("k", 80, 128, 10), ("k", 160, 128, 20)]
    )
    there = trace(tmp_path / "b.csv", "NVIDIA A100-PCIE-40GB (0)", [*A100, ("k", 108, 128, 10)])
    found = ported(capsys, f"v100={here}", f"a100-40={there}")
    assert len(found["unmatched"]["v100"]) == 2
    assert len(found["unmatched"]["a100-40"]) == 1
    assert found["application"]["v100"]["matched_share"] == pytest.approx(600 / 630, rel=1e-3)
