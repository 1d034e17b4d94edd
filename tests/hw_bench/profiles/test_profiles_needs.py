"""What the model needs of a profile, how it is derived, and how each thing that is wrong with one is told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from profiler_formats import write_ncu_long
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles import AtomicQuantities, atomic_quantities, how, read_profile
from smlab.hw_bench.profiles.atomics import required_counters
from smlab.hw_bench.profiles.atomics.required_counters import how_for
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterRow, CounterTable

A100, V100 = load_gpu("a100-40"), load_gpu("v100")

FULL = {
    required_counters.JOBS: (1000.0, "inst"),
    required_counters.CAS: (100.0, "inst"),
    required_counters.WAVEFRONTS: (4000.0, ""),
    required_counters.LANES: (31.0, ""),
    required_counters.ELAPSED: (5000.0, "cycle"),
    required_counters.ACTIVE: (4000.0, "cycle"),
    required_counters.WARPS: (16.0, "warp"),
}


def quantities(tmp_path: Path, counters: dict, gpu=A100) -> AtomicQuantities:
    path = tmp_path / "x.csv"
    rows = [CounterRow("k", 0, WHOLE_GPU, c, v, u) for c, (v, u) in counters.items()]
    write_ncu_long(CounterTable.from_rows(rows), path, gpu=gpu)
    return atomic_quantities(read_profile(path), gpu)


def test_all_there(tmp_path: Path) -> None:
    q = quantities(tmp_path, FULL)
    assert len(q) == 1
    assert (q.sm[0], q.sms[0], q.jobs[0], q.cas_jobs[0]) == (WHOLE_GPU, 108, 1000, 100)
    assert (q.wavefronts[0], q.thread_operations[0]) == (4000, 31000)
    assert (q.elapsed_cycles[0], q.active_cycles[0], q.mean_active_warps[0]) == (5000, 4000, 16)
    assert "jobs: executed; cas_jobs: executed" in q.derivation[0]


@pytest.mark.parametrize(
    ("without", "instead", "quantity", "value", "told"),
    [
        (required_counters.JOBS, {required_counters.ALU: (900.0, "inst")}, "jobs", 1000, "jobs: alu + cas"),
        (
            required_counters.CAS,
            {required_counters.ALU: (930.0, "inst")},
            "cas_jobs",
            70,
            "cas_jobs: jobs - alu",
        ),
        (
            required_counters.WAVEFRONTS,
            {required_counters.CONFLICTS: (500.0, "")},
            "wavefronts",
            1500,
            "wavefronts: jobs + bank conflicts",
        ),
        (
            required_counters.ELAPSED,
            {"smsp__cycles_elapsed.avg": (77.0, "cycle")},
            "elapsed_cycles",
            77,
            "smsp__cycles_elapsed.avg",
        ),
        (
            required_counters.ELAPSED,
            {
                "gpu__time_duration.sum": (1e-3, "second"),
                "sm__cycles_elapsed.avg.per_second": (1e9, "cycle/second"),
            },
            "elapsed_cycles",
            1e6,
            "gpu__time_duration.sum x",
        ),
        (
            required_counters.ACTIVE,
            {"sm__cycles_active.sum": (108e3, "cycle")},
            "active_cycles",
            1000,
            "sm__cycles_active.sum / SMs",
        ),
        (required_counters.ACTIVE, {}, "active_cycles", 5000, "active_cycles: elapsed cycles"),
        (
            required_counters.WARPS,
            {required_counters.WARPS_PERCENT: (25.0, "%")},
            "mean_active_warps",
            16,
            "x warps that an SM can hold",
        ),
    ],
)
def test_fallbacks(
    tmp_path: Path, without: str, instead: dict, quantity: str, value: float, told: str
) -> None:
    q = quantities(tmp_path, {**{k: v for k, v in FULL.items() if k != without}, **instead})
    assert getattr(q, quantity)[0] == pytest.approx(value)
    assert told in q.derivation[0]


def test_on_sm_89_the_sass_counter_is_believed(tmp_path: Path) -> None:
    text = '"ID","Kernel Name","CC","Metric Name","Metric Unit","Metric Value"\n'
    counters = {**FULL, "sm__sass_inst_executed_op_shared_atom.sum": (400.0, "inst")}
    text += "".join(f'"0","k","8.9","{c}","{u}","{v}"\n' for c, (v, u) in counters.items())
    text += '"0","k","8.9","device__attribute_multiprocessor_count","","60"\n'
    path = tmp_path / "x.csv"
    path.write_text(text)
    q = atomic_quantities(read_profile(path))
    assert (q.jobs[0], q.cas_jobs[0], q.sms[0]) == (400, 40, 60)
    assert "jobs: sass; cas_jobs: executed x sass / all executed" in q.derivation[0]


def test_each_sm_and_launches_with_nothing_to_estimate(tmp_path: Path) -> None:
    text = "Device,Context,Stream,Kernel," + ",".join(
        f"{c} ({s})"
        for s in (0, 1)
        for c in (
            "shared_atom",
            "shared_atom_cas",
            "active_cycles",
            "active_warps",
            "inst_executed",
            "thread_inst_executed",
        )
    )
    text += (
        "\nTesla V100 (0),1,7,f,10,2,100,1600,50,1600,0,0,0,0,0,0\nTesla V100 "
        "(0),1,7,g,0,0,100,1600,50,1600,0,0,50,100,1,32\n"
    )
    text += "Tesla V100 (0),1,7,h,1,1,100,,50,1600,0,0,50,100,1,32\n"
    path = tmp_path / "x.csv"
    path.write_text(text)
    q = atomic_quantities(read_profile(path, gpu=V100), V100)
    assert q.sm.tolist() == [0, 1]
    assert q.jobs.tolist() == [12, 0]
    assert q.cas_jobs.tolist() == [2, 0]
    assert q.mean_active_warps.tolist() == [16, 0]
    assert q.thread_operations.tolist() == [384, 0]
    reasons = {s.kernel: s.reason for s in q.skipped}
    assert reasons["g"] == "no shared-memory atomics"
    assert (
        "kernel 'h', launch 2, SM 0: counter 'active_warps' is missing (collect it with: nvprof "
        in reasons["h"]
    )


def test_how_to_collect() -> None:
    for name, tool in (("a100-40", "ncu"), ("v100", "ncu"), ("v100", "nvprof"), ("h100-sxm", "ncu")):
        told = how(load_gpu(name), tool)
        assert told.tool == tool
        assert told.command.startswith(f"{tool} --csv")
        assert all(need.counter in told.command for need in told.counters)
    assert how_for("8.9").counters[0].counter == "sm__sass_inst_executed_op_shared_atom.sum"
    with pytest.raises(SmlabError, match=r"nvprof on sm_80: not supported by nvprof \(expected ncu\)"):
        how(A100, "nvprof")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {required_counters.CAS: (1001.0, "inst")},
            r"row 3: kernel 'k', launch 0: CAS jobs exceed jobs \(got 1001.0; expected at most 1000\)",
        ),
        ({required_counters.ELAPSED: (0.0, "cycle")}, r"row 6: .*an elapsed time of zero cycles"),
        ({required_counters.ACTIVE: (0.0, "cycle")}, r"row 7: .*jobs without cycles"),
        ({required_counters.WARPS: (0.0, "warp")}, r"row 8: .*jobs without active warps"),
        (
            {required_counters.ELAPSED: (5.0, "second")},
            r"row 6: counter 'sm__cycles_elapsed.max' is in another unit .*got 'second'; expected 'cycle'\)",
        ),
        ({required_counters.JOBS: (-5.0, "inst")}, r"row 2: .*impossible value \(got -5.0"),
    ],
)
def test_numbers_that_cannot_be(tmp_path: Path, change: dict, message: str) -> None:
    with pytest.raises(SmlabError, match=message):
        quantities(tmp_path, {**FULL, **change})


@pytest.mark.parametrize(
    "name", [n for n in FULL if n not in (required_counters.LANES, required_counters.ACTIVE)]
)
def test_a_missing_counter_is_named_with_the_command(tmp_path: Path, name: str) -> None:
    less = {k: v for k, v in FULL.items() if k != name and "ratio" not in k}
    with pytest.raises(
        SmlabError, match=rf"counter '{name}' is missing \(collect it with: ncu --csv .*{name}"
    ):
        quantities(tmp_path, less)


HEADER = '"ID","Kernel Name","Device","CC","Metric Name","Metric Unit","Metric Value"\n'
ROW = '"0","k","0","8.0","a__b.sum","inst","{}"\n'


OTHER = ROW.format("2").replace("8.0", "9.0").replace('"0","k"', '"1","k"')


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", r"is empty"),
        (b"  \n\n", r"is empty"),
        (b"abc\nq\0,b\n", r"row 2: is a binary file"),
        (b"SQLite format 3\0 and more", r"a profiler's database"),
        (b"\x1f\x8b\x08\0\0", r"truncated or damaged gzip"),
        (b"just text\n", r"no table of counters in it"),
        (b"==PROF== hello\n==WARNING== No kernels were profiled.\n", r"no kernels were profiled"),
        (HEADER, r"row 1: truncated: no row below the header"),
        (HEADER + ROW.format("1") + '"1","k","0","8.0","a__b.su', r"row 3: truncated: a quote is not closed"),
        (HEADER + ROW.format("1") + '"1","k","0"', r"row 3: truncated: the last row has no value"),
        (
            HEADER + ROW.format("1") + '"1","k","0","8.0","a__b.sum"',
            r"row 3: truncated: the last row has no value",
        ),
        (
            HEADER + ROW.format("1") + ROW.format("2"),
            r"row 3: counter 'a__b.sum' of launch 0 is given twice.*got 2.0; expected 1.0",
        ),
        (
            HEADER + ROW.format("1,5"),
            r"row 2: a number with a decimal comma \(got '1,5'; expected .*LC_ALL=C",
        ),
        (HEADER + ROW.format("1").replace('"0","k"', '"x","k"'), r"row 2: ID: not a launch \(got 'x'"),
        (HEADER + ROW.format("1").rstrip() + ',"more"\n', r"more cells than the header|too many cells"),
        (
            HEADER + ROW.format("1") + ROW.format("1").rstrip() + ',"more"\n',
            r"row 3: too many cells \(got 8; expected 7",
        ),
        (HEADER + ROW.format("1") + OTHER, r"mixed GPUs \(got '8.0, 9.0'"),
        (HEADER.replace('"ID",', "") + ROW.format("1"), r"row 1: no column 'ID'"),
        ("a__b.sum,dram__c.sum\n", r"no table|truncated"),
        (
            "sm__b.sum,dram__c.sum\n1,2\n3",
            r"row 3: truncated: the last row is cut off \(got '1 cells'; expected 2",
        ),
        ('"Start","Duration","Name","Correlation_ID"\nus,us,,\n', r"trace of CUDA calls"),
        ('"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n', r"summary of times"),
        (
            "Invocations      Metric Name     Metric Description\n",
            r"nvprof's text output \(expected the same with nvprof --csv",
        ),
        (
            "    Metric Name             Metric Unit Metric Value\n",
            r"ncu's text output \(expected the same with ncu --csv",
        ),
        ("kernel,launch,sm,counter,value,unit\nk,1,2\n", r"row 2: "),
        ("kernel,launch,sm,counter,value,unit\nk,99999999999999999999,2,c,1,u\n", r"row 2: .*out of range"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, data: bytes | str, message: str) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    with pytest.raises(SmlabError, match=message) as caught:
        read_profile(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_a_directory_and_no_file(tmp_path: Path) -> None:
    with pytest.raises(SmlabError, match="is a directory"):
        read_profile(tmp_path)
    with pytest.raises(SmlabError, match="there is no such file"):
        read_profile(tmp_path / "gone.csv")


def test_another_gpu(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(HEADER + ROW.format("1"))
    assert read_profile(path, gpu=A100).device.compute_capability == "8.0"
    with pytest.raises(
        SmlabError,
        match=r"the profile is of another GPU \(got 'a GPU, compute capability 8.0'; expected v100",
    ):
        read_profile(path, gpu=V100)


def test_reports_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.ncu-rep"
    path.write_bytes(b"NVR\0 and more")
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    with pytest.raises(
        SmlabError, match=r"needs ncu-report, which is not installed \(expected pip install 'smlab\[ncu\]'"
    ):
        read_profile(path)
