"""Readers of auto-tuners' results: KTT, Kernel Tuner's cache, T4; small files written here, and the real
ones."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smlab.hw_bench.datasets.kernel_tuner import read_kernel_tuner_folder, read_search
from smlab.hw_bench.datasets.ktt import read_ktt, read_ktt_folder
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.profiles.work.roofline_quantities import roofline_quantities

COUNTERS = {
    "dram__sectors_read.sum": 10.0,
    "dram__sectors_write.sum": 20.0,
    "lts__t_sectors_op_read.sum": 100.0,
    "lts__t_sectors_op_write.sum": 50.0,
    "smsp__inst_executed.sum": 1000.0,
    "sm__warps_active.avg.pct_of_peak_sustained_active": 50.0,
}


def computation(**changed: Any) -> dict[str, Any]:
    return {
        "KernelFunction": "k",
        "Duration": 250.0,
        "GlobalSize": {"X": 64, "Y": 2, "Z": 1},
        "LocalSize": {"X": 32, "Y": 4, "Z": 1},
        "CompilationData": {"RegistersCount": 40, "LocalMemorySize": 2048, "PrivateMemorySize": 0},
        "ProfilingData": {
            "Counters": [{"Name": n, "Value": v, "Type": "Double"} for n, v in COUNTERS.items()]
        },
        **changed,
    }


def result(a: int, status: str = "Ok", *computed: dict[str, Any]) -> dict[str, Any]:
    return {
        "Configuration": [{"Name": "A", "Value": a}, {"Name": "B", "Value": 1}],
        "ComputationResults": list(computed),
        "Status": status,
    }


KTT: dict[str, Any] = {
    "Metadata": {
        "Device": "NVIDIA GeForce RTX 2080 Ti",
        "TimeUnit": "Microseconds",
        "GlobalSizeType": "CUDA",
    },
    "Results": [
        result(1, "Ok", computation()),
        result(2, "ComputationFailed"),
        result(3, "Ok", computation(Duration=100.0, ProfilingData={})),
    ],
}


def written(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_ktt_gives_times_launches_and_the_counter_table(tmp_path: Path) -> None:
    found = read_ktt(written(tmp_path / "a.json", KTT))
    assert found.device == "NVIDIA GeForce RTX 2080 Ti"
    assert found.labels() == ["k A=1, B=1", "k A=3, B=1"]
    assert found.seconds == pytest.approx([250e-6, 100e-6])
    assert (found.blocks[0], found.threads_per_block[0]) == (128, 128)
    assert (found.registers_per_thread[0], found.shared_bytes_per_block[0]) == (40, 2048)
    assert found.failed == (("A=2, B=1", "ComputationFailed"),)
    assert found.column("A").tolist() == [1, 3]
    assert found.counters is not None
    assert set(found.counters.launch.tolist()) == {0}, "only what was profiled has counters"
    value = found.counters.value_of
    assert value("dram__bytes_read.sum") == 320
    assert value("lts__t_bytes_op_write.sum") == 1600
    assert value("smsp__inst_executed.sum") == 1000
    assert value("launch__grid_size") == 128
    work = roofline_quantities(found.profile()).work
    assert (work.dram_bytes[0], work.l2_bytes[0], work.seconds[0]) == (960, 4800, 250e-6)
    assert work.registers_per_thread[0] == 40


def test_ktt_of_opencl_counts_threads_not_blocks(tmp_path: Path) -> None:
    content = copy.deepcopy(KTT)
    content["Metadata"]["GlobalSizeType"] = "OpenCL"
    assert read_ktt(written(tmp_path / "a.json", content)).blocks[0] == 1


def test_times_are_in_the_units_of_the_file(tmp_path: Path) -> None:
    for unit, seconds in (("Milliseconds", 0.25), ("Nanoseconds", 250e-9), ("Seconds", 250.0)):
        content = copy.deepcopy(KTT)
        content["Metadata"]["TimeUnit"] = unit
        assert read_ktt(written(tmp_path / "a.json", content)).seconds[0] == pytest.approx(seconds)


CACHE: dict[str, Any] = {
    "device_name": "NVIDIA RTX A4000",
    "kernel_name": "conv",
    "tune_params_keys": ["block_size_x", "block_size_y", "w"],
    "cache": {
        "16,2,1": {"block_size_x": 16, "block_size_y": 2, "w": 1, "time": 2.0, "times": [3.0, 2.0, 1.0]},
        "16,2,2": {"block_size_x": 16, "block_size_y": 2, "w": 2, "time": "RuntimeFailedConfig"},
        "32,2,2": {"block_size_x": 32, "block_size_y": 2, "w": 2, "time": 4.0},
    },
}
T4: dict[str, Any] = {
    "schema_version": "1.0.0",
    "metadata": {"timeunit": "miliseconds"},
    "results": [
        {"configuration": {"a": 1}, "times": {"runtimes": [3.0, 2.0, 1.0]}, "invalidity": "correct"},
        {"configuration": {"a": 2}, "times": {"runtimes": []}, "invalidity": "compile"},
    ],
}


def test_a_cache_file_keeps_the_runs_in_order(tmp_path: Path) -> None:
    found = read_search(written(tmp_path / "a.json", CACHE))
    assert found.device == "NVIDIA RTX A4000"
    assert found.runs[0] == pytest.approx((3e-3, 2e-3, 1e-3))
    assert found.seconds == pytest.approx([2e-3, 4e-3])
    assert found.threads_per_block.tolist() == [32, 64]
    assert found.failed[0][1] == "RuntimeFailedConfig"
    with pytest.raises(SmlabError, match="no profiler's counters"):
        found.profile()


def test_a_cache_file_of_a_search_that_was_cut_off_is_read(tmp_path: Path) -> None:
    """Kernel Tuner leaves the file open: its last line ends with a comma, the two brackets are missing."""
    text = json.dumps(CACHE).rstrip("}") + "},"
    path = tmp_path / "open.json"
    path.write_text(text)
    assert len(read_search(path)) == 2


def test_t4(tmp_path: Path) -> None:
    found = read_search(written(tmp_path / "a.json", T4))
    assert found.seconds == pytest.approx([2e-3])
    assert found.failed == (("a=2", "compile"),)
    assert (read_search(tmp_path / "a.json").parameters, found.device) == (("a",), "")


def test_rows_are_taken_without_their_counters(tmp_path: Path) -> None:
    found = read_ktt(written(tmp_path / "a.json", KTT)).take([1])
    assert (found.labels(), found.counters) == (["k A=3, B=1"], None)
    with pytest.raises(SmlabError, match="no such tuning parameter .*'C'.*one of A, B"):
        found.column("C")


def changed(content: dict[str, Any], *path: Any, to: Any = None) -> dict[str, Any]:
    copied = copy.deepcopy(content)
    holder = copied
    for step in path[:-1]:
        holder = holder[step]
    if to is None:
        del holder[path[-1]]
    else:
        holder[path[-1]] = to
    return copied


ONE = ("Results", 0, "ComputationResults", 0)
BAD = {
    "no results": (changed(KTT, "Results"), "Results: is missing"),
    "no device": (changed(KTT, "Metadata", "Device"), "Metadata: Device: is missing"),
    "an unknown unit": (changed(KTT, "Metadata", "TimeUnit", to="Weeks"), "unknown unit of time .*'Weeks'"),
    "no time": (changed(KTT, *ONE, "Duration"), "result 0.*Duration: unusable time"),
    "a time below 0": (changed(KTT, *ONE, "Duration", to=-1.0), r"result 0.*unusable time .*'-1.0'"),
    "no block": (changed(KTT, *ONE, "LocalSize", "X", to=0), "result 0.*LocalSize: unusable size"),
    "other parameters": (
        changed(KTT, "Results", 2, "Configuration", 0, "Name", to="Z"),
        "result 2: other parameters than the first result",
    ),
    "a counter that is a word": (
        changed(KTT, *ONE, "ProfilingData", "Counters", 0, "Value", to="many"),
        "result 0.*dram__sectors_read.sum: Value: unusable value",
    ),
    "nothing ran": (changed(KTT, "Results", to=[result(1, "ComputationFailed")]), "no configuration ran"),
    "a list": ([1], "Results: is missing"),
}


@pytest.mark.parametrize(("content", "message"), BAD.values(), ids=BAD)
def test_what_ktt_never_writes_is_refused_in_one_line(tmp_path: Path, content: Any, message: str) -> None:
    path = written(tmp_path / "bad.json", content)
    with pytest.raises(SmlabError, match=message) as caught:
        read_ktt(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


FIRST = ("cache", "16,2,1")
BAD_SEARCH = {
    "no cache": (changed(CACHE, "cache"), "cache: is missing"),
    "a parameter missing": (changed(CACHE, *FIRST, "w"), "configuration 16,2,1: w: is missing"),
    "no time": (changed(CACHE, *FIRST, "times", 1, to="x"), "configuration 16,2,1.*unusable time"),
    "no results": (changed(T4, "results"), "results: is missing"),
    "no runtimes": (
        changed(T4, "results", 0, "times", to={"a": 1}),
        "result 0: times: runtimes: is missing",
    ),
    "an empty list": (
        changed(T4, "results", 0, "times", "runtimes", to=[]),
        "result 0: runtimes: no time in it",
    ),
}


@pytest.mark.parametrize(("content", "message"), BAD_SEARCH.values(), ids=BAD_SEARCH)
def test_what_kernel_tuner_never_writes_is_refused(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(SmlabError, match=message):
        read_search(written(tmp_path / "bad.json", content))


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("a.json", b"\xff\xfe", "cannot be read"),
        ("a.json", b'{"Results": [', "line 1: is not JSON"),
        ("a.json.gz", b"\x1f\x8b\x00", "damaged gzip"),
        ("a.json", b"[" * 100_000, "is not JSON"),
    ],
)
def test_files_that_are_no_json(tmp_path: Path, name: str, raw: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(raw)
    with pytest.raises(SmlabError, match=message):
        read_ktt_folder(tmp_path)


def test_folders(tmp_path: Path) -> None:
    with pytest.raises(SmlabError, match="no JSON file in it"):
        read_ktt_folder(tmp_path)
    with pytest.raises(SmlabError, match="no such file or folder"):
        read_kernel_tuner_folder(tmp_path / "none")
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(json.dumps(CACHE).encode()))
    written(tmp_path / "a.json", T4)
    assert [len(found) for found in read_kernel_tuner_folder(tmp_path)] == [1, 2]


def test_the_real_searches(shared_data: Path) -> None:
    here, there = read_ktt_folder(shared_data / "tuning" / "ktt-convolution")
    assert (here.device, there.device) == ("NVIDIA GeForce RTX 2080 Ti", "NVIDIA GeForce RTX 3090")
    assert (len(here), len(here.failed)) == (5280, 1488)
    assert (len(there), there.counters) == (3080, None)
    assert set(there.labels()) <= set(here.labels())
    work = roofline_quantities(here.profile()).work
    assert len(work) == 5280
    assert np.isfinite(work.dram_bytes).all()
    found = {f.path.name: f for f in read_kernel_tuner_folder(shared_data / "tuning" / "kernel-tuner")}
    a100, t4 = found["convolution_milo_A100.json.gz"], found["convolution_milo_A100_T4.json.gz"]
    assert a100.runs == t4.runs, "one search in two formats"
    assert {len(runs) for runs in a100.runs} == {32}
