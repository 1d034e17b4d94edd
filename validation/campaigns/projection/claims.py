"""Van Lanker et al.'s method on simulated kernels, whose times on both GPUs are known; and on one worked
kernel.

The kernels are those of `smlab.validation.campaigns.projection`, fewer of them; both GPUs are quarters, with
all ratios as they are.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import write_atomic
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sources import commit
from smlab.validation.campaigns.projection import judge, simulate
from smlab.validation.campaigns.projection.kernels import REGIMES
from smlab.validation.method.metrics import mean_bootstrap
from smlab.validation.method.statistics import binomial_interval
from smlab.validation.papers.claims.ledger import load_ledger
from smlab.validation.papers.claims.quantities.projection_simulated import MADE_BY, STORED
from smlab.validation.papers.claims.registry import Observed
from smlab.validation.projection.gpu_parts import part_of

KERNELS = 20
"""Of each regime."""
SEED = 0
SOURCE, TARGET = "v100", "a100-40"

PUBLISHED = "as published"
PARALLEL = "as published, with the parallelism ceiling"


@dataclass(frozen=True)
class _Run:
    regimes: NDArray[np.str_]
    source: judge.Beaten
    projected: judge.Direction


@functools.cache
def _run() -> _Run:
    both = [part_of(load_gpu(name)) for name in (SOURCE, TARGET)]
    numbered = [(regime, i) for regime in REGIMES for i in range(KERNELS)]
    done = simulate.simulate_kernels(both, numbered, SEED, "compiled")
    return _Run(
        np.array(done.regimes),
        judge.judge_ceilings(done.work[0], both[0]),
        judge.judge_projection(done.work[0], done.work[1], done.working_set_bytes, *both),
    )


def _chosen(regimes: list[str]) -> NDArray[np.bool_]:
    unknown = [r for r in regimes if r not in REGIMES]
    if unknown:
        raise SmlabError.at("regime", "unknown", unknown[0], "one of " + ", ".join(REGIMES))
    return np.isin(_run().regimes, regimes or list(REGIMES))


def _errors(regimes: list[str], method: str) -> NDArray[np.float64]:
    direction = _run().projected
    if method not in direction.predicted:
        raise SmlabError.at("method", "unknown", method, "one of " + ", ".join(direction.predicted))
    chosen = _chosen(regimes)
    truth = direction.truth_s[chosen]
    ape: NDArray[np.float64] = 100 * np.abs(direction.predicted[method][chosen] / truth - 1)
    return ape


def simulated_error(regimes: list[str], method: str) -> Observed:
    """Mean absolute percentage error of the projected times, V100 to A100, with its bootstrap interval; no
    regimes: all."""
    errors = _errors(regimes, method)
    low, high = mean_bootstrap(errors)
    return Observed(float(errors.mean()), low, high, f"{len(errors)} kernels, worst {errors.max():.0f} %")


def simulated_error_ratio(regimes: list[str], others: list[str], method: str) -> Observed:
    """The mean error over some regimes, over that over others."""
    over, under = _errors(regimes, method).mean(), _errors(others, method).mean()
    return Observed.exactly(over / under, f"{over:.1f} and {under:.1f} %")


def simulated_inside(regimes: list[str], method: str) -> Observed:
    """The share of kernels whose time lies in the projected interval, with 1 % to either side."""
    direction = _run().projected
    chosen = _chosen(regimes)
    low, truth, high = (
        values[chosen] for values in (direction.low[method], direction.truth_s, direction.high[method])
    )
    inside = int(((low <= 1.01 * truth) & (truth <= 1.01 * high)).sum())
    interval = binomial_interval(inside, len(truth))
    return Observed(
        100 * inside / len(truth),
        100 * interval.low,
        100 * interval.high,
        f"{inside} of {len(truth)} kernels",
    )


def simulated_beyond_ceilings(regimes: list[str]) -> Observed:
    """How many kernels are faster than the published ceilings (Equations 3 and 6 to 8) allow, on the V100."""
    chosen = _chosen(regimes)
    beaten = _run().source
    count = int(beaten.beats_published[chosen].sum())
    furthest = 100 * (beaten.beyond[chosen].max() - 1)
    return Observed.exactly(count, f"of {chosen.sum()}" + (f", by up to {furthest:.0f} %" if count else ""))


def simulated_narrow(regimes: list[str], method: str, ratio: float) -> Observed:
    """The share of kernels whose highest projected time is at most ``ratio`` times the lowest."""
    direction = _run().projected
    chosen = _chosen(regimes)
    width = (direction.high[method] / direction.low[method])[chosen]
    narrow = int((width <= ratio).sum())
    interval = binomial_interval(narrow, len(width))
    return Observed(
        100 * narrow / len(width),
        100 * interval.low,
        100 * interval.high,
        f"{narrow} of {len(width)} kernels; median {np.median(width):.2f}, widest {width.max():.2f} times",
    )


QUANTITIES: dict[str, Callable[..., Observed]] = {
    f"projection.{function.__name__}": function
    for function in (
        simulated_error,
        simulated_error_ratio,
        simulated_inside,
        simulated_beyond_ceilings,
        simulated_narrow,
    )
}


def observed_of_claims() -> list[dict[str, object]]:
    """What the ledger's claims ask of simulated pairs, each once."""
    rows: list[dict[str, object]] = []
    for claim in load_ledger().claims:
        for e in claim.expects:
            name = e.quantity.name
            asked = {"quantity": name, "with": dict(e.arguments)}
            if name in QUANTITIES and not any(asked.items() <= row.items() for row in rows):
                seen = QUANTITIES[name](**e.arguments)
                told = {"value": seen.value, "low": seen.low, "high": seen.high, "detail": seen.detail}
                rows.append(asked | told)
    return rows


if __name__ == "__main__":
    made = {"made_by": MADE_BY, "date": time.strftime("%Y-%m-%d"), "commit": commit(), "seed": SEED}
    document = made | {"gpus": [SOURCE, TARGET], "observed": observed_of_claims()}
    write_atomic(STORED, json.dumps(document, indent=1) + "\n")
    print(f"wrote {STORED}")
