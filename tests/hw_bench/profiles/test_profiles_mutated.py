"""Damaged files: whatever is done to a valid file, reading it gives a table or an `SmlabError` of one
line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profiler_formats import write_ncu_long, write_nvprof
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles import (
    atomic_quantities,
    read_profile,
    write_ncu_wide,
)
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterRow, CounterTable

GPU = load_gpu("v100")

WHOLE = {
    "smsp__inst_executed_op_shared_atom.sum": (1234.0, "inst"),
    "smsp__inst_executed_op_shared_atom_dot_cas.sum": (34.0, "inst"),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum": (4321.0, ""),
    "sm__cycles_elapsed.max": (56789.25, "cycle"),
    "sm__warps_active.avg.per_cycle_active": (7.5, "warp"),
    "dram__bytes.sum.per_second": (1.5e11, "byte/second"),
}


def _table(launches: int, sms: int) -> CounterTable:
    rows = []
    for launch in range(launches):
        for sm in range(sms):
            for name, value, unit in (
                ("shared_atom", 12.0, "inst"),
                ("shared_atom_cas", 3.0, "inst"),
                ("active_cycles", 999.0, "cycle"),
                ("active_warps", 7777.0, "warp"),
            ):
                rows.append(CounterRow("f(int *, int)", launch, sm, name, value, unit))
        rows += [CounterRow("f(int *, int)", launch, WHOLE_GPU, n, v, u) for n, (v, u) in WHOLE.items()]
    return CounterTable.from_rows(rows)


SUMMARY = b"""==9== Profiling result:
==9== Event result:
"Device","Kernel","Invocations","Event Name","Min","Max","Avg"
"Tesla V100-PCIE-32GB (0)","f(int*)",2,"shared_atom",10,20,15
"Tesla V100-PCIE-32GB (0)","f(int*)",2,"shared_atom_cas",1,1,1
==9== Metric result:
"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"
"Tesla V100-PCIE-32GB (0)","f(int*)",2,"achieved_occupancy","Achieved Occupancy",0.5,0.5,0.500000
"Tesla V100-PCIE-32GB (0)","f(int*)",2,"dram_read_throughput","Device Memory Read",1.0GB/s,2.0GB/s,1.5GB/s
"""


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("originals")
    path = folder / "x.csv"
    found = [SUMMARY]
    for write in (write_ncu_long, write_ncu_wide, write_nvprof):
        write(_table(3, 0), path, gpu=GPU)
        found.append(path.read_bytes())
    write_nvprof(_table(2, 3), path)
    found.append(path.read_bytes())
    _table(2, 2).write_csv(path)
    found += [path.read_bytes(), b"==PROF== Connected\nhello\n" + found[1], gzip.compress(found[1], mtime=0)]
    return found


SPLICES = (
    b",",
    b'"',
    b"\n",
    b"\0",
    b"\xff",
    b"-1",
    b"9" * 30,
    b"nan",
    b"1e999",
    b"==",
    b"%",
    b"1,5",
    b'"ID",',
    b" (7)",
    b"[",
)


@st.composite
def mutations(draw: st.DrawFn, data: bytes) -> bytes:
    """The data with one to three byte flips, splices, deletions, cuts, or a column or a line taken out or
    doubled."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        match draw(st.sampled_from(("flip", "splice", "delete", "cut", "column", "line", "double"))):
            case "flip":
                data = data[:at] + bytes([draw(st.integers(0, 255))]) + data[at + 1 :]
            case "splice":
                data = data[:at] + draw(st.sampled_from(SPLICES)) + data[at:]
            case "delete":
                data = data[:at] + data[at + draw(st.integers(1, 40)) :]
            case "cut":
                data = data[:at]
            case "column":
                column = draw(st.integers(0, 14))
                rows = [line.split(b",") for line in data.split(b"\n")]
                data = b"\n".join(b",".join(c for i, c in enumerate(r) if i != column) for r in rows)
            case action:
                lines = data.split(b"\n")
                i = draw(st.integers(0, len(lines) - 1))
                lines[i : i + 1] = [] if action == "line" else [lines[i]] * 2
                data = b"\n".join(lines)
    return data


def _assert_survives(originals: list[bytes], data: st.DataObject, folder: Path) -> None:
    original = originals[data.draw(st.integers(0, len(originals) - 1))]
    path = folder / "mutated.csv"
    path.write_bytes(data.draw(mutations(original)))
    gpu = data.draw(st.sampled_from((None, GPU)))
    try:
        profile = read_profile(path, gpu=gpu)
        assert len(profile.rows) == len(profile.table)
        quantities = atomic_quantities(profile, gpu)
        assert (quantities.cas_jobs <= quantities.jobs).all()
        assert ((quantities.elapsed_cycles > 0) | (quantities.jobs == 0)).all()
    except SmlabError as error:
        told = str(error)
    else:
        return
    assert told.startswith(str(path))
    assert "\n" not in told


quick = settings(
    max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


@quick
@given(st.data())
def test_a_damaged_file_gives_a_table_or_one_line(
    originals: list[bytes], tmp_path: Path, data: st.DataObject
) -> None:
    _assert_survives(originals, data, tmp_path)


@pytest.mark.thorough
@settings(quick, max_examples=20_000)
@given(st.data())
def test_twenty_thousand_damaged_files(originals: list[bytes], tmp_path: Path, data: st.DataObject) -> None:
    _assert_survives(originals, data, tmp_path)
