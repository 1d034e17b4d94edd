"""``smlab project``: the agreed keys, the truth and its mismatches, errors by part, machine code,
pictures, refusals."""

from __future__ import annotations

import csv
import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from answers import document, refusal
from smlab.cli.main import run
from smlab.commands.project.measured_times import match, read_truth
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterRow, CounterTable
from smlab.validation.campaigns.projection.held_intervals import count_covered
from smlab.validation.projection.coverage_records import NARROW, shipped_coverage

V100, A100 = load_gpu("v100"), load_gpu("a100-40")
OPERATIONS = tuple(
    f"smsp__sass_thread_inst_executed_op_{t}{o}_pred_on.sum" for t in "hfd" for o in ("add", "mul", "fma")
)
STREAM = 846 / 1375
"""What a streaming kernel's time on the V100 is multiplied by, by the published bandwidths."""
FROM_TO = ("--from", "v100", "--to", "a100-40")
QUIET = ("--overhead-us", "0")


def profile(path: Path, *kernels: tuple[str, float]) -> Path:
    """Streaming kernels (name, seconds) at 600 GB/s on the V100."""
    rows = []
    for launch, (name, seconds) in enumerate(kernels):
        moved = 600e9 * seconds
        values = {"dram__bytes.sum": moved, "lts__t_bytes.sum": moved, "l1tex__t_bytes.sum": moved}
        rows += [CounterRow(name, launch, WHOLE_GPU, c, v, "byte") for c, v in values.items()]
        rows += [CounterRow(name, launch, WHOLE_GPU, c, 1e3, "inst") for c in OPERATIONS]
        rows.append(CounterRow(name, launch, WHOLE_GPU, "gpu__time_duration.sum", seconds, "second"))
    CounterTable.from_rows(rows).write_csv(path)
    return path


@pytest.fixture
def three(tmp_path: Path) -> Path:
    return profile(tmp_path / "p.csv", ("void copy<float>(float *)", 1e-3), ("scale", 2e-3), ("scale", 4e-3))


def truth(path: Path, *rows: tuple[object, ...], header: str = "kernel,seconds") -> Path:
    with path.open("w", newline="") as file:
        file.write(header + "\n")
        csv.writer(file).writerows(rows)
    return path


def test_the_document_has_the_agreed_keys(three: Path, capsys) -> None:
    found = document(capsys, "project", three, *FROM_TO, *QUIET)
    assert (found["from"], found["to"], found["errors"]) == ("v100", "a100-40", None)
    first = found["kernels"][0]
    assert set(first) == {
        *("kernel", "launch", "source_s", "low_s", "mid_s", "high_s", "limiter", "flags"),
    }
    assert first["source_s"] == 1e-3
    assert first["low_s"] < first["mid_s"] < first["high_s"]
    assert first["mid_s"] == pytest.approx(1e-3 * STREAM)
    assert first["limiter"] == "dram"
    assert found["skipped"] == found["unmatched"] == []
    assert found["switches"]["parallelism"] is True


def test_a_launch_that_no_description_tells_costs_the_middle_of_what_it_may(tmp_path: Path, capsys) -> None:
    short = profile(tmp_path / "p.csv", ("k", 10e-6))
    found, quiet = (document(capsys, "project", short, *FROM_TO, *more)["kernels"][0] for more in ((), QUIET))
    assert found["mid_s"] == pytest.approx(9e-6 * STREAM + 1e-6)
    assert quiet["mid_s"] == pytest.approx(10e-6 * STREAM)
    assert found["high_s"] / found["low_s"] > quiet["high_s"] / quiet["low_s"]


