"""``smlab roofline``: the agreed keys, what limits kernels, pictures and their data, one-line refusals."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text
from PIL import Image

from answers import document, refusal
from smlab.cli.main import run
from smlab.commands.roofline.api import roofline
from smlab.commands.roofline.plot import roofline_figure
from smlab.commands.roofline.rows import NO_FLOPS, NO_OPERATIONS
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterRow, CounterTable
from smlab.hw_bench.sass.linking import readable_name
from smlab.models.roofline.ceilings import LATENCY, LOW_EFFICIENCY

KEYS = {
    "kernel",
    "flops",
    "seconds",
    "intensity",
    "ceiling_flops_per_s",
    "bandwidth_ceilings",
    "limiter",
    "flags",
}
OPERATIONS = tuple(
    f"smsp__sass_thread_inst_executed_op_{t}{o}_pred_on.sum" for t in "hfd" for o in ("add", "mul", "fma")
)


def counters(seconds: float = 1e-3, **given: float) -> dict[str, float]:
    """A streaming kernel on the V100 at 800 GB/s, unless told otherwise; None takes a counter away."""
    values: dict[str, float] = {
        "gpu__time_duration.sum": seconds,
        "dram__bytes.sum": 800e6,
        "lts__t_bytes.sum": 800e6,
        "l1tex__t_bytes.sum": 800e6,
        "smsp__inst_executed.sum": 1e7,
        "smsp__thread_inst_executed.sum": 3.2e8,
        **dict.fromkeys(OPERATIONS, 0.0),
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 1e8,
    }
    names = {"dram": "dram__bytes.sum", "l2": "lts__t_bytes.sum", "l1": "l1tex__t_bytes.sum"}
    names |= {
        "ffma": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
        "inst": "smsp__inst_executed.sum",
    }
    for key, value in given.items():
        values[names.get(key, key)] = value
    return {k: v for k, v in values.items() if v is not None}


UNITS = {"gpu__time": "second", "dram": "byte", "lts": "byte", "l1tex": "byte", "smsp": "inst", "launch": ""}
UNITS |= {"sm__cycles_elapsed.max": "cycle", "sm__": "cycle/second"}


def profile(path: Path, **kernels: dict[str, float]) -> Path:
    """A counter table of the kernels, as the simulator writes it."""
    rows = []
    for launch, (name, values) in enumerate(kernels.items()):
        for counter, value in values.items():
            unit = next(u for stem, u in UNITS.items() if counter.startswith(stem))
            rows.append(CounterRow(name, launch, WHOLE_GPU, counter, value, unit))
    CounterTable.from_rows(rows).write_csv(path)
    return path


def no_nan(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(no_nan, value.values()))
    if isinstance(value, list):
        return all(map(no_nan, value))
    return not (isinstance(value, float) and not math.isfinite(value))


def test_the_document_has_the_agreed_keys(tmp_path: Path, capsys) -> None:
    path = profile(tmp_path / "p.csv", stream=counters(), dense=counters(ffma=6e9, l1=1e6, l2=1e6, dram=1e6))
    found = document(capsys, "roofline", path, "--gpu", "v100")
    stream, dense = found["kernels"]
    assert set(stream) >= KEYS
    assert set(stream["intensity"]) == set(stream["bandwidth_ceilings"]) == {"l1", "l2", "dram"}
    assert stream["flops"] == 2e8
    assert stream["seconds"] == 1e-3
    assert stream["intensity"]["dram"] == 0.25
    assert stream["bandwidth_ceilings"] == pytest.approx({"l1": 846e9, "l2": 846e9, "dram": 846e9})
    assert stream["ceiling_flops_per_s"] == pytest.approx(14e12 * 6890 / 7000)
    assert (stream["limiter"], dense["limiter"]) == ("dram", "fp32")
    assert stream["share_of_limiter"] == pytest.approx(800 / 846)
    assert found["limiters"] == [
        {"limiter": "dram", "kernels": 1, "share": 0.5, "time_share": 0.5},
        {"limiter": "fp32", "kernels": 1, "share": 0.5, "time_share": 0.5},
    ]
    assert found["skipped"] == found["violations"] == found["above_ceilings"] == []
    assert found["roofs"][0]["bytes_per_s"]["dram"] == 846e9


def test_kernels_without_floating_point_or_bytes_are_told(tmp_path: Path, capsys) -> None:
    """An integer kernel has an instruction roofline; a missing level and no operations at all have flags,
    never NaN."""
    bare = {k: v for k, v in counters().items() if k.startswith(("gpu", "dram"))}
    path = profile(
        tmp_path / "p.csv",
        integer=counters(ffma=0.0, inst=1e8),
        nolevel=counters(l2=None),
        bare=bare,
        zero=counters(dram=0.0),
        timeless={"dram__bytes.sum": 1e6},
    )
    found = document(capsys, "roofline", path, "--gpu", "v100")
    integer, nolevel, only, zero = found["kernels"]
    assert NO_FLOPS in integer["flags"]
    assert integer["ceiling_flops_per_s"] is None
    assert integer["ceiling_instructions_per_s"] == pytest.approx(80 * 4 * 1.38e9)
    assert integer["instruction_intensity"]["dram"] == 0.125
    assert nolevel["bandwidth_ceilings"]["l2"] is None
    assert "no bytes at L2: the level is left out" in nolevel["flags"]
    assert NO_OPERATIONS in only["flags"]
    assert only["limiter"] == "dram"
    assert zero["intensity"]["dram"] is None
    assert "no bytes at dram: its intensity is infinite" in zero["flags"]
    assert [s["kernel"] for s in found["skipped"]] == ["timeless"]
    assert no_nan(found)
    assert run(["roofline", str(path), "--gpu", "v100"]) == 0
    printed = capsys.readouterr().out
    assert "nan" not in printed.lower()
    assert "left out, no time" in printed


def test_a_roof_that_is_far_limits_nothing(tmp_path: Path, capsys) -> None:
    """Just below the share, latency or occupancy; just above, the closest roof. The share is stated once."""
    at = LOW_EFFICIENCY * 846e9 * 1e-3
    path = profile(
        tmp_path / "p.csv",
        below=counters(dram=0.99 * at, l1=0.99 * at, l2=0.99 * at),
        above=counters(dram=1.01 * at, l1=1.01 * at, l2=1.01 * at),
    )
    found = document(capsys, "roofline", path, "--gpu", "v100")
    below, above = found["kernels"]
    assert [(k["limiter"], k["closest_roof"]) for k in (below, above)] == [
        (LATENCY, "dram"),
        ("dram", "dram"),
    ]
    assert any(LATENCY in flag for flag in below["flags"])
    assert not any(LATENCY in flag for flag in above["flags"])
    assert {s["limiter"]: s["kernels"] for s in found["limiters"]} == {LATENCY: 1, "dram": 1}
    assert run(["roofline", str(path), "--gpu", "v100"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    (share,) = (s["time_share"] for s in found["limiters"] if s["limiter"] == LATENCY)
    assert f"{LATENCY} {100 * share:.0f} %" in printed
    assert f"below {100 * LOW_EFFICIENCY:.0f} % of every roof" in printed


def test_kernels_without_floating_point_get_the_instruction_roofline(tmp_path: Path, capsys) -> None:
    path = profile(tmp_path / "p.csv", stream=counters(), integer=counters(ffma=0.0, inst=2e8))
    stream, integer = document(capsys, "roofline", path, "--gpu", "v100")["kernels"]
    issue = 80 * 4 * 1.38e9
    assert integer["rooflines_instructions_per_s"]["dram"] == pytest.approx(min(issue, 0.25 * 846e9))
    assert set(stream["rooflines_instructions_per_s"].values()) == {None}
    assert integer["rooflines_flops_per_s"]["dram"] is None
    assert run(["roofline", str(path), "--gpu", "v100", "--details"]) == 0
    printed = capsys.readouterr().out
    tables = printed.split("by warp-instructions")
    assert "GFLOP/s" in tables[0]
    assert "Ginst/s" in tables[1]
    assert "integer" in tables[1]
    assert "integer" not in tables[0]


def test_a_kernel_faster_than_a_ceiling_is_listed_with_the_reason(tmp_path: Path, capsys) -> None:
    at = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
    rows = {**counters(seconds=4e-4)}
    path = profile(tmp_path / "p.csv", fast=rows)
    (v,) = document(capsys, "roofline", path, "--gpu", "v100")["violations"]
    assert (v["kernel"], v["ceiling"]) == ("fast", "dram")
    assert v["least_s"] == pytest.approx(800e6 / 846e9)
    assert "not explained" in v["reason"]
    text = path.read_text() + f"fast,0,,{at},95.0,%\n"
    path.write_text(text)
    found = document(capsys, "roofline", path, "--gpu", "v100")
    assert "another card" in found["violations"][0]["reason"]
    assert any("another card" in flag for flag in found["kernels"][0]["flags"])


def test_rated_maxima_and_the_clock_are_switches(tmp_path: Path, capsys) -> None:
    rows = counters(l1=1e6, l2=1e6, dram=1e6, ffma=4e9) | {"sm__cycles_elapsed.avg.per_second": 0.69e9}
    path = profile(tmp_path / "p.csv", k=rows)
    ceiling = [
        document(capsys, "roofline", path, "--gpu", "v100", *options)["kernels"][0]["share_of_limiter"]
        for options in ((), ("--maxima", "spec"), ("--maxima", "spec", "--at-clock"))
    ]
    assert ceiling[1] == pytest.approx(8e12 / (80 * 64 * 2 * 1.38e9))
    assert ceiling[0] > ceiling[1]
    assert ceiling[2] == pytest.approx(2 * ceiling[1])


def test_cycles_become_times_by_the_clock_that_was_seen(tmp_path: Path, capsys) -> None:
    rows = counters(l1=1e6, l2=1e6, dram=1e6, ffma=4e9, gpu__time_duration=None)
    rows = {k: v for k, v in rows.items() if not k.startswith("gpu__")} | {"sm__cycles_elapsed.max": 1.38e6}
    cycles = profile(tmp_path / "c.csv", k=rows)

    def row(path: Path, *options: object) -> dict[str, Any]:
        found = document(capsys, "roofline", path, "--gpu", "v100", "--maxima", "spec", *options)
        return dict(found["kernels"][0])

    rated, slow = row(cycles), row(cycles, "--clock", 690)
    assert (rated["seconds"], rated["clock_hz"]) == (pytest.approx(1e-3), pytest.approx(1.38e9))
    assert (slow["seconds"], slow["clock_hz"]) == (pytest.approx(2e-3), pytest.approx(0.69e9))
    assert slow["share_of_limiter"] == pytest.approx(rated["share_of_limiter"])  # as many operations a cycle
    assert "time from cycles at the clock of 690 MHz that was given" in slow["flags"]
    # A time that was measured stays; the ceilings are those of the clock.
    timed = profile(tmp_path / "t.csv", k=counters(l1=1e6, l2=1e6, dram=1e6, ffma=4e9))
    rated, slow = row(timed), row(timed, "--clock", 690)
    assert slow["seconds"] == rated["seconds"] == 1e-3
    assert rated["clock_hz"] is None
    assert slow["share_of_limiter"] == pytest.approx(2 * rated["share_of_limiter"])
    # Where the profile tells the clock, that is it.
    values = counters(l1=1e6, l2=1e6, dram=1e6, ffma=4e9) | {"sm__cycles_elapsed.max": 1.38e6}
    both = profile(tmp_path / "b.csv", k=values)
    assert row(both, "--clock", 690)["clock_hz"] == pytest.approx(1.38e9)
    assert run(["roofline", str(both), "--gpu", "v100", "--clock", "690"]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "it tells another clock than 690 MHz, and is believed: 1,380 MHz in the median" in told


def test_constants_of_the_gpu_may_be_set(tmp_path: Path, capsys) -> None:
    path = profile(tmp_path / "p.csv", k=counters())
    key = "dram.sustained_bandwidth_bytes_per_s"
    half = load_gpu("v100").number(key) / 2
    before, after = (
        document(capsys, "roofline", path, "--gpu", "v100", *options)["kernels"][0]["bandwidth_ceilings"]
        for options in ((), ("--set", f"gpu.{key}={half}"))
    )
    assert after["dram"] == pytest.approx(before["dram"] / 2)


def test_a_small_grid_has_a_lower_ceiling(tmp_path: Path, capsys) -> None:
    rows = counters() | {"launch__grid_size": 20.0, "launch__block_size": 1024.0}
    path = profile(tmp_path / "p.csv", k=rows)
    on, off = (
        document(capsys, "roofline", path, "--gpu", "v100", *options)["kernels"][0]
        for options in ((), ("--no-parallelism",))
    )
    assert on["parallelism"] == pytest.approx(0.25)
    assert on["ceiling_flops_per_s"] == pytest.approx(off["ceiling_flops_per_s"] / 4)
    assert off["parallelism"] is None


def many(path: Path, count: int) -> Path:
    rng = np.random.default_rng(2)
    kernels = {}
    for i in range(count):
        dram = float(10 ** rng.uniform(6, 9))
        kernels[f"CalcSomethingForElements_{i}"] = counters(
            seconds=dram / 846e9 / float(rng.uniform(0.2, 0.9)),
            dram=dram,
            l2=2 * dram,
            l1=3 * dram,
            ffma=dram * float(10 ** rng.uniform(-1, 1)),
        )
    return profile(path, **kernels)


def test_fifty_names_are_on_the_picture_and_none_overlaps(tmp_path: Path) -> None:
    found = roofline(many(tmp_path / "p.csv", 50), gpu="v100").found
    figure = roofline_figure([found])
    figure.canvas.draw()
    (ax,) = figure.axes
    names = [t for t in ax.texts if t.get_text().startswith("CalcSomething")]
    assert len({t.get_text() for t in names}) == 50
    frame = ax.get_window_extent()
    boxes = [Text.get_window_extent(t) for t in names]  # an annotation's own has its line with it
    for i, box in enumerate(boxes):
        assert frame.x0 <= box.x0 + 1
        assert box.x1 <= frame.x1 + 1
        for other in boxes[:i]:
            wide = min(box.x1, other.x1) - max(box.x0, other.x0)
            high = min(box.y1, other.y1) - max(box.y0, other.y0)
            assert wide <= 1 or high <= 3  # pixels; the box of a text is a little larger than its ink


def test_a_plot_is_written_twice_with_its_data_beside(tmp_path: Path, capsys) -> None:
    path = profile(tmp_path / "p.csv", stream=counters(), integer=counters(ffma=0.0))
    assert run(["roofline", str(path), "--gpu", "v100", "--plot", str(tmp_path / "roof.png")]) == 0
    capsys.readouterr()
    with Image.open(tmp_path / "roof.png") as image:
        assert min(image.size) > 1000
    svg = (tmp_path / "roof.svg").read_text()
    assert svg.startswith("<?xml")
    with (tmp_path / "roof.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [r["kernel"] for r in rows] == ["stream", "integer"]
    assert float(rows[0]["intensity_dram"]) == 0.25
    assert rows[1]["ceiling_flops_per_s"] == ""
    assert "nan" not in (tmp_path / "roof.csv").read_text().lower()


def test_mistakes_are_told_in_one_line(tmp_path: Path, capsys) -> None:
    good = profile(tmp_path / "p.csv", stream=counters())
    bare = profile(tmp_path / "bare.csv", k={k: v for k, v in counters().items() if k[:3] in ("gpu", "dra")})
    negative = profile(tmp_path / "n.csv", k=counters(dram=-5.0))
    cases = (
        ((good, "--gpu", "v1000"), "unknown GPU"),
        ((good, "--gpu", "v100", "--maxima", "best"), "expected one of sustained, spec"),
        ((good, "--gpu", "v100", "--plot", tmp_path / "p.bmp"), ".png, .svg or .pdf"),
        ((good, "--gpu", "v100", "--plot", tmp_path / "no" / "p.png"), "folder to write into does not exist"),
        ((bare, "--gpu", "v100", "--plot", tmp_path / "p.png"), "no kernel has floating-point operations"),
        ((negative, "--gpu", "v100"), "row 3: counter 'dram__bytes.sum' has an impossible value"),
        ((tmp_path / "none.csv",), "no such file"),
        ((good,), "the profile does not name its GPU (expected --gpu with"),
        ((good, "--gpu", "v100", "--clock", "0"), "--clock: no clock of a GPU"),
        ((good, "--gpu", "v100", "--set", "warps=8"), "--set: only the GPU has keys to set"),
        ((good, "--gpu", "v100", "--set", "gpu.warps=8"), "unknown key"),
        ((good, "--example"), "--example: takes no profile"),
        ((), "no profile given (expected a profiler's output; --how tells how to collect it, or --example"),
    )
    for arguments, said in cases:
        assert said in refusal(capsys, "roofline", *arguments)


def test_how_tells_the_counters(capsys) -> None:
    assert run(["roofline", "--how"]) == 0
    assert "l1tex__t_bytes.sum" in capsys.readouterr().out
    assert document(capsys, "roofline", "--how")["tool"] == "ncu"


@pytest.mark.parametrize(
    ("long", "short"),
    [
        (
            "void at::native::vectorized_elementwise_kernel<4, float>(int, float*)",
            "vectorized_elementwise_kernel<4, float>",
        ),
        ("void k<(int)128, A<B<3>>>(const T1 *)", "k<(int)128, A<B<3>>>"),
        ("void k<(int)128, A<B<300000000000000000000000>>>(const T1 *)", "k"),
        ("_Z6kernelIfLi16EEvPT_i", "kernel<float, 16>"),
        ("void (anonymous namespace)::f<int>(int*)", "f<int>"),
        ("bank conflicts 4-way", "bank conflicts 4-way"),
        ("plain", "plain"),
        ("(unnamed)", "(unnamed)"),
    ],
)
def test_names_are_shortened_for_pictures(long: str, short: str) -> None:
    assert readable_name(long) == short
    assert len(readable_name("x" * 100, 20)) == 20


def test_every_a100_kernel_is_under_its_bound_or_listed(shared_data: Path, capsys) -> None:
    """Convolutions: one above what a benchmark reached. ReLU: of another A100, as its own percentages say."""
    conv = shared_data / "ncu-a100" / "conv2d_actualpara-perf-distribution_pd_a100_tc.csv.gz"
    found = document(capsys, "roofline", conv, "--gpu", "a100-40")
    assert len(found["kernels"]) == 4349
    (v,) = found["violations"]
    assert "not than the rated peak" in v["reason"]
    assert document(capsys, "roofline", conv, "--gpu", "a100-40", "--maxima", "spec")["violations"] == []
    relu = shared_data / "ncu-a100" / "activation_relu_nsight_result.csv.gz"
    found = document(capsys, "roofline", relu, "--gpu", "a100-40", "--maxima", "spec")
    assert len(found["kernels"]) == 4237
    faster = {k["launch"] for k in found["kernels"] if k["seconds"] < k["least_s"]}
    assert found["violations"]
    assert {v["launch"] for v in found["violations"]} <= faster
    assert all(v["ceiling"] == "dram" and "another card" in v["reason"] for v in found["violations"])
    # It was the card with more bandwidth: there nothing is faster than its bound.
    assert document(capsys, "roofline", relu, "--gpu", "a100-80", "--maxima", "spec")["violations"] == []
    assert no_nan(found)
