"""The simulator as a system: what a point answers is what `simulate` and the estimators say."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.models import ServiceTable
from smlab.models.utilization.closed_estimator import estimate_closed
from smlab.sim import Record, simulate
from smlab.sim.machine import machine_from
from smlab.sim.service_table import service_table
from smlab.sim.workloads.atomics_benchmark import atomics as atomics_kernel
from smlab.sim.workloads.histogram import histogram, share_of
from smlab.validation.experiments.design.study import Study
from smlab.validation.experiments.systems.simulator import estimates
from smlab.validation.service_tables import StudyTables

Make = Callable[..., Study]

ASKED = '"cycles", "utilization", "n_mean", "jobs", "instructions_per_cycle", "resident_warps"'


def test_a_point_is_a_simulation(atomics: Make) -> None:
    study = atomics(('"cycles", "utilization", "speedup"', ASKED))
    found = dict(
        zip(study.system.responses, study.system.answer(study.settings((8, 2)), 0).responses, strict=True)
    )
    gpu = load_gpu("v100").with_values({"atomic.queue_entries": 2}, "assumed: a test")
    direct = simulate(atomics_kernel(warps=8, iterations=3), gpu, keep=Record.TOTALS)
    assert found["cycles"] == direct.cycles
    assert found["utilization"] == direct.atomic.utilization
    assert found["n_mean"] == direct.atomic.n_mean
    assert found["jobs"] == direct.atomic.jobs == 24
    assert found["instructions_per_cycle"] == direct.warp_instructions / direct.cycles
    assert 0 < found["resident_warps"] <= 8


def test_both_engines_answer_the_same(atomics: Make) -> None:
    answers = [
        atomics(("set.iterations = 3", f'engine = "{engine}"\nset.iterations = 3'), ('"speedup"', '"stalls"'))
        for engine in ("compiled", "simpy")
    ]
    one, other = (study.system.answer(study.settings((8, 2)), 0).responses for study in answers)
    assert one == other


def test_a_workload_made_for_a_gpu_gets_it(atomics: Make) -> None:
    study = atomics(
        ('workload = "atomics"', 'workload = "histogram"'),
        ("set.iterations = 3", "set.pixels = 8192\nset.sms = 2"),
        ("warps = [1, 2, 8]", "threads = [64, 256]"),
        ("gpu.atomic.queue_entries = [2, 8]", 'gpu = ["v100", "a100-40"]'),
    )
    for name in ("v100", "a100-40"):
        gpu = load_gpu(name)
        direct = simulate(
            histogram(gpu, pixels=8192, sms=2, threads=64), share_of(gpu, 2), keep=Record.TOTALS
        )
        assert study.system.answer(study.settings((64, name)), 0).responses[0] == direct.cycles


def test_a_system_travels(atomics: Make) -> None:
    study = atomics()
    first = study.system.answer(study.settings((8, 2)), 0)
    other = pickle.loads(pickle.dumps(study.system))
    assert other.answer(study.settings((8, 2)), 0).responses == first.responses
    assert other.identity() == study.system.identity()
    assert len(pickle.dumps(study.system)) < 100_000  # it goes with every chunk


@pytest.mark.parametrize(
    ("gpu", "keys", "op"),
    [
        ("v100", {"warps": 6, "iterations": 12, "same_word": 8, "returns": True}, "add"),
        ("v100", {"warps": 6, "iterations": 12, "cas_warps": 2}, "add"),
        ("a100-40", {"warps": 5, "iterations": 9, "op": "popc-inc", "same_word": 4}, "popc-inc"),
    ],
)
def test_estimates_are_those_of_whole_service_tables(gpu: str, keys: dict[str, Any], op: str) -> None:
    # Only the part of a table that a kernel needs is simulated; the estimate must not tell.
    description = load_gpu(gpu)
    result = simulate(atomics_kernel(**keys), description, keep=Record.TOTALS)
    found = estimates(result, machine_from(description), op, StudyTables(), ("occupancy", "closed"))
    (sm,) = result.sms
    most = range(1, keys["warps"] + 1)
    cas = None if "cas_warps" in keys else [0]
    batch, looped = (
        ServiceTable(service_table(description, op=op, form=form, jobs=most, cas_jobs=cas))
        for form in ("batch", "looped")
    )
    warps = sm.resident_warp_cycles / sm.active_cycles
    e, share = sm.atomic_passes / sm.atomic_completions, sm.atomic_cas_jobs / sm.atomic_completions
    occupancy = sm.atomic_completions * batch.service_cycles(warps, e, warps * share) / result.cycles
    closed = estimate_closed([sm.atomic_completions], [sm.active_cycles], [warps], [e], [share], looped)
    assert found["occupancy"] == pytest.approx(float(occupancy), rel=1e-12)
    expected = float(closed.utilization[0]) * sm.active_cycles / result.cycles
    assert found["closed"] == pytest.approx(expected, rel=1e-9)


def test_errors_are_estimate_less_truth(atomics: Make) -> None:
    asked = (
        '"utilization", "utilization_closed", "error_closed_points", "utilization_occupancy", '
        '"error_occupancy_points"'
    )
    study = atomics(('"cycles", "utilization", "speedup"', asked))
    truth, closed, closed_error, occupancy, occupancy_error = study.system.answer(
        study.settings((8, 2)), 0
    ).responses
    assert closed_error == pytest.approx(100 * (closed - truth))
    assert occupancy_error == pytest.approx(100 * (occupancy - truth))
    assert occupancy_error != closed_error


def test_a_kernel_without_atomics_has_nothing_to_estimate(atomics: Make, tmp_path: Path) -> None:
    (tmp_path / "plain.toml").write_text(
        '[kernel]\nwarps_per_block = 2\n[[program]]\nbody = [{ loop = 5, body = [{ op = "int32" }] }]\n'
    )
    study = atomics(
        ('workload = "atomics"', 'workload = "plain.toml"'),
        ("set.iterations = 3", ""),
        ("warps = [1, 2, 8]", "program.0.body.0.loop = [1, 2]"),
        (
            '"cycles", "utilization", "speedup"',
            '"utilization", "utilization_closed", "error_closed_points", "e_mean"',
        ),
    )
    assert study.system.answer(study.settings((2, 8)), 0).responses == (0.0, 0.0, 0.0, 0.0)


def test_two_kinds_of_fetch_and_op_have_no_estimate(atomics: Make, tmp_path: Path) -> None:
    (tmp_path / "mixed.toml").write_text(
        "[kernel]\nwarps_per_block = 2\nshared_bytes_per_block = 4096\n"
        '[[program]]\nbody = [{ op = "atomic-add" }, { op = "atomic-popc-inc" }]\n'
    )
    with pytest.raises(SmlabError, match="base: cannot run: .*no service table holds two kinds"):
        atomics(
            ('gpu = "v100"', 'gpu = "a100-40"'),
            ('workload = "atomics"', 'workload = "mixed.toml"'),
            ("set.iterations = 3", ""),
            ("warps = [1, 2, 8]", "kernel.warps_per_block = [1, 2]"),
            ('"utilization"', '"utilization_closed"'),
        )


def test_stalls_and_shares_are_of_resident_cycles(atomics: Make) -> None:
    study = atomics(('"cycles", "utilization", "speedup"', '"stalls"'))
    shares = np.array(study.system.answer(study.settings((8, 2)), 0).responses)
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1)
