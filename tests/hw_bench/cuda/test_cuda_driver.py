"""The whole of the suite's host code on a stand-in driver (`driver/`): Numba and cuda-core launch, copy and
time as on a GPU, and what they launch is executed in the simulator.

Same data as ``--on-simulator``; faults end in one line and can be resumed; the time of a kernel is told apart
from that of launching it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from smlab.hw_bench.cuda.measuring import plan
from smlab.hw_bench.cuda.measuring.dataset import read_table
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.gpu.descriptions import load_gpu

DRIVER = Path(__file__).parent / "driver"
SMALL = {"gpu.sms": 2, "l2.bytes": 1 << 20}
"""As `driver/__main__.py` has it."""
FLOAT32 = 1e-6
"""The driver tells times as singles."""
PROGRESS = re.compile(r" *\d+\.\d s  ")
MEASURED = ("seconds_median", "initial_seconds_median", "rate_per_s")

pytestmark = [
    pytest.mark.skipif(not has_compiler(), reason="the CUDA compiler of the extra cuda12 is missing"),
    pytest.mark.skipif(sys.platform != "linux", reason="the stand-in driver is a Linux library"),
]


@pytest.fixture(autouse=True)
def _management_library() -> None:
    pytest.importorskip("pynvml", reason="not run: nvidia-ml-py of the extra cuda12 is missing")


def driven(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, DRIVER, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def on_simulator(folder: Path, profile: str, *benchmarks: str) -> None:
    from smlab.hw_bench.cuda.measuring.harness import measure
    from smlab.validation.calibrate.on_simulator import BenchmarkGpu

    gpu = load_gpu("a100-40").with_values(SMALL, source="assumed: a small GPU", where="a test")
    measure(folder, profile=profile, benchmarks=benchmarks, stand_in=BenchmarkGpu(gpu))


def same(found: Path, expected: Path) -> None:
    """Equal tables: all numbers, and the seconds as far as a single goes."""
    one, other = read_table(found), read_table(expected)
    assert one.keys() == other.keys()
    for name, values in one.items():
        if name in MEASURED:
            np.testing.assert_allclose(values, other[name], rtol=FLOAT32, err_msg=name)
        else:
            np.testing.assert_array_equal(values, other[name], err_msg=name)


def note(folder: Path, benchmark: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / f"{benchmark}.json").read_text())
    return found


def failing_and_resumed(
    folder: Path, benchmark: str, fault: str, at: int, said: str, profile: str = "smoke"
) -> None:
    """A run that the fault ends in one line, with nothing called done that is not, and the run resumed."""
    what = ("--out", folder, "--profile", profile, "--benchmarks", benchmark)
    failed = driven("--fault", fault, "--at", str(at), *what)
    told = [line for line in failed.stderr.splitlines() if not PROGRESS.match(line)]
    if failed.returncode == 2:
        assert len(told) == 1, failed.stderr
        assert said in told[0]
    else:
        assert (failed.returncode, told) == (1, []), failed.stderr
        assert all(line.startswith("NOT KEPT ") for line in failed.stdout.splitlines()[1:]), failed.stdout
        assert said in failed.stdout
    about = note(folder, benchmark)
    assert about["complete"] is False
    assert about["failure"]
    resumed = driven(*what, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    about = note(folder, benchmark)
    assert (about["complete"], about["failure"], about["wrong_results"]) == (True, None, [])


def test_a_failed_launch_ends_in_one_line_and_is_resumed(tmp_path: Path) -> None:
    """The quick part of the thorough tests: one benchmark, one fault, the data of the simulator."""
    failing_and_resumed(tmp_path / "driven", "histogram", "launch failure", 70, "CUDA_ERROR_LAUNCH_FAILED")
    on_simulator(tmp_path / "simulated", "smoke", "histogram")
    same(tmp_path / "driven" / "histogram.csv", tmp_path / "simulated" / "histogram.csv")
    about = note(tmp_path / "driven", "histogram")
    assert about["launches_not_held"] == 0
    settings = about["settings"]
    assert isinstance(settings, dict)
    assert settings["uuid"] == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert (settings["ecc"], settings["mig"], settings["power_limit_w"]) == (True, None, 400.0)


TIMING = """
import json
import numpy as np
from numba import cuda
from smlab.hw_bench.cuda.measuring import timing

cycles = 200_000
kernel, out = timing._kernel("run_for")[1, 1], cuda.to_device(np.zeros(2, dtype=np.int64))
run = lambda: kernel(np.int64(cycles), out)
found = {"empty": timing.empty_seconds(), "held": timing.seconds_of(run)}
found["cycles"], found["nanoseconds"] = map(int, out.copy_to_host())
hold, timing._HeldQueue.__enter__ = timing._HeldQueue.__enter__, lambda self: None
found["not held"] = timing.seconds_of(run)
timing._HeldQueue.__enter__ = hold
found["rate"] = timing.clock_rate().hz_by_events
found["rate of the timer"] = timing.clock_rate().hz_by_global_timer
found["gave up"] = timing.launches_not_held()
print(json.dumps(found))
"""


def test_a_kernels_time_is_told_apart_from_launching_it(tmp_path: Path) -> None:
    """A kernel of known length within 1 %, where Python takes 50 us to launch and the GPU 2 us to begin."""
    script = tmp_path / "timing.py"
    script.write_text(TIMING)
    done = driven("--gap", "2e-6", "--script", script)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    hz = float(load_gpu("a100-40").number("clock.sm_hz"))
    known = found["cycles"] / hz
    assert 2e-6 <= found["empty"] < 3e-6, "its own instructions have to be fetched"
    assert found["held"] - found["empty"] == pytest.approx(known, rel=0.01)
    assert found["nanoseconds"] == pytest.approx(1e9 * known, rel=0.01)
    assert found["not held"] > known + 45e-6, "without the kernel that holds the GPU, launching is measured"
    assert found["rate"] == pytest.approx(hz, rel=0.01)
    assert found["rate of the timer"] == pytest.approx(hz, rel=0.01)
    assert found["gave up"] == 0


PROFILED = """
import sys
from dataclasses import replace
from pathlib import Path
from smlab.hw_bench.cuda.measuring import harness, plan

