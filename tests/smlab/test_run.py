"""``smlab run`` and `smlab.run`: the example, results and checks, JSON, errors in one line."""

import json
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import smlab
from smlab.cli.main import run as command
from smlab.examples import KERNEL, KERNEL_LAUNCH
from smlab.hw_bench.arrays import load_arrays, write_arrays
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterTable
from smlab.sim.isa.launch.launch_file import read_launch

KEYS = (
    "cycles", "seconds", "cycles_low", "cycles_high", "warp_instructions", "wall_s", "sms", "blocks",
    "blocks_simulated", "atomic", "stalls", "instructions", "seconds_low", "seconds_high", "clock_hz",
    "registers", "spilled_bytes", "shared_bytes", "resident_warps", "alternative", "schema", "rates",
    "profiled_seconds", "events_seconds",
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
    assert document["seconds"] == document["cycles"] / document["clock_hz"]
    assert document["seconds_low"] < document["seconds"] < document["seconds_high"]
    assert document["profiled_seconds"] == pytest.approx(document["seconds"] + 2.0e-6)  # of a V100
    assert document["events_seconds"] == pytest.approx(document["seconds"] + 3.2e-6)
    instructions = document["rates"]["warp_instructions_per_s"] * document["seconds"]
    assert instructions == pytest.approx(document["warp_instructions"])
    assert document["rates"]["l2_bytes_per_s"] * document["seconds"] > 65536  # each byte is read once
    assert document["rates"]["flops_per_s"] == 0
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
    assert len(told.splitlines()) <= 12


@pytest.mark.parametrize("overhead_us", [2.0, 0.5])
def test_a_profiler_s_duration_is_told_beside_the_time(
    capsys: pytest.CaptureFixture[str], overhead_us: float
) -> None:
    """What lies before the first warp and after the last is no part of the time."""
    asked = ["--set", f"gpu.launch.profiled_overhead_s={overhead_us}e-6"]
    assert command(["run", "--example", "--details", *asked]) == 0
    told = capsys.readouterr().out
    time, duration = (float(text) for text in re.findall(r"(?:v100|duration): ([\d.]+) us", told))
    assert duration == pytest.approx(time + overhead_us, abs=0.011)


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


def test_rates_of_a_sample_are_those_of_the_grid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = KERNEL_LAUNCH.read_text().replace("grid = 8", "grid = 640").replace("65536", str(640 * 256 * 8))
    (tmp_path / "k.toml").write_text(text)
    asked = ["run", str(KERNEL), "--launch", str(tmp_path / "k.toml"), "--set", "gpu.gpu.sms=16", "--json"]
    found = []
    for sms in ("all", "2"):
        assert command([*asked, "--sms", sms]) == 0
        found.append(json.loads(capsys.readouterr().out)["rates"])
    assert found[1] == pytest.approx(found[0], rel=0.05)


QUEUES = {"_drain_": 0.18, "active_warps": 0.10, "active_cycles": 0.08}
"""What waits for the block's additions at its end, and how far a sample may be off. It has no additions of
other blocks on its words, so that its queues are shorter. Counters are of the first of three samples, whose
cycles are 5 % around their mean."""

NOISY = (
    "not_selected",
    "math_pipe_throttle",
    "mio_throttle",
    "lg_throttle",
    "no_instruction",
    "dispatch_stall",
    "barrier",
)
"""Waits of a few cycles in all, which a part of the grid need not have like the whole."""


def test_counters_of_a_sample_are_those_of_the_grid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The histogram on 16 SMs, 40 blocks on each: of two SMs as of all."""
    text = KERNEL_LAUNCH.read_text().replace("grid = 8", "grid = 640").replace("65536", str(640 * 256 * 8))
    (tmp_path / "k.toml").write_text(text)
    asked = ["run", str(KERNEL), "--launch", str(tmp_path / "k.toml"), "--set", "gpu.gpu.sms=16"]
    tables = []
    for sms in ("all", "2"):
        path = tmp_path / f"{sms}.csv"
        assert command([*asked, "--sms", sms, "--counters", str(path)]) == 0
        tables.append({(row.sm, row.counter): row.value for row in CounterTable.read_csv(path).rows()})
        told = "the counters are those of 80 of 640 blocks, scaled to the whole grid"
        assert (told in capsys.readouterr().err) == (sms == "2")
    whole, part = tables
    assert {counter for sm, counter in part if sm == 0} == {counter for sm, counter in whole if sm == 0}
    assert part[WHOLE_GPU, "smsp__thread_inst_executed_op_shared_atom.sum"] == 640 * 256 * 8
    assert part[WHOLE_GPU, "launch__grid_size"] == 640
    assert part[WHOLE_GPU, "device__attribute_multiprocessor_count"] == 16
    for place, value in part.items():
        if not any(f"_{name}_" in place[1] for name in NOISY):
            within = next((w for name, w in QUEUES.items() if name in place[1]), 0.05)
            assert value == pytest.approx(whole[place], rel=within), place


def test_results_go_into_the_file_that_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["run", "--example", "--result", str(tmp_path / "out")]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert np.array_equal(load_arrays(tmp_path / "out")["counts"], pixels_and_counts()[1])
    capsys.readouterr()
    for name, said in (("r.npy", "do not fit a .npy"), ("/dev/full", "/dev/full: No space left")):
        assert command(["run", "--example", "--result", str(tmp_path / name)]) == 2
        assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_any_name_of_an_argument_can_be_written(tmp_path: Path) -> None:
    arrays = {name: np.arange(3) for name in ("file", "args", "allow_pickle", "arr_0", "a/b")}
    write_arrays(tmp_path / "r.npz", arrays)
    assert {name: array.tolist() for name, array in load_arrays(tmp_path / "r.npz").items()} == {
        name: [0, 1, 2] for name in arrays
    }


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
def test_from_python_arrays_change_in_place(engine: str) -> None:
    pixels, _ = pixels_and_counts()
    pixels, counts = pixels[:2000].copy(), np.zeros(256, dtype=np.int32)
    done = smlab.run(KERNEL, 2, 64, pixels, counts, 2000, gpu="v100", shared_bytes=1024, engine=engine)
    assert np.array_equal(counts, np.bincount(pixels, minlength=256))
    assert done.whole
    assert done.result.atomic.jobs == -(-2000 // 32)


def test_what_looks_wrong_in_a_kernel_is_told_as_text_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without its first loop the histogram adds to what nobody has written; a PMTRIG takes no time."""
    listing = KERNEL.read_text().replace("STS [R3], RZ", "PMTRIG 0x1")
    (tmp_path / "k.sass").write_text(listing)
    arguments = ["run", str(tmp_path / "k.sass"), "--launch", str(KERNEL_LAUNCH)]
    assert command([*arguments, "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    unwritten, untimed = notes
    assert unwritten.startswith("shared memory is read before anything has written it, and taken as 0: ")
    assert "histogram.cu line 10; block (0, 0, 0), thread (0, 0, 0)" in unwritten
    assert untimed == "has no effect on time here but its issue: PMTRIG (1 place)"
    assert command(arguments) == 0
    told = capsys.readouterr().err.splitlines()
    assert [f"note: {note}" for note in notes] == [line for line in told if line.startswith("note: ")]
    assert command(["run", "--example", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == []


def test_the_number_of_sms_that_it_took_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["run", "--example", "--sms", "auto"]
    assert command([*asked, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["sms"] == document["blocks_simulated"] == 8
    assert [tried["sms"] for tried in document["sms_tried"]] == [8]
    assert document["sms_why"] == "the grid is small, and runs whole"
    monkeypatch.setattr("smlab.commands.run.steady.SMALL_GRID", 0)
    asked += ["--set", "gpu.gpu.sms=4"]
    assert command([*asked, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["sms"] == document["sms_tried"][-1]["sms"]
    assert [tried["sms"] for tried in document["sms_tried"]][:1] == [1]
    assert command(asked) == 0
    assert f"SMs that ran: {document['sms']} ({document['sms_why']})" in capsys.readouterr().out


def test_a_file_that_is_cut_off_is_no_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def cut_off(options: object) -> int:
        raise EOFError("Ran out of input")

    monkeypatch.setattr("smlab.commands.run.run.run_run", cut_off)
    with suppress(EOFError):
        assert command(["run", "--example"]) not in (0, 130)
    assert "interrupted" not in capsys.readouterr().err


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
        (["run", "--example", "-I", "no/where"], "-I: there is no such folder (got 'no/where'"),
        (["run", "--example", "--sms", "1000"], "sms: out of range"),
        (["run", "--example", "--sms", "auto", "--accel-sim", "t"], "is no recording of the kernel"),
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


def test_the_power_limit_slows_a_kernel_that_needs_more(capsys: pytest.CaptureFixture[str]) -> None:
    """The example on a T4 of 8 W, run again and again. At a clock that somebody saw, nothing is held."""
    example = ["run", "--example", "--gpu", "t4", "--set", "gpu.power.limit_w=8"]
    assert command([*example, "--json"]) == 0
    held = json.loads(capsys.readouterr().out)
    assert command([*example, "--clock", "1590", "--json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert held["cycles"] == seen["cycles"]
    assert held["clock_hz"] < seen["clock_hz"] == 1590e6
    # Its data are fetched once: that part of the time is DRAM's, and no clock changes it.
    assert 0.9 < held["seconds"] / (held["cycles"] / held["clock_hz"]) <= 1
    assert command(example) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "needs more than 8 W at 1,590 MHz" in " ".join(lines[:3])
    assert f"{1e6 * seen['seconds']:,.2f} us" in " ".join(lines[:3])