def test_the_truth_gives_the_whole_error_table_with_baselines_and_parts(
    three: Path, tmp_path, capsys
) -> None:
    times = truth(
        tmp_path / "t.csv",
        ("scale", 2e-3 * STREAM * 1.1),
        ("void copy<float>(float *)", 1e-3 * STREAM),
        ("scale", 4e-3 * STREAM / 1.1),
    )
    found = document(capsys, "project", three, *FROM_TO, *QUIET, "--truth", times)
    errors = found["errors"]
    assert errors["n"] == 3
    assert errors["mape"] == pytest.approx(100 * (0 + (1 - 1 / 1.1) + 0.1) / 3)
    assert errors["bias"] == pytest.approx(1.0)
    assert set(errors["baselines"]) == {
        "peak ratio",
        "bandwidth ratio",
        "best constant (fitted to the truth)",
    }
    assert errors["baselines"]["bandwidth ratio"]["bias"] == pytest.approx(900 / 1555 / STREAM)
    assert errors["baseline_mape"] == errors["baselines"]["peak ratio"]["mape"]
    assert {"as published", "without parallelism", "without cache", "with spec maxima"} <= set(
        errors["parts"]
    )
    actual = [k["actual_s"] for k in found["kernels"]]
    assert actual == pytest.approx([1e-3 * STREAM, 2e-3 * STREAM * 1.1, 4e-3 * STREAM / 1.1])
    assert run(["project", str(three), *FROM_TO, "--truth", str(times)]) == 0
    assert "best constant" in capsys.readouterr().out


