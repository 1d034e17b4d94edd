"""The command line as scripts meet it: documents, exit statuses, one-line refusals."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import smlab
from answers import document, refusal
from smlab.cli.main import GROUPS, app, run
from smlab.cli.options import complete_gpu
from smlab.cli.text import SCHEMA
from smlab.hw_bench.gpu.descriptions import list_gpus, load_gpu
from smlab.models import ServiceTable


def test_gpus_lists_all_and_shows_one(capsys: pytest.CaptureFixture[str]) -> None:
    everything = document(capsys, "gpus")["gpus"]
    assert isinstance(everything, list)
    assert [g["name"] for g in everything] == list_gpus()
    (v100,) = document(capsys, "gpus", "v100")["gpus"]  # type: ignore[misc]
    assert (v100["name"], v100["compute_capability"], v100["sms"]) == ("v100", "7.0", 80)
    for constant in v100["constants"]:
        assert constant["kind"] in ("spec", "published", "measured", "calibrated", "assumed")
        assert constant["source"]
        assert constant["unit"] is not None
    assert run(["gpus", "v100"]) == 0
    printed = capsys.readouterr().out
    assert "atomic.add.base_interval_cycles" in printed
    assert "calibrated" in printed


def test_simulate_prints_the_agreed_keys(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(
        capsys,
        *(
            "simulate",
            "atomics",
            "--gpu",
            "v100",
            "--set",
            "warps=8",
            "--set",
            "same_word=16",
            "--set",
            "iterations=200",
        ),
    )
    assert {"cycles", "warp_instructions", "wall_s", "atomic", "stalls"} <= set(found)
    atomic, stalls = found["atomic"], found["stalls"]
    assert isinstance(atomic, dict)
    assert isinstance(stalls, dict)
    agreed = {
        "jobs",
        "cas_jobs",
        "n_mean",
        "e_mean",
        "c_mean",
        "busy_cycles",
        "utilization",
        "service_cycles",
    }
    assert agreed <= set(atomic)
    assert found["warp_instructions"] == atomic["jobs"] == 1600
    assert stalls["selected"] == 1600
    assert atomic["e_mean"] == 16


def test_seeds_policies_and_gpu_constants_can_be_set(capsys: pytest.CaptureFixture[str]) -> None:
    base = document(capsys, "simulate", "atomics", "--set", "iterations=20")
    slow = document(
        capsys,
        "simulate",
        "atomics",
        "--set",
        "iterations=20",
        "--set",
        "gpu.atomic.add.base_interval_cycles=20",
        "--policy",
        "lrr",
    )
    assert slow["policy"] == "lrr"
    assert slow["cycles"] > 1.4 * base["cycles"]  # type: ignore[operator]


def test_simulate_for_people_and_its_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace, counters = tmp_path / "t.json", tmp_path / "c.csv"
    assert run(["simulate", "atomics", "--trace", str(trace), "--counters", str(counters)]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("atomics on NVIDIA Tesla V100")
    assert "% busy" in printed.out
    assert run(["simulate", "atomics", "--details"]) == 0
    assert "service time of a job" in capsys.readouterr().out
    assert json.loads(trace.read_text())["traceEvents"]
    assert "shared_atom" in counters.read_text()


@pytest.mark.parametrize("name", ["t.csv", "t.nc"])
def test_tables_are_written_and_read_back(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / name
    found = document(capsys, "table", "--max-n", "4", "--out", str(path))
    assert found["rows"] == 32 * sum(n + 1 for n in range(1, 5))
    table = ServiceTable.read(path)
    assert table.attrs["gpu"] == "v100"
    assert float(table.total_cycles(2, 32, 1)) > float(table.total_cycles(2, 32, 0))
    converted = tmp_path / "again.csv"
    assert document(capsys, "table", "--source", str(path), "--out", str(converted))["rows"] == found["rows"]


def test_a_table_with_holes_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path, other = tmp_path / "t.csv", tmp_path / "u.csv"
    assert run(["table", "--max-n", "3", "--out", str(path)]) == 0
    capsys.readouterr()
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if not line.startswith("2,7,1,")) + "\n")
    line = refusal(capsys, "table", "--source", str(path), "--out", str(other))
    assert "t.csv" in line
    assert "n=2" in line.replace(" ", "") or "(2,7,1)" in line.replace(" ", "")


def test_an_impossible_gpu_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, repository: Path
) -> None:
    shipped = (repository / "hw_bench" / "gpu" / "boards" / "v100.toml").read_text()
    path = tmp_path / "mine.toml"
    for key, good, bad in (
        ("gpu.sms", "sms = { value = 80", "sms = { value = 0"),
        ("latency_cycles", None, None),
    ):
        if good is None:
            begin = shipped.index("latency_cycles = { value = ")
            end = shipped.index(",", begin)
            path.write_text(shipped[:begin] + "latency_cycles = { value = 0.5" + shipped[end:])
        else:
            assert good in shipped
            path.write_text(shipped.replace(good, bad or ""))
        line = refusal(capsys, "simulate", "atomics", "--gpu", str(path))
        assert "mine.toml" in line
        assert key in line


def test_a_gpu_with_an_unknown_key_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, repository: Path
) -> None:
    shipped = (repository / "hw_bench" / "gpu" / "boards" / "v100.toml").read_text()
    path = tmp_path / "mine.toml"
    path.write_text(shipped.replace("max_warps =", "max_wraps =", 1))
    assert "sm.max_wraps: unknown key" in refusal(capsys, "gpus", str(path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate"], "Missing argument"),
        (["simulate", "atomic"], "neither a built-in workload nor a file"),
        (["simulate", "atomics", "--gpu", "v200"], "unknown GPU (got 'v200'"),
        (["simulate", "atomics", "--set", "warp=8"], "--set warp: atomics has no such key"),
        (
            ["simulate", "atomics", "--set", "warps=x"],
            "--set warps: wrong kind of value (got 'x'; expected a whole number)",
        ),
        (["simulate", "atomics", "--set", "returns=1"], "expected true or false"),
        (["simulate", "atomics", "--set", "warps"], "expected KEY=VALUE"),
        (
            ["simulate", "atomics", "--set", "warps=40"],
            "threads in a block exceed what a block has (got 1280; expected at most 1024)",
        ),
        (
            ["simulate", "atomics", "--set", "same_word=5"],
            "same_word: does not divide the active lanes (got 5",
        ),
        (["simulate", "atomics", "--set", "gpu.gpu.sms=0"], "gpu.sms: out of range (got 0"),
        (["simulate", "atomics", "--set", "gpu.sm.max_wraps=0"], "unknown key"),
        (["simulate", "atomics", "--set", "op=popc-inc"], "no such shared-memory atomic"),
        (["simulate", "atomics", "--policy", "fair"], "unknown warp scheduler policy (got 'fair'"),
        (["simulate", "atomics", "--engine", "fast"], "engine: unknown (got 'fast'"),
        (["simulate", "atomics", "--trace", "nowhere/t.json"], "the folder to write into does not exist"),
        (["simulate", "atomics", "--max-cycles", "10"], "not finished after the allowed cycles (got 10"),
        (["simulate", "atomics", "--seed", "-1"], "--seed"),
        (["gpus", "--bogus"], "--bogus"),
        (["table", "--out", "t.txt", "--max-n", "1"], "t.txt"),
        (["table", "--out", "t.csv", "--max-n", "65"], "fewer warps an SM (got 65"),
        (["table", "--out", "t.csv", "--form", "round"], "form: unknown (got 'round'"),
        (["bogus"], "No such command"),
    ],
)
def test_bad_input_is_told_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refusal(capsys, *arguments)


def test_too_much_shared_memory_in_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "big.toml"
    path.write_text(
        "[kernel]\nwarps_per_block = 1\nshared_bytes_per_block = 100000\n"
        '[[program]]\nbody = [{ op = "shared-load" }]\n'
    )
    assert "bytes of shared memory in a block exceed what an SM has (got 100000" in refusal(
        capsys, "simulate", str(path)
    )
    path.write_text(
        '[kernel]\nwarps_per_block = 1\n[[program]]\nbody = [{ loop = inf, body = [{ op = "fp32" }] }]\n'
    )
    assert "never ends" in refusal(capsys, "simulate", str(path))


def test_help_groups_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    listed = capsys.readouterr().out
    for title, commands in GROUPS.items():
        inside = listed.partition(f"{title}:\n")[2].partition("\n\n")[0]
        assert len(inside.splitlines()) == len(commands), title
    assert len(app.registered_commands) + len(app.registered_groups) == sum(map(len, GROUPS.values()))


def test_every_document_tells_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["gpus", "v100"], ["bench", "list"], ["roofline", "--how"]):
        assert next(iter(document(capsys, *arguments).items())) == ("schema", SCHEMA)


def test_a_part_of_a_name_finds_the_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    assert "perhaps h100-pcie or h100-sxm;" in refusal(capsys, "gpus", "h100")


def test_completion_knows_the_gpus() -> None:
    assert complete_gpu("h100") == ["h100-pcie", "h100-sxm"]
    environment = {**os.environ, "_SMLAB_COMPLETE": "complete_bash", "COMP_CWORD": "3"}
    words = environment | {"COMP_WORDS": "smlab simulate --gpu h1"}
    done = subprocess.run(
        [sys.executable, "-m", "smlab"], env=words, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["h100-pcie", "h100-sxm"]


def test_the_list_of_gpus_fits_a_screen(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["gpus"]) == 0
    assert len(capsys.readouterr().out.splitlines()) <= 45


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    assert "validate" in capsys.readouterr().out
    assert run(["--version"]) == 0
    assert smlab.__version__ in capsys.readouterr().out


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_an_interrupt_ends_with_130(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "atomics", "--engine", engine]) == 0  # so that the engine is compiled and cached
    capsys.readouterr()
    sizes = ["--set", "warps=32", "--set", "iterations=1000000000"]
    command = [sys.executable, "-m", "smlab.cli", "simulate", "atomics", "--engine", engine, *sizes]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    time.sleep(5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "arguments", [["--set", "gpu.sm.max_warps=0"], ["--max-cycles", "10"], ["--set", "op=popc-inc"]]
)
def test_both_engines_refuse_alike(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    told = [
        refusal(capsys, "simulate", "atomics", *arguments, "--engine", engine)
        for engine in ("simpy", "compiled")
    ]
    assert told[0] == told[1]


def test_the_benchmarks_are_listed_and_say_what_they_need(capsys: pytest.CaptureFixture[str]) -> None:
    listed = document(capsys, "bench", "list")["benchmarks"]
    assert isinstance(listed, list)
    assert {"shared-atomics", "latency", "ceilings"} <= {b["name"] for b in listed}
    if importlib.util.find_spec("numba_cuda") is None:
        for command in (["sass"], ["run", "--quick"]):
            assert "pip install 'smlab[cuda12]'" in refusal(capsys, "bench", *command)
    assert "unknown (got 'bogus'" in refusal(capsys, "bench", "run", "bogus")


def test_the_front_door_exports_what_it_says() -> None:
    for name in smlab.__all__:
        assert getattr(smlab, name) is not None
    assert smlab.load_gpu is load_gpu
