"""Dong & Pai's table T(n, e, c), simulated: what they say of its shape (Sections 1 and 3.2, Figure 1)."""

from __future__ import annotations

import functools

import xarray as xr

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Record, simulate
from smlab.sim.service_table import service_table
from smlab.sim.workloads.atomics_benchmark import simultaneous_atomics
from smlab.validation.papers.claims.registry import Observed, quantity
from smlab.validation.papers.judging import Scale
from smlab.validation.papers.table_facts import (
    largest_bend_in_c,
    largest_ratio_on_doubling,
    largest_rise_with_n,
    least_step_with_e,
    one_block,
)
from smlab.validation.papers.table_facts import saturation_in_c as way_to_saturation


@functools.cache
def full_table(gpu: str) -> xr.DataArray:
    """T(n, e, c) for all n, e and c; 1.6 s."""
    return service_table(load_gpu(gpu))


@functools.cache
def _fetch_table(gpu: str, op: str) -> xr.DataArray:
    """T(n, e, 0)."""
    return service_table(load_gpu(gpu), op=op, cas_jobs=[0])


@quantity("service_table.spread", unit="times", evidence="simulated", scale=Scale.RATIO)
def spread(gpu: str) -> Observed:
    """Greatest over least S(n, e, 0): fetch-and-op alone, since what compare-and-swap costs is assumed."""
    table = _fetch_table(gpu, "add")
    s = table.values[:, :, 0] / table.n.values[:, None]
    return Observed.exactly(s.max() / s.min(), f"{s.min():.1f} to {s.max():.1f} cycles")


@quantity("service_table.largest_ratio_on_doubling_n", unit="", evidence="simulated", scale=Scale.RATIO)
def largest_ratio_on_doubling_n(gpu: str) -> Observed:
    """The largest S(2n) / S(n) over all n and e: below 1 where S falls over every doubling."""
    table = _fetch_table(gpu, "add")
    return Observed.exactly(largest_ratio_on_doubling(table.values[:, :, 0], table.n.values))


@quantity("service_table.largest_rise_in_n", unit="of a cycle's rounding", evidence="simulated")
def largest_rise_in_n(gpu: str) -> Observed:
    """The largest rise of S from n to n + 1, in units of 1 / n, which is what one whole cycle of T makes."""
    table = _fetch_table(gpu, "add")
    return Observed.exactly(largest_rise_with_n(table.values[:, :, 0], table.n.values))


@quantity("service_table.least_step_in_e", unit="cycles", evidence="simulated", scale=Scale.DIFFERENCE)
def least_step_in_e(gpu: str) -> Observed:
    """The least growth of T(n, e, 0) from one lane to the next."""
    return Observed.exactly(least_step_with_e(_fetch_table(gpu, "add").values[:, :, 0]))


@quantity("service_table.lanes_ratio", unit="times", evidence="simulated", scale=Scale.RATIO)
def lanes_ratio(gpu: str, jobs: int, lanes: int, over: int) -> Observed:
    """T of ``jobs`` with ``over`` lanes on a word over T with ``lanes``."""
    row = _fetch_table(gpu, "add").sel(n=jobs, c=0)
    return Observed.exactly(float(row.sel(e=over)) / float(row.sel(e=lanes)))


@quantity("service_table.bend_in_c", unit="%", evidence="simulated", scale=Scale.ERROR)
def bend_in_c(gpu: str) -> Observed:
    """How far T(n, e, c) is from a straight line in c, for n up to one block's warps, as a share of T."""
    table = one_block(full_table(gpu))
    cycles, percent = largest_bend_in_c(table.values, table.n.values)
    return Observed.exactly(percent, f"{cycles:.1f} cycles")


@quantity("service_table.saturation_in_c", unit="", evidence="simulated")
def saturation_in_c(gpu: str, jobs: int, lanes: int) -> Observed:
    """How far T has come on its way from no to only compare-and-swap jobs when half of the jobs are: 0.5
    on a line."""
    row = full_table(gpu).sel(n=jobs, e=lanes).values
    return Observed.exactly(way_to_saturation(row, jobs))


@quantity("service_table.popc_inc_over_add", unit="", evidence="simulated", scale=Scale.RATIO)
def popc_inc_over_add(gpu: str) -> Observed:
    """The largest T of ATOMS.POPC.INC over T of ATOMS.ADD, over all n and e on one word."""
    inc, add = (_fetch_table(gpu, op).values[:, :, 0] for op in ("popc-inc", "add"))
    ratio = inc / add
    return Observed.exactly(ratio.max(), f"least {ratio.min():.2f}")


@quantity("service_table.load_of_a_batch", unit="", evidence="simulated")
def load_of_a_batch(gpu: str, jobs: int, lanes: int, queue: str) -> Observed:
    """The mean number of jobs in the unit while a batch is served, over the batch's size.

    ``queue``: ``described``, as in the GPU's description, or ``unbounded``, room for all jobs.
    """
    description = load_gpu(gpu)
    if queue == "unbounded":
        # The jobs wait in their sub-cores until the data stage takes them.
        description = description.with_values({"mio.queue_entries": jobs}, source="assumed: room for all")
    result = simulate(simultaneous_atomics(jobs, "add", lanes), description, keep=Record.TOTALS)
    return Observed.exactly(
        result.atomic.n_busy_mean / jobs, f"{result.atomic.n_busy_mean:.1f} of {jobs} jobs, queue {queue}"
    )


@quantity("service_table.batch_over_kept", unit="times", evidence="simulated", scale=Scale.RATIO)
def batch_over_kept(gpu: str, jobs: int, lanes: int) -> Observed:
    """S(n) of a batch over S(n) with n jobs kept circulating (the looped form of the table)."""
    batch, looped = (
        float(service_table(load_gpu(gpu), form=form, jobs=[jobs], lanes=[lanes], cas_jobs=[0]).item())
        for form in ("batch", "looped")
    )
    return Observed.exactly(batch / looped, f"{batch / jobs:.1f} and {looped / jobs:.1f} cycles a job")
