"""A table written as a profiler would write it, and read back, is the same table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
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
WRITERS = [write_ncu_long, write_ncu_wide, write_nvprof]


def whole(kernel: str, launch: int, jobs: float = 303.0) -> list[CounterRow]:
    values = {
        "smsp__inst_executed_op_shared_atom.sum": (jobs, "inst"),
        "smsp__inst_executed_op_shared_atom_dot_cas.sum": (15.0, "inst"),
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum": (1234567.0, ""),
        "sm__cycles_elapsed.max": (12345.0, "cycle"),
        "sm__warps_active.avg.per_cycle_active": (0.1 + 0.2, "warp"),
        "gpu__time_duration.sum": (1.1e-5, "second"),
    }
    return [CounterRow(kernel, launch, WHOLE_GPU, c, v, u) for c, (v, u) in values.items()]


def each_sm(kernel: str, launch: int) -> list[CounterRow]:
    rows = []
    for sm in range(3):
        for name, value, unit in (
            ("shared_atom", 100.0 + sm, "inst"),
            ("shared_atom_cas", 5.0, "inst"),
            ("active_cycles", 1e4, "cycle"),
            ("active_warps", 123456.0, "warp"),
            ("achieved_occupancy", 12.3456 / 64, "ratio"),
        ):
            rows.append(CounterRow(kernel, launch, sm, name, value, unit))
    return rows


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("gpu", [None, GPU])
def test_counters_of_the_whole_gpu_fit_all_formats(write, gpu, tmp_path: Path) -> None:
    table = CounterTable.from_rows([*whole("void f<int, (bool)1>(int *, const T1 *)", 0), *whole('g "x"', 1)])
    path = tmp_path / "x.csv"
    write(table, path, gpu=gpu)
    profile = read_profile(path, gpu=gpu)
    assert list(profile.table.rows()) == list(table.rows())
    again = atomic_quantities(profile, GPU)
    own = tmp_path / "own.csv"
    table.write_csv(own)
    first = atomic_quantities(read_profile(own), GPU)
    for name in ("jobs", "cas_jobs", "wavefronts", "elapsed_cycles", "mean_active_warps"):
        np.testing.assert_array_equal(getattr(again, name), getattr(first, name))


def test_counters_of_each_sm_fit_nvprof_only(tmp_path: Path) -> None:
    rows = [r for launch, k in enumerate(("f", "g")) for r in (*each_sm(k, launch), *whole(k, launch))]
    table = CounterTable.from_rows(rows)
    path = tmp_path / "x.csv"
    write_nvprof(table, path)
    assert list(read_profile(path).table.rows()) == rows
    with pytest.raises(SmlabError, match=r"has no rows of one SM .*shared_atom, SM 0.*rows of the whole GPU"):
        write_ncu_wide(table, path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5),
    st.sampled_from(WRITERS),
)
def test_values_survive_to_the_last_bit(tmp_path: Path, values: list[float], write) -> None:
    path = tmp_path / "x.csv"
    rows = [CounterRow("k", i, WHOLE_GPU, "sm__cycles_elapsed.max", v, "cycle") for i, v in enumerate(values)]
    write(CounterTable.from_rows(rows), path)
    assert read_profile(path).table.value.tolist() == values


ROW = CounterRow("k", 0, WHOLE_GPU, "sm__cycles_elapsed.max", 1.0, "cycle")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "cannot hold a table with no rows"),
        ([CounterRow("k", 0, -1, "a__b.sum", 1.0, "Kbyte")], "would give 'a__b.sum' back in 'byte'"),
        ([ROW, ROW], "is there twice"),
        ([ROW, CounterRow("j", 0, -1, "a__b.sum", 1.0, "")], "launch 0 has several"),
        ([ROW, CounterRow("k", 1, -1, ROW.counter, 1.0, "")], "is in several units"),
        ([CounterRow("k", 0, -1, "a__b.sum", float("nan"), "")], "cannot hold the value"),
        ([CounterRow("", 0, -1, "a__b.sum", 1.0, "")], "cannot hold this name"),
        ([CounterRow("k", -2, -1, "a__b.sum", 1.0, "")], "numbers launches from 0"),
    ],
)
def test_what_does_not_fit_is_refused(rows, message: str, tmp_path: Path) -> None:
    with pytest.raises(SmlabError, match=message) as caught:
        write_ncu_wide(CounterTable.from_rows(rows), tmp_path / "x.csv")
    assert str(caught.value).startswith(str(tmp_path / "x.csv"))
    assert not (tmp_path / "x.csv").exists()
