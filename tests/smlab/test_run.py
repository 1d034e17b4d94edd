"""``smlab run`` and `smlab.run`: the example, results and checks, JSON, errors in one line."""

import json
from pathlib import Path

import numpy as np
import pytest

import smlab
from smlab.cli.main import run as command
from smlab.examples import KERNEL, KERNEL_LAUNCH
from smlab.sim.machine_code.launch_file import read_launch

KEYS = (
    "cycles", "seconds", "cycles_low", "cycles_high", "warp_instructions", "wall_s", "sms", "blocks",
    "blocks_simulated", "atomic", "stalls", "instructions",
)  # fmt: skip


def pixels_and_counts() -> tuple[np.ndarray, np.ndarray]:
    launch = read_launch(KERNEL_LAUNCH)
    return launch.arguments[0], np.bincount(launch.arguments[0], minlength=256).astype(np.int32)


def test_the_example_runs_with_nothing_installed_and_gives_the_keys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command(["run", "--example", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(KEYS) <= set(document)
    assert document["cycles_low"] == document["cycles"] == document["cycles_high"]
    assert document["blocks_simulated"] == document["blocks"] == 8
    assert sum(i["executed"] for i in document["instructions"]) == document["warp_instructions"]
    by_reason: dict[str, int] = {}
    for instruction in document["instructions"]:
        assert set(instruction) == {"address", "line", "text", "executed", "lanes", "stalls"}
        for reason, cycles in instruction["stalls"].items():
            by_reason[reason] = by_reason.get(reason, 0) + cycles
    assert by_reason == {reason: cycles for reason, cycles in document["stalls"].items() if cycles}
    atomics = [i for i in document["instructions"] if i["text"].startswith("ATOMS.ADD")]
    assert [i["line"] for i in atomics] == [10]
    assert document["atomic"]["jobs"] == sum(i["executed"] for i in atomics) == 65536 / 32


def test_the_example_prints_where_warps_waited(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["run", "--example"]) == 0
    told = capsys.readouterr().out
    assert "long_scoreboard" in told
    assert "IMAD.SHL.U32 R5, R2, 0x4, RZ" in told


@pytest.mark.parametrize("right", [True, False])
def test_results_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str], right: bool) -> None:
    _, counts = pixels_and_counts()
    counts[7] += not right
    np.savez(tmp_path / "expected.npz", counts=counts)
    arguments = [
        "run",
        str(KERNEL),
        "--launch",
        str(KERNEL_LAUNCH),
        "--check",
        str(tmp_path / "expected.npz"),
        "--json",
    ]
    assert command([*arguments, "--gpu", "a100-40"]) == (0 if right else 1)
    (check,) = json.loads(capsys.readouterr().out)["checks"]
    assert check["verdict"] == ("held" if right else "fell short")
    assert right or "element 7" in check["summary"]


def test_arrays_counters_and_traces_are_written(tmp_path: Path) -> None:
    out, table, trace = tmp_path / "out.npz", tmp_path / "counters.csv", tmp_path / "trace.json"
    arguments = ["--result", str(out), "--counters", str(table), "--trace", str(trace)]
    assert command(["run", "--example", *arguments]) == 0
    assert np.array_equal(np.load(out)["counts"], pixels_and_counts()[1])
    assert "smsp__inst_executed" in table.read_text()
    assert len(json.loads(trace.read_text())["traceEvents"]) > 1000


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
def test_from_python_arrays_change_in_place(engine: str) -> None:
    pixels, _ = pixels_and_counts()
    pixels, counts = pixels[:2000].copy(), np.zeros(256, dtype=np.int32)
    done = smlab.run(KERNEL, 2, 64, pixels, counts, 2000, gpu="v100", shared_bytes=1024, engine=engine)
    assert np.array_equal(counts, np.bincount(pixels, minlength=256))
    assert done.whole
    assert done.result.atomic.jobs == -(-2000 // 32)


def test_the_uninitialised_shared_memory_is_seen(tmp_path: Path) -> None:
    """Without its first loop the histogram would add to what nobody has written."""
    listing = KERNEL.read_text().replace("STS [R3], RZ", "NOP")
    (tmp_path / "k.sass").write_text(listing)
    pixels, counts = np.zeros(64, dtype=np.uint8), np.zeros(256, dtype=np.int32)
    with pytest.raises(
        smlab.SmlabError, match=r"nobody has written: 0x0, .*ATOMS.ADD.*, histogram.cu line 10; block"
    ):
        smlab.run(tmp_path / "k.sass", 1, 64, pixels, counts, 64, shared_bytes=1024)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["run"], "no kernel given"),
        (["run", str(KERNEL)], "--launch: is missing"),
        (["run", "--example", str(KERNEL)], "takes no kernel"),
        (["run", "nothing.sass", "--launch", str(KERNEL_LAUNCH)], "there is no such file"),
        (["run", str(KERNEL_LAUNCH), "--launch", str(KERNEL_LAUNCH)], "no kernel file"),
        (["run", "--example", "--gpu", "v10"], "v10"),
        (["run", "--example", "--engine", "fast"], "--engine: unknown"),
        (["run", "--example", "--sms", "1000"], "sms: out of range"),
        (["run", "--example", "-D", "1x=2"], "-D: not a macro"),
        (["run", "--example", "--max-cycles", "10"], "not finished after the allowed cycles"),
    ],
)
def test_unusable_input_is_one_line_and_status_2(
    arguments: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(arguments) == 2
    told = capsys.readouterr().err
    assert what in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("grid = 8", "", "grid: not a shape"),
        ("grid = 8", "grid = [1, 2, 3, 4]", "grid: not a shape"),
        ("block = 256", "block = 0", "block: not a shape"),
        ('make = "uniform"', 'make = "normal"', "make: unknown"),
        ('dtype = "uint8"', 'dtype = "byte8"', "unknown dtype"),
        ("value = 65536", "", "needs one of value, file and make"),
        ("value = 65536", 'value = "many"', "not a int32"),
        ("shape = [65536]", "shape = [-1]", "not a shape"),
        ("seed = 1", "sede = 1", "perhaps seed"),
        ('name = "n"', 'name = "pixels"', "stands twice"),
        ("shared_bytes = 1024", "shared_bytes = 512", "out of bounds"),
        ("shape = [65536]", "shape = [6553]", "behind the end of"),
    ],
)  # fmt: skip
def test_a_launch_file_that_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], before: str, after: str, what: str
) -> None:
    path = tmp_path / "launch.toml"
    text = KERNEL_LAUNCH.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    status = command(["run", str(KERNEL), "--launch", str(path), "--max-cycles", "10000000"])
    told = capsys.readouterr().err
    assert status == 2
    assert what in told
    assert told.count("\n") == 1


def test_a_trace_names_instructions_and_source_lines(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    assert command(["run", "--example", "--trace", str(path), "--json"]) == 0
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
    atomics = [e for e in events if e["name"].startswith("ATOMS.ADD")]
    assert len(atomics) == 65536 / 32
    assert {e["args"]["line"] for e in atomics} == {10}
    states = [e for e in events if e["name"] == "barrier"]
    assert states
    assert {e["args"]["instruction"].split()[0] for e in states} == {"BAR.SYNC"}
