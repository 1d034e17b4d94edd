"""Each format, on small files written by hand: what is read, what is noted, and what is listed as skipped."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles import UNKNOWN_UNIT, UNNAMED, Device, Profile, read_profile
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterRow, CounterTable
from smlab.hw_bench.profiles.units import scale, unit_of_name

LONG = """==PROF== Connected to process 42 (/home/someone/app)
Reading 1,000 numbers
==PROF== Disconnected from process 42
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Device","CC","Section Name","Metric Name",\
"Metric Unit","Metric Value","Rule Name","Rule Type","Rule Description"
"0","42","app","localhost","f<int, (bool)1>(int *)","1","7","0","7.0","s","dram__bytes.sum","Kbyte","66,048.50",
"0","42","app","localhost","f<int, (bool)1>(int *)","1","7","0","7.0","s","gpu__time_duration.sum","usecond","1,234.5",
"0","42","app","localhost","f<int, (bool)1>(int *)","1","7","0","7.0","s","sm__inst.avg.per_cycle","inst/cycle","2.5",
"0","42","app","localhost","f<int, (bool)1>(int *)","1","7","0","7.0","s","launch__config","","PreferNone",
"0","42","app","localhost","f<int, (bool)1>(int *)","1","7","0","7.0","s","","","","Occupancy","WRN","Low, ""very"" low"
==WARNING== something in between
"1","42","app","localhost","g","1","7","1","7.0","s","dram__bytes.sum","Mbyte","1",
"1","42","app","localhost","g","1","7","1","7.0","s","sm__cycles_elapsed.avg.per_second","cycle/nsecond","1.5",
"1","42","app","localhost","g","1","7","1","7.0","s","sm__cycles_active.avg","cycle","36 (5; 31)",
All done
"""


def read(tmp_path: Path, text: str | bytes, name: str = "x.csv", **options) -> Profile:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_profile(path, **options)


def rows(profile: Profile) -> list[tuple]:
    return [(r.kernel, r.launch, r.counter, r.value, r.unit) for r in profile.table.rows()]


LONG_ROWS = [
    ("f<int, (bool)1>(int *)", 0, "dram__bytes.sum", 66048500.0, "byte"),
    ("f<int, (bool)1>(int *)", 0, "gpu__time_duration.sum", 1234.5e-6, "second"),
    ("f<int, (bool)1>(int *)", 0, "sm__inst.avg.per_cycle", 2.5, "inst/cycle"),
    ("g", 1, "dram__bytes.sum", 1e6, "byte"),
    ("g", 1, "sm__cycles_elapsed.avg.per_second", 1.5e9, "cycle/second"),
    ("g", 1, "sm__cycles_active.avg", 36.0, "cycle"),
]


def test_the_long_form(tmp_path: Path) -> None:
    profile = read(tmp_path, LONG)
    assert (profile.format, profile.tool) == ("ncu-long", "ncu")
    assert rows(profile) == LONG_ROWS
    lines = LONG.splitlines()
    assert [lines[r - 1].split('"')[1] for r in profile.rows] == ["0", "0", "0", "1", "1", "1"]
    assert "Mbyte" in lines[profile.rows[3] - 1]
    assert profile.devices == (Device(None, "7.0", 0), Device(None, "7.0", 1))
    said = " | ".join(f"{s.what}: {s.reason} {s.row}" for s in profile.skipped)
    launch_config = "'launch__config': its value is text: 'PreferNone' 8"
    for expected in ("ncu's rule Occupancy WRN", launch_config, "All done", "WARNING", "instances"):
        assert expected in said


@pytest.mark.parametrize(
    "disguise",
    [
        lambda t: gzip.compress(t.encode()),
        lambda t: t.replace("\n", "\r\n").encode(),
        lambda t: b"\xef\xbb\xbf" + t.encode(),
        lambda t: t.encode("utf-16"),
    ],
    ids=["gzip", "crlf", "utf-8 mark", "utf-16"],
)
def test_the_same_in_other_clothes(tmp_path: Path, disguise) -> None:
    assert rows(read(tmp_path, disguise(LONG))) == LONG_ROWS


def test_two_runs_in_one_file_are_told_apart(tmp_path: Path) -> None:
    one = LONG[LONG.index('"ID"') :]
    profile = read(tmp_path, one + one.replace('"42"', '"43"'))
    assert profile.table.launch.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert any("numbered on" in n for n in profile.notes)
    head, *body = one.splitlines(keepends=True)
    mixed = read(tmp_path, head + "".join(body[:3]) + "".join(body[:3]).replace('"42"', '"43"'))
    assert mixed.table.launch.tolist() == [0, 0, 0, 1, 1, 1]
    assert any("numbered anew" in n for n in mixed.notes)


WIDE = """"ID","Process ID","Kernel Name","Device","CC","dram__bytes.sum","gpu__time_duration.sum","odd_one","launch__cfg"
"","","","","","Mbyte","msecond","inst",""
"0","9","f(int, int)","0","8.0","1,500.5","2","7","x"
"1","9","g","0","8.0","2","n/a","8","y"
"""


def test_the_wide_form(tmp_path: Path) -> None:
    profile = read(tmp_path, WIDE)
    assert profile.format == "ncu-wide"
    assert rows(profile) == [
        ("f(int, int)", 0, "dram__bytes.sum", 1500.5e6, "byte"),
        ("f(int, int)", 0, "gpu__time_duration.sum", 2e-3, "second"),
        ("f(int, int)", 0, "odd_one", 7.0, "inst"),
        ("g", 1, "dram__bytes.sum", 2e6, "byte"),
        ("g", 1, "odd_one", 8.0, "inst"),
    ]
    assert profile.rows.tolist() == [3, 3, 3, 4, 4]
    assert profile.device == Device(None, "8.0", 0)
    assert {s.what: s.count for s in profile.skipped if "counter" in s.what} == {
        "counter 'gpu__time_duration.sum'": 1,
        "counter 'launch__cfg'": 2,
    }


def test_a_wide_table_with_no_units_and_no_names(tmp_path: Path) -> None:
    text = "Metric Name,dram__bytes.sum,gpu__time_duration.sum,AI HBM\n0,10.0,2000.0,3.5\n1,20.0,4000.0,4.5\n"
    profile = read(tmp_path, text)
    assert rows(profile)[:3] == [
        (UNNAMED, 0, "dram__bytes.sum", 10.0, "byte"),
        (UNNAMED, 0, "gpu__time_duration.sum", 2e-6, "second"),
        (UNNAMED, 0, "AI HBM", 3.5, UNKNOWN_UNIT),
    ]
    assert any("no row of units" in n for n in profile.notes)
    assert any("AI HBM" in n for n in profile.notes)


SUMMARY = """==9== NVPROF is profiling process 9, command: ./app
==9== Event result:
"Device","Kernel","Invocations","Event Name","Min","Max","Avg"
"Tesla V100-PCIE-32GB (0)","f(int*, int)",2,"shared_atom",10,20,15
"Tesla V100-PCIE-32GB (0)","f(int*, int)",2,"active_cycles (0)",100,100,100
"Tesla V100-PCIE-32GB (0)","f(int*, int)",2,"active_cycles (1)",200,200,200
==9== Metric result:
"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"
"Tesla V100-PCIE-32GB (0)","f(int*, int)",2,"achieved_occupancy","Achieved Occupancy",0.5,0.5,0.500000
"Tesla V100-PCIE-32GB (0)","f(int*, int)",2,"dram_read_throughput","Device Memory Read Throughput",1GB/s,2GB/s,1.5GB/s
"Tesla V100-PCIE-32GB (0)","f(int*, int)",2,"gld_efficiency","Global Load Efficiency",50.00%,50.00%,50.00%
"Tesla V100-PCIE-32GB (0)","f(int*, int)",2,"dram_utilization","Device Memory Utilization",Low (1),Mid (4),Low (2)
"""


def test_nvprofs_summary(tmp_path: Path) -> None:
    profile = read(tmp_path, SUMMARY, gpu=load_gpu("v100"))
    assert (profile.format, profile.tool) == ("nvprof-summary", "nvprof")
    found = [(r.counter, r.sm, r.value, r.unit) for r in profile.table.rows()]
    assert found == [
        ("shared_atom", WHOLE_GPU, 15.0, "inst"),
        ("active_cycles", 0, 100.0, "cycle"),
        ("active_cycles", 1, 200.0, "cycle"),
        ("achieved_occupancy", WHOLE_GPU, 0.5, "ratio"),
        ("dram_read_throughput", WHOLE_GPU, 1.5 * 1024**3, "byte/second"),
        ("gld_efficiency", WHOLE_GPU, 50.0, "%"),
        ("dram_utilization", WHOLE_GPU, 2.0, "level"),
    ]
    assert profile.device.name == "Tesla V100-PCIE-32GB"
    assert any("means over a kernel's launches" in n for n in profile.notes)
    assert profile.rows.tolist() == [4, 5, 6, 9, 10, 11, 12]


TRACE = """==9== Profiling result:
"Start","Duration","Grid X","Static SMem","Device","Context","Stream","Name","Correlation_ID","shared_atom (0)","shared_atom (1)"
ms,us,,KB,,,,,,,
1.5,2.0,,,"Tesla V100-PCIE-32GB (0)","1","7","[CUDA memcpy HtoD]",1,,
2.5,3.0,8,1.5,"Tesla V100-PCIE-32GB (0)","1","7","f(int*, int)",2,11,12
3.5,4.0,8,1.5,"Tesla V100-PCIE-32GB (0)","1","7","f(int*, int)",3,13,14
"""


def test_nvprofs_trace(tmp_path: Path) -> None:
    profile = read(tmp_path, TRACE)
    assert profile.format == "nvprof-trace"
    first = [(r.counter, r.sm, r.value, r.unit) for r in profile.table.rows() if r.launch == 0]
    assert first == [
        ("Start", WHOLE_GPU, 2.5e-3, "second"),
        ("Duration", WHOLE_GPU, 3e-6, "second"),
        ("Grid X", WHOLE_GPU, 8.0, UNKNOWN_UNIT),
        ("Static SMem", WHOLE_GPU, 1536.0, "byte"),
        ("shared_atom", 0, 11.0, "inst"),
        ("shared_atom", 1, 12.0, "inst"),
    ]
    assert profile.table.values("shared_atom", launch=1) == {0: 13.0, 1: 14.0}
    assert any(s.what == "[CUDA memcpy HtoD]" for s in profile.skipped)


def test_the_simulators_own_table(tmp_path: Path) -> None:
    table = CounterTable.from_rows(
        [CounterRow('k, "x"', 3, 5, "shared_atom", 0.1, "inst"), CounterRow("k", 0, -1, "c", 1.0, "")]
    )
    path = tmp_path / "x.csv"
    table.write_csv(path)
    for name, data in (("x.csv", path.read_bytes()), ("x.csv.gz", gzip.compress(path.read_bytes()))):
        profile = read(tmp_path, data, name)
        assert (profile.format, profile.tool) == ("counter-table", "smlab")
        assert list(profile.table.rows()) == list(table.rows())


@pytest.mark.parametrize(
    ("unit", "scaled"),
    [
        ("Kbyte", (1000, 1, "byte")),
        ("nsecond", (1, 10**9, "second")),
        ("ns", (1, 10**9, "second")),
        ("cycle/usecond", (10**6, 1, "cycle/second")),
        ("Ghz", (10**9, 1, "cycle/second")),
        ("Gbyte/s", (10**9, 1, "byte/second")),
        ("byte/block", (1, 1, "byte/block")),
        ("%", (1, 1, "%")),
        ("", (1, 1, "")),
        ("sectors", (1, 1, "sector")),
    ],
)
def test_units_are_brought_to_base_units(unit: str, scaled: tuple) -> None:
    assert scale(unit) == scaled
    assert scale(scaled[2]) == (1, 1, scaled[2])


@pytest.mark.parametrize(
    ("counter", "unit"),
    [
        ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum", ""),
        ("smsp__inst_executed_op_shared_atom_dot_cas.sum", "inst"),
        ("sm__warps_active.avg.per_cycle_active", "warp"),
        ("sm__warps_active.avg.pct_of_peak_sustained_active", "%"),
        ("lts__t_sectors.sum.per_second", "sector/second"),
        ("smsp__thread_inst_executed_per_inst_executed.ratio", ""),
        ("achieved_occupancy", "ratio"),
        ("shared_atom_cas", "inst"),
        ("Time", UNKNOWN_UNIT),
    ],
)
def test_units_from_names(counter: str, unit: str) -> None:
    assert unit_of_name(counter) == unit
