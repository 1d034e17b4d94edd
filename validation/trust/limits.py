"""How well can utilization be told from counters at all? ``python -m smlab.validation.trust.limits`` (some
minutes).

A model-free guess stands in for the best estimator of all: the median place of the truth between floor and
ceiling among the nearest kernels of another campaign. It is given ever more: what the counters see; the
number of warps that wait for shared memory as well (which a profiler can count); and the exact mean number of
jobs in the unit (which nobody can). Where even that leaves an error, no estimator that works from these
numbers can do without it: the error lies in *when* the atomics come.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.models.trust import CLOSED, Features
from smlab.sim.instructions import Reason
from smlab.validation.service_tables import ServiceTables, tables_of
from smlab.validation.trust.campaign import run_campaign
from smlab.validation.trust.families import FIT, HELD_OUT
from smlab.validation.trust.fit import estimate_campaign, truth
from smlab.validation.trust.simulate import CampaignTable

Floats = NDArray[np.float64]

NEIGHBOURS = 40
GIVEN = ("what counters see", "and warps that wait for shared memory", "and the exact n")


def guesses(known: CampaignTable, asked: CampaignTable, tables: ServiceTables) -> dict[str, Floats]:
    """Absolute errors (kernels asked,) in points of the closed network and of the model-free guesses."""
    known_given, known_place, _, _ = _prepared(known, tables)
    given, _, features, exact = _prepared(asked, tables)
    closed = estimate_campaign(asked, tables).utilization[CLOSED]
    errors = {CLOSED: 100 * np.abs(closed - exact)}
    for name, columns in zip(GIVEN, (given[:, :7], given[:, :8], given), strict=True):
        pool = known_given[:, : columns.shape[1]]
        centre, scale = pool.mean(axis=0), pool.std(axis=0)
        near = cKDTree((pool - centre) / scale).query((columns - centre) / scale, k=NEIGHBOURS)[1]
        place = np.median(known_place[near], axis=1)
        guessed = features.floor + place * (features.ceiling - features.floor)
        errors[name] = 100 * np.abs(guessed - exact)
    return errors


def _prepared(table: CampaignTable, tables: ServiceTables) -> tuple[Floats, Floats, Features, Floats]:
    """What is given of each kernel (kernels, 9), where its truth lies between floor (0) and ceiling (1),
    features, truth."""
    estimates = estimate_campaign(table, tables)
    f, exact = estimates.features, truth(table)
    apart = np.maximum(f.ceiling - f.floor, 1e-6)
    n = table.n * table.elapsed_cycles / table.active_cycles
    waiting = table.states[:, [Reason.SHORT_SCOREBOARD, Reason.MIO_THROTTLE]].sum(axis=1)
    given = np.column_stack(
        [
            (estimates.utilization[CLOSED] - f.floor) / apart,
            f.floor,
            np.log(f.demand),
            np.log(f.warps),
            np.log(f.jobs_per_warp),
            np.log(f.spread),
            np.minimum(f.saturation, 1.5),
            np.log(waiting / f.demand + 0.01),
            np.log(n / f.demand),
        ]
    )
    return given, (exact - f.floor) / apart, f, exact


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m smlab.validation.trust.limits", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="kernels of each family")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    options = parser.parse_args(arguments)
    gpu = load_gpu("v100")
    tables = tables_of(gpu)

    def drawn(families: Sequence[str], seed: int) -> CampaignTable:
        table = run_campaign(gpu, families, options.count, seed, processes=options.jobs)
        return table.take(table.whole & (table.jobs > 0))

    fitted, held_out = drawn(list(FIT), 51), drawn(list(HELD_OUT), 52)
    again = drawn(list(HELD_OUT), 53)
    for title, known in (
        ("learnt on the fitting families", fitted),
        ("learnt on other kernels of the same families", CampaignTable.joined([fitted, again])),
    ):
        print(f"{title}: mean absolute error of {len(held_out)} held-out kernels, in points")
        for name, errors in guesses(known, held_out, tables).items():
            print(f"  {name:40s} {errors.mean():6.2f}  (95th percentile {np.percentile(errors, 95):.1f})")


if __name__ == "__main__":
    main()