plan.PROFILES["profiled"] = replace(plan.PROFILES["smoke"], name="profiled", profiler=True)
outcome = harness.measure(Path(arguments[0]), profile="profiled", benchmarks=("histogram",))
print(outcome.rows["histogram"], simulated.launches)
"""


@pytest.mark.thorough
def test_a_profiler_sees_one_launch_for_each_row(tmp_path: Path) -> None:
    assert plan.PROFILES["profiled"].profiler
    script = tmp_path / "profiled.py"
    script.write_text(PROFILED)
    done = driven("--script", script, tmp_path / "data")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["8", "8"]


@pytest.mark.thorough
@pytest.mark.parametrize("benchmark", plan.BENCHMARKS)
def test_every_benchmark_gives_the_data_of_the_simulator(benchmark: str, tmp_path: Path) -> None:
    out = tmp_path / "driven"
    done = driven("--out", out, "--profile", "tiny", "--benchmarks", benchmark)
    assert done.returncode == 0, done.stderr
    assert note(out, benchmark)["complete"] is True
    on_simulator(tmp_path / "simulated", "tiny", benchmark)
    files = out / f"{benchmark}.csv", tmp_path / "simulated" / f"{benchmark}.csv"
    if benchmark != "portability":
        same(*files)
        return
    # The simulator goes on until two launches are alike, the driver's GPU launches once: its first one.
    once, first = (read_table(file) for file in files)
    for name in ("kernel", "size", "blocks", "threads"):
        np.testing.assert_array_equal(once[name], first[name], err_msg=name)
    np.testing.assert_allclose(once["seconds_median"], first["initial_seconds_median"], rtol=FLOAT32)
    assert (first["seconds_median"] < first["initial_seconds_median"]).any()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert driven("--out", folder, "--profile", "smoke", "--benchmarks", "histogram").returncode == 0
    return folder


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("fault", "at", "said"),
    [
        ("illegal address", 70, "CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("launch timeout", 72, "CUDA_ERROR_LAUNCH_TIMEOUT"),
        ("ECC error", 67, "CUDA_ERROR_ECC_UNCORRECTABLE"),
        ("out of memory", 12, "CUDA_ERROR_OUT_OF_MEMORY"),
        ("reset midway", 70, "CUDA_ERROR_CONTEXT_IS_DESTROYED"),
        ("copy failure", 5, "CUDA_ERROR_UNKNOWN"),
        ("no such image", 5, "CUDA_ERROR_NO_BINARY_FOR_GPU"),
        ("launch out of resources", 69, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
        ("management lost", 40, "clocks, read so far, cannot be read any more"),
        ("slow clock", 69, "the GPU was held back"),
        ("slow clock, untold", 100, "the GPU was held back"),
    ],
)
def test_each_fault_ends_in_one_line_and_is_resumed(
    fault: str, at: int, said: str, undisturbed: Path, tmp_path: Path
) -> None:
    failing_and_resumed(tmp_path, "histogram", fault, at, said)
    same(tmp_path / "histogram.csv", undisturbed / "histogram.csv")
    archives = tmp_path / "histogram.samples.npz", undisturbed / "histogram.samples.npz"
    with np.load(archives[0]) as found, np.load(archives[1]) as expected:
        assert set(found) == set(expected)
        for name in found:
            np.testing.assert_allclose(found[name], expected[name], rtol=FLOAT32)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("no device", "NO_DEVICE"),
        ("driver mismatch", "SYSTEM_DRIVER_MISMATCH"),
        ("context refused", "DEVICE_UNAVAILABLE"),
    ],
)
def test_a_driver_that_cannot_begin_says_why(fault: str, said: str, tmp_path: Path) -> None:
    done = driven("--fault", fault, "--out", tmp_path, "--profile", "smoke", "--benchmarks", "histogram")
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
def test_versions_that_differ_leave_the_clock_to_be_measured(tmp_path: Path) -> None:
    """Without the management library the run goes on, says so, and a short kernel watches the clock."""
    done = driven(
        "--fault", "management mismatch", "--out", tmp_path, "--profile", "smoke", "--benchmarks", "histogram"
    )
    assert done.returncode == 0, done.stderr
    about = note(tmp_path, "histogram")
    assert about["complete"] is True
    assert "NVMLError" in str(about["clocks_not_told"])
    during = about["clocks_during"]
    assert isinstance(during, dict)
    assert during["sm_mhz_median"] == pytest.approx(1410, rel=0.01)