def test_an_interval_without_width_is_not_shown_as_one(three: Path, capsys) -> None:
    """Never "15.1 to 15.2": the published method has such intervals where its levels agree."""
    held = shipped_coverage()
    assert run(["project", str(three), *FROM_TO]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"they cover {held.by_sm.inside:.0f} % where an SM limits" in printed
    assert "without a width" not in printed
    found = document(capsys, "project", three, *FROM_TO)
    assert all(k["high_s"] > NARROW * k["low_s"] for k in found["kernels"])
    assert found["held"]["by_memory"]["inside"] == held.by_memory.inside
    assert run(["project", str(three), *FROM_TO, "--paper"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "-: an interval without a width" in printed


def test_how_often_intervals_held_is_what_simulated_kernels_give() -> None:
    """The counts that ship, made by ``python -m smlab.validation.projection``, against fewer kernels anew."""
    shipped, few = shipped_coverage(), count_covered(kernels=60)
    for name in ("every", "by_sm", "by_memory"):
        kept, now = getattr(shipped, name), getattr(few, name)
        p = kept.inside / 100
        assert abs(now.inside / 100 - p) < 4 * math.sqrt(p * (1 - p) / now.n), name
        assert abs(math.log(now.most_within_factor / kept.most_within_factor)) < 0.2, name
    assert shipped.by_sm.n + shipped.by_memory.n == shipped.every.n


def test_kernels_that_do_not_match_are_told(three: Path, tmp_path: Path, capsys) -> None:
    times = truth(tmp_path / "t.csv", ("scale", 1e-3), ("other", 1e-3))
    found = document(capsys, "project", three, *FROM_TO, "--truth", times)
    assert found["unmatched"] == [
        {"kernel": "void copy<float>(float *) #0", "where": "profile"},
        {"kernel": "scale #1", "where": "profile"},
        {"kernel": "other #0", "where": "truth"},
    ]
    assert [k["actual_s"] for k in found["kernels"]] == [None, 1e-3, None]
    assert found["errors"]["n"] == 1
    nothing = truth(tmp_path / "n.csv", ("other", 1e-3))
    assert "none of its kernels is in the profile" in refusal(
        capsys, "project", three, *FROM_TO, "--truth", nothing
    )


def test_a_profile_of_the_target_is_a_truth(three: Path, tmp_path: Path, capsys) -> None:
    other = profile(
        tmp_path / "a100.csv", ("scale", 1e-3), ("scale", 3e-3), ("void copy<float>(float *)", 5e-4)
    )
    found = document(capsys, "project", three, *FROM_TO, "--truth", other)
    assert [k["actual_s"] for k in found["kernels"]] == [5e-4, 1e-3, 3e-3]


@pytest.mark.parametrize(
    ("rows", "header", "said"),
    [
        ([("scale", -1.0)], "kernel,seconds", r"row 2: seconds: an impossible time \(got '-1.0'"),
        ([("scale", "nan")], "kernel,seconds", "an impossible time"),
        ([("scale", "fast")], "kernel,seconds", r"row 2: seconds: not a number \(got 'fast'"),
        ([("", 1.0)], "kernel,seconds", "row 2: kernel: no name"),
        ([], "kernel,seconds", "no kernel in it"),
        ([("scale", 1.0, "x")], "kernel,seconds,launch", "row 2: launch: not a number"),
    ],
)
def test_an_absurd_truth_is_refused(tmp_path: Path, rows: list, header: str, said: str) -> None:
    with pytest.raises(SmlabError, match=said):
        read_truth(truth(tmp_path / "t.csv", *rows, header=header), A100)


def test_kernels_without_names_match_only_one_for_one(tmp_path: Path) -> None:
    names, launches = np.array(["(unnamed)"] * 2, dtype=object), np.array([0, 1])
    two = read_truth(truth(tmp_path / "two.csv", ("(unnamed)", 1.0), ("(unnamed)", 2.0)), A100)
    assert match(two, names, launches).actual_s.tolist() == [1.0, 2.0]
    with pytest.raises(SmlabError, match="does not name its kernels"):
        match(read_truth(truth(tmp_path / "one.csv", ("(unnamed)", 1.0)), A100), names, launches)


def test_the_paper_has_no_switch_on(three: Path, capsys) -> None:
    found = document(capsys, "project", three, *FROM_TO, "--paper")
    on = {k for k, v in found["switches"].items() if v is True}
    assert on == set()
    assert found["kernels"][0]["mid_s"] == pytest.approx(1e-3 * STREAM)


def test_launch_overhead_can_be_told(three: Path, capsys) -> None:
    found = document(capsys, "project", three, *FROM_TO, "--overhead-us", 100)
    assert found["kernels"][0]["mid_s"] == pytest.approx(1e-4 + 9e-4 * STREAM)


def busy_profile(path: Path, clock_hz: float) -> Path:
    """A kernel of FP32 multiply-adds at half the V100's peak, at a clock that the profiler saw."""
    counts = dict.fromkeys(OPERATIONS, 0.0)
    counts["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] = 3.5e12 * 1e-2
    rows = [CounterRow("busy", 0, WHOLE_GPU, name, value, "inst") for name, value in counts.items()]
    for name in ("dram__bytes.sum", "lts__t_bytes.sum", "l1tex__t_bytes.sum"):
        rows.append(CounterRow("busy", 0, WHOLE_GPU, name, 1e3, "byte"))
    rows.append(CounterRow("busy", 0, WHOLE_GPU, "gpu__time_duration.sum", 1e-2, "second"))
    clock = "sm__cycles_elapsed.avg.per_second"
    rows.append(CounterRow("busy", 0, WHOLE_GPU, clock, clock_hz, "cycle/second"))
    CounterTable.from_rows(rows).write_csv(path)
    return path


def test_the_targets_clock_may_be_told(three: Path, tmp_path: Path, capsys) -> None:
    path = busy_profile(tmp_path / "b.csv", V100.number("clock.sm_hz"))

    def middle(path: Path, *more: object) -> float:
        return float(document(capsys, "project", path, *FROM_TO, *QUIET, *more)["kernels"][0]["mid_s"])

    rated = A100.number("clock.sm_hz") / 1e6
    assert middle(path, "--clock", rated) == pytest.approx(middle(path))
    assert middle(path, "--clock", rated / 2) == pytest.approx(2 * middle(path))
    assert middle(three, "--clock", rated / 2) == pytest.approx(middle(three))  # DRAM has a clock of its own
    # What the profiler held down on the source is not held down where the target's clock is known.
    slow = busy_profile(tmp_path / "s.csv", V100.number("clock.sm_hz") / 2)
    assert middle(slow, "--clock", rated) == pytest.approx(middle(slow) / 2)
    found = document(capsys, "project", path, *FROM_TO, "--clock", 1200)
    assert found["clock_hz"] == 1.2e9
    assert run(["project", str(path), *FROM_TO, "--clock", "1200"]) == 0
    assert " at 1,200 MHz, " in capsys.readouterr().out


def test_the_targets_constants_may_be_set(three: Path, capsys) -> None:
    before = document(capsys, "project", three, *FROM_TO, *QUIET)["kernels"][0]["mid_s"]
    key = "dram.sustained_bandwidth_bytes_per_s"
    told = ("--set", f"gpu.{key}={A100.number(key) / 2}")
    after = document(capsys, "project", three, *FROM_TO, *QUIET, *told)["kernels"][0]["mid_s"]
    assert after == pytest.approx(2 * before)


def test_a_working_set_changes_the_traffic(tmp_path: Path, capsys) -> None:
    path = profile(tmp_path / "p.csv", ("reuse<1>(int)", 1e-3), ("stream", 1e-3))
    given = path.read_text().replace("lts__t_bytes.sum,600000000.0", "lts__t_bytes.sum,1200000000.0")
    path.write_text(given.replace("l1tex__t_bytes.sum,600000000.0", "l1tex__t_bytes.sum,1200000000.0"))
    plain = document(capsys, "project", path, *FROM_TO)["kernels"]
    told = document(capsys, "project", path, *FROM_TO, "--working-set", "reuse=20e6")["kernels"]
    assert told[0]["mid_s"] < plain[0]["mid_s"]
    assert "DRAM traffic as L2 of a100-40 holds it" in told[0]["flags"]
    assert told[1] == plain[1]
    for bad, said in (
        ("reuse", "not a number of bytes"),
        ("reuse=-1", "bytes above 0"),
        ("other=5", "no such kernel in the profile"),
    ):
        assert said in refusal(capsys, "project", path, *FROM_TO, "--working-set", bad)


def test_machine_code_changes_the_operations(tmp_path: Path, capsys, repository: Path) -> None:
    """A logarithm of the gamma function has 3 more ffma on sm_86; the same listing twice changes nothing."""
    listings = repository / "tests" / "hw_bench" / "sass" / "listings"
    path = profile(tmp_path / "p.csv", ("gamma32", 1e-3))
    text = path.read_text()
    ffma = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum,"
    path.write_text(text.replace(ffma + "1000.0", ffma + "5e9").replace("600000000.0", "6000000.0"))
    before, after = (
        ("--cubin-from", listings / "gamma32.sm_70.sass"),
        ("--cubin-to", listings / "gamma32.sm_86.sass"),
    )
    plain = document(capsys, "project", path, "--from", "v100", "--to", "a6000")["kernels"][0]
    told = document(capsys, "project", path, "--from", "v100", "--to", "a6000", *before, *after)["kernels"][0]
    assert plain["limiter"] == "fp32"
    assert 1.01 < told["mid_s"] / plain["mid_s"] < 1.1
    assert any(flag.startswith("operations from machine code: fp32 x 1.0") for flag in told["flags"])
    same = document(
        capsys, "project", path, "--from", "v100", "--to", "a6000", *before, "--cubin-to", before[1]
    )
    assert same["kernels"][0]["mid_s"] == plain["mid_s"]
    assert "one goes with the other" in refusal(capsys, "project", path, *FROM_TO, *before)


def test_a_plot_is_written_with_its_data(three: Path, tmp_path: Path, capsys) -> None:
    times = truth(tmp_path / "t.csv", ("scale", 1e-3))
    document(capsys, "project", three, *FROM_TO, *QUIET, "--truth", times, "--plot", tmp_path / "out.svg")
    with Image.open(tmp_path / "out.png") as image:
        assert min(image.size) > 300
    assert (tmp_path / "out.svg").read_text().startswith("<?xml")
    with (tmp_path / "out.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["actual_s"] for line in lines] == ["", "0.001", ""]
    assert float(lines[0]["mid_s"]) == pytest.approx(1e-3 * STREAM)
    assert "would overwrite an input" in refusal(
        capsys, "project", three, *FROM_TO, "--plot", tmp_path / "p.png"
    )


def test_mistakes_are_told_in_one_line(three: Path, tmp_path: Path, capsys) -> None:
    cases: tuple[tuple[tuple[object, ...], str], ...] = (
        ((three, "--to", "a100-40"), "the profile does not name its GPU (expected --from"),
        ((three, "--from", "v100"), "--to: no GPU given"),
        ((three, "--from", "v100", "--to", "a1000"), "unknown GPU"),
        ((*FROM_TO,), "no profile given"),
        ((three, *FROM_TO, "--example"), "--example: takes no profile"),
        (("--example", *FROM_TO), "the profile is of another GPU"),
        (("--example", *FROM_TO, "--dataset", "neusight:x"), "takes no profile"),
        (("--to", "v100", "--dataset", "neusight:x"), "--from: no GPU given"),
        ((three, *FROM_TO, "--maxima", "best"), "expected one of sustained, spec"),
        ((three, *FROM_TO, "--plot", tmp_path / "p.txt"), ".png, .svg or .pdf"),
        ((three, *FROM_TO, "--truth", tmp_path / "none.csv"), "no such file"),
        ((three, three, *FROM_TO, "--truth", three), "goes with one profile"),
        ((three, *FROM_TO, "--dataset", "neusight:x"), "takes no profile"),
        ((*FROM_TO, "--dataset", "nothing:x"), "nothing"),
        ((three, *FROM_TO, "--overhead-us", "-1"), "--overhead-us"),
        ((three, *FROM_TO, "--overhead-us", "nan"), "--overhead-us"),
        ((three, *FROM_TO, "--clock", "0"), "--clock: no clock of a GPU (got 0.0; expected 1 to 10,000 MHz)"),
        ((three, *FROM_TO, "--clock", "1200", "--paper"), "--clock: the published method knows no clock"),
        (
            (three, *FROM_TO, "--from-clock", "1", "--paper"),
            "--from-clock: the published method knows no clock",
        ),
        ((*FROM_TO, "--dataset", "neusight:x", "--set", "gpu.l2.bytes=1"), "--set: goes with a profile"),
        ((three, *FROM_TO, "--set", "warps=8"), "--set: only the GPU has keys to set"),
        ((three, *FROM_TO, "-I", tmp_path / "none"), "-I: there is no such folder"),
    )
    for arguments, said in cases:
        assert said in refusal(capsys, "project", *arguments)


def test_an_a100_table_is_projected_and_nothing_is_nan(shared_data: Path, tmp_path: Path, capsys) -> None:
    """4,349 convolutions onto the A100 itself: each as it was; its own times as the truth: no error."""
    path = shared_data / "ncu-a100" / "conv2d_actualpara-perf-distribution_pd_a100_tc.csv.gz"
    with gzip.open(path, "rt") as file:
        times = [(("(unnamed)"), r["Time"]) for r in csv.DictReader(file)]
    found = document(
        capsys,
        "project",
        path,
        "--from",
        "a100-40",
        "--to",
        "a100-40",
        "--truth",
        truth(tmp_path / "t.csv", *times),
    )
    assert len(found["kernels"]) == 4349
    assert found["errors"]["mape"] == pytest.approx(0.0, abs=1e-9)
    assert all(math.isfinite(k["mid_s"]) and k["mid_s"] > 0 for k in found["kernels"])


SPILLING = """
extern "C" __global__ void k(float* a, int n) {
    float x[WIDTH];
    #pragma unroll
    for (int i = 0; i < WIDTH; i++) x[i] = a[i * n + threadIdx.x];
    __syncthreads();
    float sum = 0;
    #pragma unroll
    for (int i = 0; i < WIDTH; i++) sum += x[i] * x[WIDTH - 1 - i];
    a[threadIdx.x] = sum;
}
"""


def test_source_and_cubins_give_the_targets_registers(
    tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the compiler and nvdisasm at hand: the same from source and from cubins of it, which also run."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    try:
        from smlab.hw_bench.sass import disassemble
        from smlab.hw_bench.sass.nvrtc import compile_cuda

        cubins = {a: compile_cuda(SPILLING, a, ["-DWIDTH=64"], "k.cu") for a in ("sm_75", "sm_86")}
        disassemble(cubins["sm_75"])
    except SmlabError as error:
        pytest.skip(f"not checked on compiled code: {error}")
    values = {"dram__bytes.sum": 1e8, "lts__t_bytes.sum": 1e8, "l1tex__t_bytes.sum": 1e8}
    rows = [CounterRow("k", 0, WHOLE_GPU, c, v, "byte") for c, v in values.items()]
    launch = {"launch__grid_size": 6800.0, "launch__block_size": 256.0}
    rows += [CounterRow("k", 0, WHOLE_GPU, c, v, "") for c, v in launch.items()]
    rows.append(CounterRow("k", 0, WHOLE_GPU, "smsp__inst_executed.sum", 1e7, "inst"))
    rows.append(CounterRow("k", 0, WHOLE_GPU, "launch__registers_per_thread", 32.0, "register/thread"))
    rows.append(CounterRow("k", 0, WHOLE_GPU, "gpu__time_duration.sum", 1e-3, "second"))
    path = tmp_path / "p.csv"
    CounterTable.from_rows(rows).write_csv(path)
    (tmp_path / "k.cu").write_text(SPILLING)
    asked = (path, "--from", "rtx-2080-ti", "--to", "rtx-3090", *QUIET)
    of_source = document(capsys, "project", *asked, "--source", tmp_path / "k.cu", "-D", "WIDTH=64")[
        "kernels"
    ][0]
    flag = next(f for f in of_source["flags"] if "registers (32 on the source)" in f)
    for architecture, cubin in cubins.items():
        (tmp_path / f"{architecture}.cubin").write_bytes(cubin)
    both = [x for a in cubins for x in ("--cubin", tmp_path / f"{a}.cubin")]
    of_cubins = document(capsys, "project", *asked, *both)["kernels"][0]
    assert of_cubins["mid_s"] == of_source["mid_s"]
    alone = document(capsys, "project", *asked, *both[2:])["kernels"][0]
    assert flag in alone["flags"]
    assert run([*map(str, ("project", *asked)), *map(str, both[:2])]) == 2
    assert "none runs on rtx-3090" in capsys.readouterr().err
    argument = '[[argument]]\nname = "a"\ndtype = "float32"\nshape = [25600]\nmake = "zeros"\n'
    argument += '[[argument]]\nname = "n"\ndtype = "int32"\nvalue = 400\n'
    (tmp_path / "k.toml").write_text(f"[launch]\ngrid = 6800\nblock = 256\n{argument}")
    simulate = ("--simulate", "--launch", tmp_path / "k.toml")
    ran = document(capsys, "project", *asked, *both, *simulate)["kernels"][0]
    assert 0.2 < ran["simulated_s"] / ran["mid_s"] < 5
    (tmp_path / "k.toml").write_text(f"[launch]\ngrid = 1\nblock = 256\n{argument}")
    assert run([*map(str, ("project", *asked, *both, *simulate))]) == 2
    assert "no such launch in the profile" in capsys.readouterr().err


def test_code_options_that_do_not_go_together(tmp_path: Path, three: Path, capsys) -> None:
    listings = Path(__file__).parents[1] / "hw_bench" / "sass" / "listings"
    code = ("--cubin-from", listings / "gamma32.sm_70.sass", "--cubin-to", listings / "gamma32.sm_86.sass")
    (tmp_path / "k.cu").write_text(SPILLING)
    source = ("--source", tmp_path / "k.cu")
    for asked, told in (
        ((*code, *source), "goes without --source"),
        ((*source, "-D", "2=3"), "-D: not a macro"),
        (("--draw", "3"), "draws rows of a tuning set"),
        ((*source, "--cubin", listings / "gamma32.sm_70.sass"), "goes without --source"),
        (("--simulate",), "one goes with the other"),
        (("--simulate", "--launch", tmp_path / "k.cu"), "no machine code to run"),
        (("--cubin", listings / "gamma32.sm_70.sass"), "is not a CUDA binary"),
    ):
        assert run([*map(str, ("project", three, *FROM_TO, *asked))]) == 2
        assert told in capsys.readouterr().err
