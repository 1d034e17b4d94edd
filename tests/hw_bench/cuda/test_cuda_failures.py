"""Failures while measuring: none looks like success, each is told in one line, nothing measured is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from smlab.hw_bench.cuda.measuring.clocks import Clocks, Throttle
from smlab.hw_bench.cuda.measuring.dataset import DataSet, read_table
from smlab.hw_bench.cuda.toolkit import has_compiler, is_of_toolkit, one_line, require_compiler
from smlab.hw_bench.errors import SmlabError

FAILING_RUN = """
import sys
from pathlib import Path
from smlab.hw_bench.cuda.measuring import harness, suite

class LaunchFailed(Exception):
    __module__ = sys.argv[2]

whole = suite.run

def fails(*arguments):
    for count, batch in enumerate(whole(*arguments)):
        if count == 2:
            raise LaunchFailed("[700] an illegal address\\nand more lines")
        yield batch

suite.run = fails
harness.measure(Path(sys.argv[1]), profile="smoke", benchmarks=["latency"])
"""


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


@pytest.mark.parametrize(("module", "told"), [("numba.cuda.cudadrv.driver", True), ("ours", False)])
def test_a_failure_midway_is_not_complete_and_can_be_resumed(module: str, told: bool, tmp_path: Path) -> None:
    """CUDA's own failures become a line that names the kept rows; a mistake of ours keeps its traceback."""
    pytest.importorskip("numba.cuda", reason="the suite was not simulated: this Numba has no CUDA target")
    failed = run(FAILING_RUN, str(tmp_path), module)
    last = failed.stderr.strip().splitlines()[-1]
    assert failed.returncode == 1
    assert ("SmlabError: latency: LaunchFailed: [700] an illegal address (" in last) is told
    assert ("--resume continues" in last) is told
    note = json.loads((tmp_path / "latency.json").read_text())
    assert note["complete"] is False
    assert note["failure"] == "LaunchFailed: [700] an illegal address"
    assert len(note["batches"]) == 2
    kept = read_table(tmp_path / "latency.csv")["kernel"].tolist()
    assert len(kept) == sum(batch["rows"] for batch in note["batches"].values())

    resumed = run(
        FAILING_RUN.replace("suite.run = fails", "").replace('"latency"]', '"latency"], resume=True'),
        str(tmp_path),
        module,
    )
    assert resumed.returncode == 0, resumed.stderr
    note = json.loads((tmp_path / "latency.json").read_text())
    assert note["complete"] is True
    assert note["failure"] is None
    whole = read_table(tmp_path / "latency.csv")["kernel"].tolist()
    assert whole[: len(kept)] == kept
    assert len(whole) == sum(batch["rows"] for batch in note["batches"].values()) > len(kept)


def test_benchmarks_behind_one_that_failed_are_measured(tmp_path: Path) -> None:
    """Minutes with a GPU are scarce: one benchmark's failure takes no other's data."""
    pytest.importorskip("numba.cuda", reason="the suite was not simulated: this Numba has no CUDA target")
    script = FAILING_RUN.replace(
        "        if count == 2:", '        if count == 2 and arguments[0] == "latency":'
    ).replace('["latency"]', '["latency", "ceilings"]')
    failed = run(script, str(tmp_path), "numba.cuda.cudadrv.driver")
    assert failed.returncode == 1
    assert "SmlabError: latency: LaunchFailed" in failed.stderr.strip().splitlines()[-1]
    notes = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in ("latency", "ceilings")}
    assert {name: note["complete"] for name, note in notes.items()} == {"latency": False, "ceilings": True}


def test_a_run_of_another_profile_is_not_resumed(tmp_path: Path) -> None:
    def data_set(profile: str, resume: bool) -> DataSet:
        return DataSet(tmp_path, "set", ("n",), {"gpu": "one", "profile": profile}, resume)

    data_set("quick", resume=False).close()
    with pytest.raises(SmlabError, match=r"profile: is of another run \(got 'quick'; expected 'full'\)"):
        data_set("full", resume=True)


def test_the_toolkits_errors_are_told_from_ours() -> None:
    class DriverError(Exception):
        __module__ = "numba.cuda.cudadrv.driver"

    class OutOfMemory(DriverError):
        __module__ = "elsewhere"

    assert is_of_toolkit(OutOfMemory("[2] out of memory"))
    assert not is_of_toolkit(ValueError("[2] out of memory"))
    assert one_line(DriverError("\n  first \nsecond")) == "DriverError: first"
    assert one_line(DriverError()) == "DriverError"


