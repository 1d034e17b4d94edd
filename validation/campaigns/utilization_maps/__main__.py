"""``python -m smlab.validation.campaigns.utilization_maps --out models/utilization/trust_map.json``: make the
trust map anew, and the counter maps beside it.

With ``--store FILE`` what is simulated is kept there as it comes, and an interrupted run resumes.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.models.utilization.alternative_estimates import AlternativeEstimates
from smlab.models.utilization.counter_maps import CounterMaps
from smlab.models.utilization.trust_map import MAKE, TrustMap, UtilizationEstimates
from smlab.validation.campaigns.utilization_maps.draws import run_campaign
from smlab.validation.campaigns.utilization_maps.families import FEW, FIT, RANDOM, group_of
from smlab.validation.campaigns.utilization_maps.fit import estimate_campaign, fit, joined_alternatives, truth
from smlab.validation.campaigns.utilization_maps.fit_maps import Known, counters_of, fit_maps, known_of
from smlab.validation.campaigns.utilization_maps.simulate import CampaignTable
from smlab.validation.service_tables import engine_version, tables_of
from smlab.validation.work.store import Store

GPUS = ("v100", "a100-40")
FIT_SEED = 2026

FEW_TIMES = 10
"""Kernels of each family of few warps for one of each other fitting family."""


def make_maps(
    gpus: Sequence[str], count: int, few: int, seed: int, processes: int, store: Store | None = None
) -> tuple[TrustMap, CounterMaps]:
    """Simulate ``count`` kernels of each fitting family and ``few`` of each random one on each GPU under each
    of its alternatives, and fit; for the counter maps also `FEW_TIMES` as many of each family of few warps.

    The trust map's quantiles take each kernel by the tables of its own machine. Who has counters does not
    know which alternative holds: the level of mixtures and the counter maps take it by the tables of each.
    """
    tables, estimates, told, read, of_few = [], [], [], [], []
    number, first, names = 0, 0, []
    for name in gpus:
        alternatives = load_gpu(name).variants()
        readings = [tables_of(gpu) for _, gpu in alternatives]
        for own, (alternative, gpu) in zip(readings, alternatives, strict=True):
            names.append(f"{name}, {alternative.name}")
            print(f"{names[-1]}: machine {number + 1}", file=sys.stderr)
            drawn = [
                run_campaign(gpu, families, each, seed + number, processes=processes, store=store)
                for families, each in ((list(FIT), count), (list(RANDOM), few))
            ]
            table = CampaignTable.joined(drawn)
            table = table.take(table.whole & (table.jobs > 0))
            tables.append(table)
            estimates.append(estimate_campaign(table, own))
            counters = counters_of(table)
            each = [estimate_campaign(table, r) for r in readings]
            told.append(
                [
                    AlternativeEstimates(a.name, a.weight, e)
                    for (a, _), e in zip(alternatives, each, strict=True)
                ]
            )
            read += [
                known_of(table, e, counters, first, own=r is own) for e, r in zip(each, readings, strict=True)
            ]
            small = run_campaign(
                gpu, list(FEW), FEW_TIMES * count, seed + number, processes=processes, store=store
            )
            small = small.take(small.whole & (small.jobs > 0))
            of_few.append(known_of(small, estimate_campaign(small, own), counters_of(small)))
            number, first = number + 1, first + len(table)
    families = np.array([group_of(name) for t in tables for name in t.family.tolist()], dtype=object)
    about = {
        "made_by": MAKE,
        "gpus": names,
        "families": list(FIT),
        "random_families": len(RANDOM),
        "kernels": len(families),
        "seed": seed,
        "simulator": engine_version(),
    }
    exact = np.concatenate([truth(t) for t in tables])
    trust = fit(
        families,
        UtilizationEstimates.joined(estimates),
        exact,
        {"what": _TRUST, **about},
        readings=joined_alternatives(told),
    )
    few_warps = Known.joined(of_few)
    about |= {"families_of_few_warps": list(FEW), "kernels_of_few_warps": len(few_warps.own)}
    return trust, fit_maps(Known.joined(read), few_warps, {"what": _MAPS, **about})


_TRUST = (
    "quantiles of (exact - estimated) / (ceiling - floor) of the atomic unit's utilization; see "
    "models/utilization/trust_map.py"
)
_MAPS = "trees for utilization and gain, by set of counters; see models/utilization/counter_maps.py"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m smlab.validation.campaigns.utilization_maps", description=__doc__
    )
    parser.add_argument("--out", type=Path, required=True, help="where to write the trust map (JSON)")
    parser.add_argument("--count", type=int, default=100, help="of each family and machine")
    parser.add_argument("--few", type=int, default=6, help="of each random family and machine")
    parser.add_argument("--seed", type=int, default=FIT_SEED)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--store", type=Path, help="where to keep what is simulated (SQLite)")
    options = parser.parse_args(arguments)
    began = time.perf_counter()
    with ExitStack() as opened:
        store = None if options.store is None else opened.enter_context(Store(options.store))
        beside = options.out.with_name("counter_maps.json")
        trust, maps = make_maps(GPUS, options.count, options.few, options.seed, options.jobs, store)
        trust.write(options.out)
        maps.write(beside)
        print(
            f"{options.out}, {beside.name}: {trust.about['kernels']} kernels in "
            f"{time.perf_counter() - began:.0f} s",
            file=sys.stderr,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
