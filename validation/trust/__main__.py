"""``python -m smlab.validation.trust --out models/trust_map.json``: make the trust map anew, and the counter
maps beside it; ``--judge 100`` judges them as well, and ``--shipped --judge 28`` judges the maps at hand and
makes none. With ``--store FILE`` what is simulated is kept there as
it comes, and an interrupted run resumes."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.models.alternative_estimates import AlternativeEstimates
from smlab.models.counter_maps import CounterMaps, shipped_maps
from smlab.models.trust import MAKE, TrustMap, shipped_map
from smlab.validation.service_tables import engine_version, tables_of
from smlab.validation.trust.campaign import run_campaign
from smlab.validation.trust.families import FEW, FIT, FRESH, HELD_OUT, LAST, RANDOM, group_of
from smlab.validation.trust.fit import (
    estimate_campaign,
    fit,
    joined_alternatives,
    joined_estimates,
    truth,
)
from smlab.validation.trust.fit_maps import Known, counters_of, fit_maps, known_of
from smlab.validation.trust.judge import Reading, as_text, judge
from smlab.validation.trust.judge_sets import judge_sets, sets_as_text, told_by_set
from smlab.validation.trust.simulate import CampaignTable
from smlab.validation.trust.twins import draw_twins
from smlab.validation.work.store import Store

GPUS = ("v100", "a100-40")
FIT_SEED, JUDGE_SEED = 2026, 7102
"""Streams that share nothing: the fitting and the judging families differ, and so do their seeds."""

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
        "families_that_judge": list(HELD_OUT),
        "kernels": len(families),
        "seed": seed,
        "simulator": engine_version(),
    }
    exact = np.concatenate([truth(t) for t in tables])
    trust = fit(
        families,
        joined_estimates(estimates),
        exact,
        {"what": _TRUST, **about},
        readings=joined_alternatives(told),
    )
    few_warps = Known.joined(of_few)
    about |= {"families_of_few_warps": list(FEW), "kernels_of_few_warps": len(few_warps.own)}
    return trust, fit_maps(Known.joined(read), few_warps, {"what": _MAPS, **about})


_TRUST = (
    "quantiles of (exact - estimated) / (ceiling - floor) of the atomic unit's utilization; see "
    "models/trust.py"
)
_MAPS = "trees for utilization and gain, by set of counters; see models/counter_maps.py"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m smlab.validation.trust", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--out", type=Path, help="where to write the trust map (JSON)")
    which.add_argument("--shipped", action="store_true", help="judge the maps that come with smlab")
    parser.add_argument("--count", type=int, default=100, help="of each family and machine")
    parser.add_argument("--few", type=int, default=6, help="of each random family and machine")
    parser.add_argument("--seed", type=int, default=FIT_SEED)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--judge", type=int, default=0, help="kernels of each held-out family to judge it by")
    parser.add_argument("--store", type=Path, help="where to keep what is simulated (SQLite)")
    options = parser.parse_args(arguments)
    began = time.perf_counter()
    with ExitStack() as opened:
        store = None if options.store is None else opened.enter_context(Store(options.store))
        if options.shipped:
            _judge(options, shipped_map(), shipped_maps(), store)
            return 0
        beside = options.out.with_name("counter_maps.json")
        trust, maps = make_maps(GPUS, options.count, options.few, options.seed, options.jobs, store)
        trust.write(options.out)
        maps.write(beside)
        print(
            f"{options.out}, {beside.name}: {trust.about['kernels']} kernels in "
            f"{time.perf_counter() - began:.0f} s",
            file=sys.stderr,
        )
        if options.judge:
            _judge(options, TrustMap.read(options.out), CounterMaps.read(beside), store)
    return 0


def _judge(options: argparse.Namespace, trust: TrustMap, maps: CounterMaps, store: Store | None) -> None:
    """All that the maps are held against: kernels of families that nothing was fitted to, by machine, all
    together and those written last, by family; and twins."""
    machines = [
        ([Reading(a.name, a.weight, tables_of(gpu)) for a, gpu in load_gpu(name).variants()], name)
        for name in GPUS
    ]
    drawn, number = [], 0
    for readings, name in machines:
        for a, gpu in load_gpu(name).variants():
            table = run_campaign(
                gpu, list(HELD_OUT), options.judge, JUDGE_SEED + number, processes=options.jobs, store=store
            )
            judged = judge(table, readings, trust)
            print(f"\n{name}, {a.name}: {int(table.whole.sum())} held-out kernels\n{as_text(judged)}")
            print(sets_as_text([judge_sets(judged, maps)]))
            twins = draw_twins(gpu, options.judge, JUDGE_SEED + number)
            parts = [
                AlternativeEstimates(r.name, r.weight, estimate_campaign(twins.table, r.tables))
                for r in readings
            ]
            own = [replace(p, weight=1.0) for p in parts if p.name == a.name]
            for told, by in ((own, "by its own tables"), (parts, "by the mixture of readings")):
                each = told_by_set(twins, told, maps).items()
                print(
                    f"{len(twins.truth())} twins told apart {by}: "
                    + ", ".join(f"{w} {right:.1f} % ({off:.1f} points off)" for w, (right, off) in each)
                )
            drawn.append((table, readings))
            number += 1
    of = {"all families": list(HELD_OUT), "written before": list(FRESH), "written last": list(LAST)}
    for title, families in {**of, **{name: [name] for name in HELD_OUT}}.items():
        chosen = [(t.take(np.isin(t.family, families)), readings) for t, readings in drawn]
        print(f"\n{title}, all machines")
        print(sets_as_text([judge_sets(judge(t, readings, trust), maps) for t, readings in chosen]))


if __name__ == "__main__":
    sys.exit(main())
