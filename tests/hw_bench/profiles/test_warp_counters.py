"""Requests and warp states beside the atomics, of any kind of counter; samples at the atomics."""

from pathlib import Path

import numpy as np
import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles import UNKNOWN_UNIT, Profile, as_profile, atomic_quantities, how
from smlab.hw_bench.profiles.atomics.atomic_samples import atomic_samples
from smlab.hw_bench.profiles.atomics.warp_counters import PathCounters, path_counters
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterRow, CounterTable
from smlab.hw_bench.profiles.pc_samples.sample_files import read_samples
from smlab.hw_bench.profiles.pc_samples.samples import REASONS

GPU = load_gpu("v100")
ATOMIC = {
    "smsp__inst_executed_op_shared_atom.sum": 4000.0,
    "smsp__inst_executed_op_shared_atom_dot_cas.sum": 0.0,
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum": 8000.0,
    "sm__cycles_elapsed.max": 1e5,
    "sm__cycles_active.avg": 9e4,
    "sm__warps_active.avg.per_cycle_active": 16.0,
}
STATES = {"short_scoreboard": 4.0, "long_scoreboard": 2.0, "mio_throttle": 1.0, "lg_throttle": 0.0}
OTHERS = {"barrier": 1.0, "not_selected": 0.5, "wait": 0.5}


def read(counters: dict[str, float]) -> PathCounters:
    rows = [CounterRow("k", 0, WHOLE_GPU, name, value, UNKNOWN_UNIT) for name, value in counters.items()]
    profile: Profile = as_profile(CounterTable.from_rows(rows))
    return path_counters(profile, atomic_quantities(profile, GPU))


@pytest.mark.parametrize(
    ("pattern", "selected"),
    [
        ("smsp__average_warps_issue_stalled_{}_per_issue_active.ratio", None),
        ("smsp__average_warp_latency_issue_stalled_{}.ratio", 1.0),
        ("smsp__warp_issue_stalled_{}_per_warp_active.pct", 1.0),
    ],
)
def test_states_are_shares_from_any_kind_of_counter(pattern: str, selected: float | None) -> None:
    given = {**STATES, **OTHERS, **({} if selected is None else {"selected": selected})}
    found = read({**ATOMIC, **{pattern.format(name): value for name, value in given.items()}}).states
    assert set(found) == set(REASONS)
    assert found["short_scoreboard"][0] == pytest.approx(0.4)
    assert found["selected"][0] == pytest.approx(0.1)  # one warp is selected where one issues
    assert sum(share[0] for share in found.values()) == pytest.approx(1)


def test_what_is_not_collected_is_unknown_and_not_zero() -> None:
    found = read({**ATOMIC, "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": 1.0})
    assert np.isnan(found.states["short_scoreboard"]).all()
    assert np.isnan(found.requests["shared_loads"]).all()


def test_requests_take_the_counters_of_either_name_and_wavefronts_are_added_up() -> None:
    waves = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
    other = {"smsp__inst_executed_op_shared_ld.sum": 70.0, waves.format("ld"): 90.0, waves.format("st"): 5.0}
    found = read({**ATOMIC, **other}).requests
    assert found["shared_loads"][0] == 70
    assert found["shared_wavefronts"][0] == 95
    sass = {"smsp__sass_inst_executed_op_shared_ld.sum": 60.0}
    assert read({**ATOMIC, **other, **sass}).requests["shared_loads"][0] == 60


def test_what_how_asks_for_is_what_is_read() -> None:
    asked = {need.counter: 3.0 for need in how(GPU).counters}
    found = read({**asked, **ATOMIC})
    for values in found.requests.values():
        assert not np.isnan(values).any()
    assert not np.isnan(found.states["mio_throttle"]).any()


PAGE = """Address,Source,stall_long_sb,stall_mio,stall_short_sb,stall_selected
0x0,"LDG.E R2, [R4]",0,0,0,5
0x10,"@P0 ATOMS.ADD R7, [R2], R3 ;",20,10,0,5
0x20,"IADD3 R8, R9, 0x1, RZ",0,0,0,5
0x30,"ATOMS.POPC.INC.32 RZ, [R2]",0,15,0,5
0x40,"IADD3 R10, R7, R8, RZ",0,0,30,5
0x50,"BRA 0x0",0,0,0,0
"""


def test_samples_at_atomics_and_where_their_results_are_read(tmp_path: Path) -> None:
    path = tmp_path / "page.csv"
    path.write_text(PAGE)
    found = atomic_samples(read_samples(path))
    assert found is not None
    assert found.samples == 100
    assert found.at_atomic == pytest.approx({"long_scoreboard": 0.2, "mio_throttle": 0.25, "selected": 0.1})
    assert found.at_result == pytest.approx({"short_scoreboard": 0.3, "selected": 0.05})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ATOMS", "ATOMG"),  # no shared-memory atomic
        ('"IADD3 R8, R9', '"IADD3 R7, R9'),  # the result is overwritten before it is read
    ],
)
def test_what_is_no_atomic_or_never_read_is_not_counted(tmp_path: Path, old: str, new: str) -> None:
    path = tmp_path / "page.csv"
    path.write_text(PAGE.replace(old, new))
    found = atomic_samples(read_samples(path))
    assert found is None if old == "ATOMS" else (found is not None and not found.at_result)
