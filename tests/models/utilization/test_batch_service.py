"""Jobs that come several at a time: what the tables say of them is what the simulator does with them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import xarray as xr

from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.models.utilization.service_table import ServiceTable
from smlab.models.utilization.simultaneous_arrivals import MAX_BATCH, BatchService, at_size, batch_service
from smlab.sim import compiled
from smlab.sim.address_patterns import Grouped
from smlab.sim.lowering import lower
from smlab.sim.machine import machine_from
from smlab.sim.reference import Record
from smlab.sim.result import SimResult
from smlab.sim.service_table import service_table
from smlab.sim.workloads.workload import Duration, Instruction, Kernel, Loop, Program
from smlab.validation.service_tables import row_table

LANES = 6
TIMES = 20


@cache
def reading(name: str) -> Gpu:
    return {a.name: gpu for a, gpu in load_gpu("v100").variants()}[name]


@cache
def served(name: str) -> BatchService:
    """By tables of `LANES` lanes, of fetch-and-add."""
    gpu = reading(name)

    def table(form: str) -> ServiceTable:
        points = {"jobs": range(1, MAX_BATCH + 1), "lanes": range(1, LANES + 1), "cas_jobs": [0]}
        return ServiceTable(service_table(gpu, form=form, **{k: list(v) for k, v in points.items()}))

    looped = table("looped")
    alone, full = (looped.service_cycles(n, float(LANES), 0.0)[None] for n in (1.0, float(MAX_BATCH)))
    one = np.array([float(LANES)])
    return batch_service(one, np.zeros(1), alone, full, table("batch"), row_table(gpu))


def run(name: str, count: int, in_a_row: bool) -> SimResult:
    """Long pauses, and after each ``count`` atomics: of one warp in a row, or of as many that a barrier lets
    go, with results."""
    after = ("pause",) if in_a_row else ("used",)
    pause = Instruction("think", name="pause", after=after, duration=Duration(9000, "fixed"))

    def atomic(n: int, returns: bool) -> Instruction:
        return Instruction(
            "atomic-add",
            name=f"a{n}",
            after=("pause",),
            lanes=LANES,
            shared=Grouped(LANES),
            returns=returns,
        )

    if in_a_row:
        body = (pause, *(atomic(n, False) for n in range(count)))
    else:
        used = Instruction("int32", name="used", after=("a0",))
        body = (pause, Instruction("barrier", after=("pause",)), atomic(0, True), used)
    program = Program("p", (Loop(TIMES, body), Instruction("barrier")))
    warps = 1 if in_a_row else count
    kernel = Kernel("k", (program,), ((0,) * warps,), 1, shared_bytes_per_block=128)
    return compiled.run(lower(kernel, machine_from(reading(name)), 0), Record.TOTALS, threads=1)


@pytest.mark.parametrize("name", ["rounds", "two-pipes"])
@pytest.mark.parametrize("count", [2, 4, 8])
def test_the_tables_give_the_busy_time_of_jobs_together_and_in_a_row(name: str, count: int) -> None:
    for in_a_row, by_tables in ((False, served(name).batch_busy), (True, served(name).row_busy)):
        sm = run(name, count, in_a_row).sms[0]
        busy = sm.atomic_busy_cycles / sm.atomic_completions
        # In rounds the first job finds an idle unit each time, and waits for a gap in the looped table.
        assert at_size(by_tables, count)[0] == pytest.approx(busy, abs=1.6 if name == "rounds" else 0.5)


def test_only_with_two_pipes_a_row_takes_longer_than_as_many_let_go() -> None:
    both = served("rounds")
    np.testing.assert_allclose(both.row_busy, both.batch_busy[:, : both.row_busy.shape[1]], rtol=0.02)
    both = served("two-pipes")
    assert (both.row_busy[0, 1:] > 1.25 * both.batch_busy[0, 1 : both.row_busy.shape[1]]).all()


def test_how_many_come_is_told_by_how_long_they_wait() -> None:
    both = served("two-pipes")
    for count in (2, 5, 13, MAX_BATCH):
        assert both.batch_size(both.batch_response[:, count - 1])[0] == pytest.approx(count)
    assert both.batch_size(np.array([0.0]))[0] == 1
    assert both.batch_size(np.array([1e9]))[0] == MAX_BATCH


def test_tables_that_are_missing_or_short_are_done_without() -> None:
    alone, full = np.array([40.0]), np.array([10.0])
    none = batch_service(np.ones(1), np.zeros(1), alone, full, None, None)
    np.testing.assert_allclose(none.batch_busy[0, :3], [40, 25, 20])
    np.testing.assert_allclose(none.batch_response[0, :3], [40, 45, 50])
    np.testing.assert_allclose(none.row_busy, none.batch_busy[:, : none.row_busy.shape[1]])
    coords = {"n": [1, 2], "e": [1], "c": [0]}
    about = {"gpu": "made up", "op": "add", "form": "batch", "kind": "assumed"}
    cycles = np.array([50.0, 60.0])[:, None, None]
    short = ServiceTable(xr.DataArray(cycles, coords=coords, dims=("n", "e", "c"), attrs=about))
    found = batch_service(np.ones(1), np.zeros(1), alone, full, short, None)
    np.testing.assert_allclose(found.batch_busy, none.batch_busy)  # it goes on with 10 cycles a job
