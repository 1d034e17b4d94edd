"""Programs: kernels one after the other on one memory, from a file and from Python."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import smlab
from smlab.cli.main import run as command
from smlab.examples import KERNEL
from smlab.hw_bench.errors import SmlabError
from smlab.sim.execution import functional
from smlab.sim.execution.program import SimulatedProgram
from smlab.sim.execution.run import run_machine_code
from smlab.sim.isa.memory.global_memory import GlobalMemory

PIXELS = np.random.default_rng(1).integers(0, 256, 65536).astype(np.uint8)
COUNTS = np.bincount(PIXELS, minlength=256)
DATA = """
[launch]
block = 256
shared_bytes = 1024

[[argument]]
name = "pixels"
dtype = "uint8"
file = "pixels.npy"

[[argument]]
name = "counts"
dtype = "int32"
shape = [256]
make = "zeros"
returned = true
"""
STEP = """
[[step]]
kernel = "h.sass"
grid = 8
arguments = ["pixels", "counts", 65536]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "pixels.npy", PIXELS)
    shutil.copy(KERNEL, tmp_path / "h.sass")
    return tmp_path


def written(folder: Path, steps: str) -> str:
    (folder / "p.toml").write_text(DATA + steps)
    return str(folder / "p.toml")


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert command(["run", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
def test_steps_share_memory_and_a_warm_l2(
    folder: Path, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    """The second launch of a kernel finds its arrays in L2, another one what the first left."""
    path = written(folder, STEP + STEP.replace("grid = 8", "grid = 16"))
    wanted = {"counts": 2 * COUNTS.astype(np.int32)}
    np.savez(folder / "wanted.npz", **wanted)
    found = document(capsys, "--launch", path, "--engine", engine, "--check", str(folder / "wanted.npz"))
    first, second = found["kernels"]
    assert [check["verdict"] for check in found["checks"]] == ["held"]
    assert (first["launches"], first["simulated"], found["gaps"]) == (1, 1, 1)
    counts = np.zeros(256, np.int32)
    alone = [smlab.run(KERNEL, n, 256, PIXELS, counts, 65536, shared_bytes=1024).cycles for n in (8, 16)]
    assert first["cycles"] == alone[0]
    assert second["cycles"] < 0.8 * alone[1]
    times = sum(row["seconds"] for row in found["kernels"])
    assert found["seconds"] == pytest.approx(times + found["gap"]["s"])
    assert sum(row["share"] for row in found["kernels"]) + found["gap_seconds"] / found["seconds"] == (
        pytest.approx(1)
    )
    assert found["seconds_low"] < found["seconds"] < found["seconds_high"]


def test_the_power_limit_holds_no_program(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its kernels take turns, so that none alone decides the clock: the time and its interval are at the
    described one."""
    path = written(folder, STEP)
    limits = ["--gpu", "t4", "--set", "gpu.power.limit_w="]
    held, free = (
        document(capsys, "--launch", path, *limits[:-1], f"{limits[-1]}{watts}") for watts in (1, 70)
    )
    for key in ("seconds", "seconds_low", "seconds_high", "clock_hz"):
        assert held[key] == free[key]


def test_a_kernel_launched_again_and_again_is_timed_until_two_launches_agree(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(folder, STEP + "repeat = 40\n")
    out = folder / "out.npz"
    found = document(capsys, "--launch", path, "--result", str(out))
    (row,) = found["kernels"]
    assert (row["launches"], row["steady"]) == (40, True)
    assert 2 < row["simulated"] < 6
    assert row["cycles_first"] > 1.2 * row["cycles_last"]
    assert np.array_equal(np.load(out)["counts"], 40 * COUNTS)  # those that were not timed were executed
    one_by_one = smlab.simulated("v100")
    pixels, counts = PIXELS.copy(), np.zeros(256, np.int32)
    one_by_one._launches._unsteady = _Everything()  # type: ignore[assignment]
    for _ in range(6):
        one_by_one.run(KERNEL, 8, 256, pixels, counts, 65536, shared_bytes=1024)
    (all_timed,) = one_by_one.program.rows
    assert all_timed.simulated == 6
    assert row["cycles_last"] == pytest.approx(all_timed.cycles_last, rel=0.01)


class _Everything(set):
    def __contains__(self, place: object) -> bool:
        return True


def test_a_launch_that_does_something_else_is_timed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long the kernel runs depends on a number in memory, which the host changes between launches: what
    two launches agreed on holds no more, and memory is as if the launch had been timed at once."""
    gpu, counts = smlab.load_gpu("v100"), np.zeros(256, np.int32)
    program = smlab.simulated(gpu)
    for _ in range(4):
        program.run(KERNEL, 8, 256, PIXELS.copy()[:], counts, 65536, shared_bytes=1024)
    pixels = PIXELS.copy()
    steady = smlab.simulated(gpu)
    counts[:] = 0
    for _ in range(4):
        steady.run(KERNEL, 8, 256, pixels, counts, 65536, shared_bytes=1024)
    (row,) = steady.program.rows
    assert row.steady
    timed, real = row.simulated, functional.run

    def other(launch, **how):
        done = real(launch, **how)
        done.executed[:] *= 2
        return done

    monkeypatch.setattr(functional, "run", other)
    steady.run(KERNEL, 8, 256, pixels, counts, 65536, shared_bytes=1024)
    assert row.simulated == timed + 1
    assert np.array_equal(counts, 5 * COUNTS)


def test_a_sampled_program_says_that_it_begins_cold(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(folder, STEP.replace("grid = 8", "grid = 640") + "repeat = 5\n")
    found = document(capsys, "--launch", path, "--set", "gpu.gpu.sms=16", "--sms", "2")
    assert any("began with an empty L2" in note for note in found["notes"])
    assert found["kernels"][0]["simulated"] < 5


def test_the_table_says_what_was_simulated(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["run", "--launch", written(folder, STEP + "repeat = 9\n"), "--gpu", "v100"]) == 0
    told = capsys.readouterr().out
    assert "9 launches on" in told
    assert "of 9 launches simulated, of which two agree within 1 %" in told
    assert "a gap between launches: 0.9 us (published, 0.5 to 1.1 us)" in told


def test_a_module_keeps_its_variables_and_arrays_their_addresses() -> None:
    program = SimulatedProgram(smlab.load_gpu("v100"), lambda launch: run_machine_code(launch, None))  # type: ignore[arg-type]
    first, second = program.next_memory(), program.next_memory()
    a, b = np.zeros(100, np.uint8), np.zeros(1000, np.uint8)
    place = first.allocate("a", a)
    assert second.allocate("b", b) != place
    assert second.allocate("a again", a) == place
    assert [one.address for one in second.allocations] == sorted(one.address for one in second.allocations)
    first.variables("m", b"\1\2")[0] = 7
    assert second.variables("m", b"\1\2").tolist() == [7, 2]


def test_a_long_program_begins_at_the_lowest_address_again() -> None:
    """Of the arrays not a page is touched."""
    program = SimulatedProgram(smlab.load_gpu("v100"), lambda launch: run_machine_code(launch, None))  # type: ignore[arg-type]
    first = program.next_memory()
    place = first.allocate("a", np.empty(1 << 33, np.uint8))
    program.memory.l2.shape = "not empty"
    second = program.next_memory()
    assert second.allocate("b", np.zeros(100, np.uint8)) == place
    assert program.memory.l2.shape is None


@pytest.mark.parametrize("stuck", [True, False])
def test_what_cannot_be_executed_alone_is_timed(monkeypatch: pytest.MonkeyPatch, stuck: bool) -> None:
    """Blocks that wait for each other end only together: memory is put back, and launches are timed."""
    counts, pixels = np.zeros(256, np.int32), PIXELS.copy()

    def never_ends(launch, **how):
        counts[:] = -1
        raise SmlabError("not finished after the allowed warp-instructions")

    if stuck:
        monkeypatch.setattr(functional, "run", never_ends)
    with smlab.simulated("v100") as gpu:
        for _ in range(7):
            gpu.run(KERNEL, 8, 256, pixels, counts, 65536, shared_bytes=1024)
    assert np.array_equal(counts, 7 * COUNTS)
    assert (gpu.program.simulated == 7) is stuck


WRONG = {
    "step = 5\n": "step: is not a list of tables",
    STEP.replace("grid = 8", ""): "step 1: grid: not a shape",
    STEP + "repeat = 0\n": "step 1: repeat: not a number of launches (got 0; expected 1 to 1,000,000)",
    STEP + "repeat = 'N'\n": "step 1: repeat: names a macro that is not given",
    STEP + "grids = 3\n": "step 1: ",
    STEP.replace('"counts"', '"count"'): "step 1: arguments: no such argument (got 'count'; expected one of",
    STEP.replace("65536]", "[1]]"): "step 1: arguments: no argument (got [1]",
    STEP.replace('"h.sass"', "3"): "step 1: kernel: not a name",
    STEP.replace('"h.sass"', '"k.sass"'): "k.sass: there is no such file",
    STEP.replace('kernel = "h.sass"', ""): "step 1: kernel: is missing",
    STEP.replace("65536]", "1000000]"): "step 1: ",
}


@pytest.mark.parametrize("steps", WRONG)
def test_a_program_that_is_wrong_is_one_line_and_status_2(
    folder: Path, capsys: pytest.CaptureFixture[str], steps: str
) -> None:
    data = DATA if not steps.startswith("step") else DATA.replace("[launch]", f"{steps}[launch]", 1)
    path = folder / "p.toml"
    path.write_text(data + ("" if steps.startswith("step") else steps))
    assert command(["run", "--launch", str(path)]) == 2
    told = capsys.readouterr().err
    assert WRONG[steps] in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--html", "x.html"], ["run", "--trace", "x.json"], ["run", "--counters", "x.csv"],
        ["run", "--baseline", "kept.json"], ["run", "--name", "k"], ["run", "--anchor", "1e-5"],
        ["compare", "h.sass", "h.sass"], ["advise", "h.sass"], ["run", "--alternative", "all"],
    ],
)  # fmt: skip
def test_what_is_of_one_kernel_takes_no_program(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "kept.json").write_text("{}")
    assert command([*arguments, "--launch", written(folder, STEP)]) == 2
    told = capsys.readouterr().err
    assert "step" in told or "a program runs under one alternative" in told
    assert told.count("\n") == 1


def test_a_kept_program_is_no_baseline(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["run", "--launch", written(folder, STEP), "--json"]) == 0
    (folder / "kept.json").write_text(capsys.readouterr().out)
    assert command(["run", "--example", "--baseline", str(folder / "kept.json")]) == 2
    assert "is a program of several kernels" in capsys.readouterr().err


def test_from_python_what_is_launched_is_one_program() -> None:
    counts = np.zeros(256, np.int32)
    with smlab.simulated("v100") as gpu:
        for _ in range(5):
            gpu.run(KERNEL, 8, 256, PIXELS, counts, 65536, shared_bytes=1024)
        gpu.run(KERNEL, 16, 256, PIXELS, counts, 65536, shared_bytes=1024)
    program = gpu.program
    assert np.array_equal(counts, 6 * COUNTS)
    assert [row.launches for row in program.rows] == [5, 1]
    assert len(gpu.runs) == program.launches == 6
    assert program.simulated < 6
    assert program.seconds == pytest.approx(gpu.seconds + 5 * 0.9e-6)
    assert gpu.runs[0].cycles > gpu.runs[-2].cycles
    assert list(program.to_dataframe()["launches"]) == [5, 1]
    assert "6 launches on v100" in repr(program)
    with pytest.raises(TypeError, match="simulated.. takes it"):
        gpu.run(KERNEL, 8, 256, PIXELS, counts, 65536, sms=1)
    with pytest.raises(SmlabError, match="there is no such file"):
        gpu.run("nothing.sass", 8, 256, PIXELS, counts)


@pytest.mark.parametrize("complete", [True, False])
def test_behind_a_sample_the_rest_of_the_grid_is_executed(complete: bool) -> None:
    """The kernel adds to what is there: blocks of the sample count once. The last launches are not timed."""
    counts = np.zeros(256, np.int32)
    with smlab.simulated("v100", sms=1, complete=complete) as gpu:
        for _ in range(5):
            gpu.run(KERNEL, 512, 256, PIXELS, counts, 65536, shared_bytes=1024)
    assert not gpu.runs[0].whole
    assert gpu.program.simulated < 5
    assert np.array_equal(counts, 5 * COUNTS) is complete
    assert ("of 5 launches a sample was executed" in repr(gpu)) is not complete


def test_an_array_in_the_place_of_one_that_is_gone_has_its_own_address() -> None:
    """The host gives freed memory to the next array. L2 must not take that for the first one."""
    room = np.zeros(1 << 12, np.uint8)
    places = [np.ndarray(room.shape, np.uint8, memoryview(room)) for _ in range(2)]
    memory = GlobalMemory()
    assert memory.allocate("of no array", places[0]) == memory.after().allocate("again", places[1])
    addresses = set()
    for _ in range(20):  # of which the host puts several into one place
        array = np.zeros(1 << 12, np.uint8)
        address = memory.after().allocate("an array", array)
        assert memory.after().allocate("a view of it", array[:].view(np.uint8)) == address
        addresses.add(address)
        del array
    assert len(addresses) == 20