@pytest.mark.skipif(not has_compiler(), reason="the CUDA compiler of the extra cuda12 is missing")
def test_a_numpy_that_numba_does_not_know_yet_ends_no_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(np, "row_stack", raising=False)
    require_compiler()
    assert np.row_stack is np.vstack  # type: ignore[attr-defined, unused-ignore]  # noqa: NPY201


class NvmlError(Exception):
    """What the stand-in raises for a query that it does not support."""


GPUS = ("GPU-aa", "GPU-bb")


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A management library that sees two GPUs, knows only some queries of theirs, and fails at others."""

    def by_uuid(uuid: str) -> str:
        if uuid not in GPUS:
            raise NvmlError(uuid)
        return uuid

    def unsupported(*_: Any) -> None:
        raise NvmlError("not supported")

    library = SimpleNamespace(
        NVMLError=NvmlError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        nvmlClocksThrottleReasonSwPowerCap=4,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: len(GPUS),
        nvmlDeviceGetHandleByIndex=lambda index: GPUS[index],
        nvmlDeviceGetHandleByUUID=by_uuid,
        nvmlDeviceGetHandleByPciBusId=lambda address: GPUS[1] if address.startswith("0") else None,
        nvmlDeviceGetUUID=lambda device: device.encode(),
        nvmlSystemGetDriverVersion=lambda: b"570.1",
        nvmlDeviceGetClockInfo=lambda device, clock: {1: 1410, 2: 1215}[clock],
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda device: 4,
        nvmlDeviceGetPowerUsage=unsupported,
        nvmlDeviceGetEccMode=lambda device: [1, 1],
        nvmlDeviceGetComputeRunningProcesses=lambda device: [
            SimpleNamespace(pid=os.getpid()),
            SimpleNamespace(pid=-1),
        ],
    )
    monkeypatch.setitem(sys.modules, "pynvml", library)
    return library


def test_one_query_that_is_not_supported_leaves_the_others(nvml: SimpleNamespace) -> None:
    clocks = Clocks("GPU-bb")
    reading = clocks.read()
    assert reading is not None
    assert (reading.sm_mhz, reading.memory_mhz, reading.power_w, reading.temperature_c) == (
        1410,
        1215,
        None,
        None,
    )
    assert reading.slowdowns == ("power cap",)
    assert clocks.driver == "570.1"
    settings = clocks.settings()
    assert (settings["uuid"], settings["ecc"], settings["mig"]) == ("GPU-bb", True, None)
    assert settings["other_processes"] == 1
    nvml.nvmlDeviceGetClockInfo = nvml.nvmlDeviceGetPowerUsage
    throttle = Throttle(clocks, lambda: None)
    assert throttle()
    assert throttle.as_json() == {
        "readings": 1,
        "sm_mhz_min": None,
        "sm_mhz_median": None,
        "sm_mhz_max": None,
        "slowdowns": ["power cap"],
    }


def test_a_reading_of_the_clocks_serves_the_launches_just_behind_it(nvml: SimpleNamespace) -> None:
    clocks = Clocks("GPU-bb")
    often, always = Throttle(clocks, lambda: None, renewed_s=1000.0), Throttle(clocks, lambda: None, 0.0)
    assert all(often() for _ in range(5))
    assert all(always() for _ in range(5))
    assert (len(often.seen), len(always.seen)) == (1, 5)


def test_the_gpu_is_found_by_what_names_it_and_never_guessed(nvml: SimpleNamespace) -> None:
    assert Clocks("GPU-bb").settings()["uuid"] == "GPU-bb"
    assert Clocks("MIG-cc", "00000000:3B:00.0").settings()["uuid"] == "GPU-bb"
    for unknown in (Clocks("MIG-cc"), Clocks()):
        assert unknown.read() is None
        assert unknown.settings()["uuid"] is None
        assert unknown.driver == "570.1"
    nvml.nvmlDeviceGetCount = lambda: 1
    assert Clocks().settings()["uuid"] == "GPU-aa"


def test_without_the_library_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    clocks = Clocks("GPU-aa")
    assert clocks.read() is None
    assert clocks.driver is None
    assert set(clocks.settings().values()) == {None}
