"""What a simulation can be written as: counters in a profiler's form, traces for Perfetto, summaries."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterTable
from smlab.sim import Record, SimResult, atomics, counter_table, read_workload, simulate
from smlab.sim.instructions import Unit
from smlab.sim.traces.chrome_trace import trace_events, write_chrome_trace


@pytest.fixture
def result(repository: Path, engine: str) -> SimResult:
    return simulate(
        read_workload(repository / "examples" / "two_phase.toml"), load_gpu("a100-40"), keep=Record.ALL
    )


def test_counters_of_each_sm_add_up_to_those_of_the_gpu(result: SimResult) -> None:
    table = counter_table(result)
    per_sm = table.values("shared_atom")
    assert set(per_sm) == {0, 1}
    assert sum(per_sm.values()) == table.value_of("smsp__inst_executed_op_shared_atom_dot_alu.sum")
    assert table.value_of("smsp__inst_executed_op_shared_atom.sum") == 4 * 8 * (50 + 10)
    assert table.value_of("smsp__thread_inst_executed_op_shared_atom.sum") == 32 * 4 * 8 * 60
    wavefronts = table.value_of("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum")
    assert result.jobs is not None
    assert wavefronts == result.jobs.of_unit(Unit.ATOMIC).passes.sum()
    # The merge serialises 32 lanes, random bins over 1,024 words serialise three or four.
    assert 4 * 8 * (10 * 32 + 50 * 2) < wavefronts < 4 * 8 * (10 * 32 + 50 * 6)


def test_occupancy_is_the_mean_number_of_resident_warps(result: SimResult) -> None:
    table = counter_table(result)
    for sm, occupancy in table.values("achieved_occupancy").items():
        warps = result.warps
        here = warps.sm == sm
        mean = (warps.finish - warps.launch)[here].sum() / table.value_of("active_cycles", sm=sm)
        assert occupancy * load_gpu("a100-40").integer("sm.max_warps") == pytest.approx(mean)


def test_counters_survive_a_file(result: SimResult, tmp_path: Path) -> None:
    table = counter_table(result)
    table.write_csv(tmp_path / "c.csv")
    assert list(CounterTable.read_csv(tmp_path / "c.csv").rows()) == list(table.rows())
    assert WHOLE_GPU in table.sm


def test_the_trace_holds_every_state_and_job(result: SimResult, tmp_path: Path) -> None:
    write_chrome_trace(result, tmp_path / "trace.json")
    document = json.loads((tmp_path / "trace.json").read_text())
    events = document["traceEvents"]
    assert {e["ph"] for e in events} == {"M", "X", "C"}
    assert all(e["dur"] > 0 for e in events if e["ph"] == "X")
    assert result.jobs is not None
    states = [e for e in events if e["ph"] == "X" and e["tid"] < 10_000]
    assert sum(e["dur"] for e in states) == sum(result.stalls.values())
    jobs = [e for e in events if e["ph"] == "X" and e["tid"] >= 10_000]
    assert len(jobs) == len(result.jobs)
    # On each track nothing overlaps, which a viewer could not show.
    for track in {(e["pid"], e["tid"]) for e in states + jobs}:
        mine = sorted((e["ts"], e["ts"] + e["dur"]) for e in states + jobs if (e["pid"], e["tid"]) == track)
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(mine))


def test_the_counter_of_n_ends_at_zero_and_has_the_area_of_the_truth(result: SimResult) -> None:
    for sm in result.sms:
        points = [
            (e["ts"], e["args"]["n"]) for e in trace_events(result) if e["ph"] == "C" and e["pid"] == sm.sm
        ]
        times, levels = np.array(points).T
        assert levels[-1] == 0
        assert (levels[:-1] * np.diff(times)).sum() == sm.atomic_job_cycles


@pytest.mark.usefixtures("engine")
def test_a_summary_of_a_kernel_without_atomics_is_zero() -> None:
    from smlab.sim import Instruction, Kernel, Program

    result = simulate(Kernel("k", (Program("p", (Instruction("fp32"),)),), ((0,),)), load_gpu("v100"))
    assert result.atomic.jobs == 0
    assert result.atomic.utilization == 0
    assert result.atomic.service_cycles == 0


@pytest.mark.usefixtures("engine")
def test_totals_do_not_depend_on_what_is_recorded() -> None:
    kernel, gpu = atomics(warps=8, same_word=4, iterations=30, returns=True), load_gpu("v100")
    kept = [simulate(kernel, gpu, keep=k) for k in Record]
    assert kept[0].jobs is None
    assert kept[1].jobs is not None
    assert kept[1].issues is None
    assert kept[2].issues is not None
    for other in kept[1:]:
        assert other.sms == kept[0].sms
        assert other.stalls == kept[0].stalls
        assert other.cycles == kept[0].cycles
