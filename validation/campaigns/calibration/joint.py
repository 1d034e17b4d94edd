"""The atomic unit fitted to all published measurements at once, with one source left out in turn.

A description's constants come each from one source. Here one mechanism with one set of constants has to
give the measurements of all cards together: rates of eight warps (V100, A100), of 32 warps and loops of
one warp (B300), chains and issue intervals of one lane (H800, Thor), a lock's hand-over (A100, H100).
What a mechanism gives for a source that its constants have not seen says which of them the evidence
leaves.

``python -m smlab.validation.campaigns.calibration.joint`` writes ``joint.json`` beside this module, which
the report shows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.stats import t as student

from smlab.hw_bench.datasets.evidence import load_evidence
from smlab.hw_bench.datasets.publications import load_published_atomics
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import write_atomic
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.validation.calibrate.interval_fit import steady_state_cycles
from smlab.validation.calibrate.joint_fits import LEVEL, STORED, JointFit
from smlab.validation.evidence import EXPERIMENTS

CAS_PASSES: Final = 2
"""A compare-and-swap's pass over an add's, as the evidence has it wherever both were measured."""
LOOP_ITERATIONS: Final = 100
ROBUST_ERROR: Final = 0.05
"""Relative error beyond which a row's pull grows no more than linearly."""
LEAST_EFFECT: Final = 5e-3
"""A change of all rows together that is smaller, for one step of a constant, tells nothing of it."""


@dataclass(frozen=True)
class FreeConstant:
    """A constant that a mechanism leaves free: where the search begins, its limits, and the step of a
    derivative, in cycles. What the machine rounds to whole cycles needs a step above one."""

    start: float
    low: float
    high: float
    step: float


BASE: Final = FreeConstant(3.5, 0.0, 12.0, 0.2)
PASS: Final = FreeConstant(1.0, 0.5, 4.0, 0.05)
WIDE_PASS: Final = FreeConstant(2.0, 0.5, 4.0, 0.05)
GAP: Final = FreeConstant(20.0, 0.0, 60.0, 2.0)
LATENCY: Final = FreeConstant(33.0, 10.0, 60.0, 2.0)
CAS_EXTRA: Final = FreeConstant(6.0, 0.0, 40.0, 2.0)
ADDRESS: Final = FreeConstant(4.0, 1.0, 8.0, 0.2)


@dataclass(frozen=True)
class Mechanism:
    """How the unit may work: its pipes, and the constants that it leaves free, by name."""

    name: str
    pipes: int
    free: Mapping[str, FreeConstant]

    def description(self, gpu: Gpu, values: NDArray[np.float64]) -> Gpu:
        """The card with this unit in place of its own; ``values`` are in the order of ``free``."""
        given = dict(zip(self.free, values, strict=True))
        passes, latency = given["pass"], given["latency"]
        base = max(given.get("base", 0.0), 1 - passes)  # an operation takes a cycle at least
        keys: dict[str, float | int | str] = {
            "atomic.pipes": self.pipes,
            "atomic.round_gap_cycles": given.get("gap", 0.0),
            "atomic.address_interval_cycles": given.get("address", 4.0),
        }
        for op, factor, extra in (
            ("add", 1, 0.0),
            ("cas", CAS_PASSES, given["cas_extra"]),
            ("popc_inc", 1, 0.0),
        ):
            keys[f"atomic.{op}.base_interval_cycles"] = base
            keys[f"atomic.{op}.pass_interval_cycles"] = factor * passes
            keys[f"atomic.{op}.latency_cycles"] = latency + extra
        known = {
            key: value for key, value in keys.items() if gpu.has(key) or not key.startswith("atomic.popc")
        }
        return gpu.with_values(known, source="assumed: a joint fit's trial")


def _mechanisms() -> tuple[Mechanism, ...]:
    always = {"latency": LATENCY, "cas_extra": CAS_EXTRA}
    return (
        Mechanism("occupancy", 1, {"base": BASE, "pass": PASS, **always}),
        Mechanism("rounds", 1, {"gap": GAP, "pass": PASS, **always}),
        Mechanism("interleaved", 2, {"address": ADDRESS, "pass": WIDE_PASS, **always}),
        Mechanism("interleaved, occupancy", 2, {"base": BASE, "pass": WIDE_PASS, **always}),
        Mechanism("interleaved, rounds", 2, {"gap": GAP, "pass": WIDE_PASS, **always}),
    )


MECHANISMS: Final = _mechanisms()
CARDS: Final[Mapping[str, Callable[[str], bool]]] = {
    "all": lambda capability: True,
    "Volta and Ampere": lambda capability: float(capability) < 9,
    "Hopper and Blackwell": lambda capability: float(capability) >= 9,
}
"""Cards that share one unit, by what they are called and a test of their compute capability."""


@dataclass(frozen=True)
class AtomicMeasurement:
    """One measurement: where it comes from, what was measured (cycles or operations a cycle) and how to make
    it again: an experiment of `smlab.validation.evidence`, or, with ``op``, eight warps' loop of the
    slides."""

    source: str
    gpu: str
    label: str
    measured: float
    bound: bool
    experiment: str
    parameters: Mapping[str, object]

    def simulated(self, gpu: Gpu) -> float:
        if self.experiment == "steady_state":
            op, lanes, warps = (self.parameters[key] for key in ("op", "lanes", "warps"))
            assert isinstance(op, str)
            assert isinstance(lanes, int)
            assert isinstance(warps, int)
            return float(steady_state_cycles(gpu, op, (lanes,), warps, LOOP_ITERATIONS)[0])
        return EXPERIMENTS[self.experiment](gpu, **self.parameters)


@cache
def atomic_rows() -> tuple[AtomicMeasurement, ...]:
    """All published measurements of shared atomics. A source is one author's, on whatever cards."""
    rows = [
        AtomicMeasurement(
            "Jia and Van Sandt",
            series.gpu,
            f"{series.gpu} {series.op}, {series.warps} warps, {lanes} lanes a word",
            cycles,
            False,
            "steady_state",
            {"op": series.op, "lanes": lanes, "warps": series.warps},
        )
        for series in load_published_atomics()
        for lanes, cycles in zip(series.same_word, series.cycles_per_instruction, strict=True)
    ]
    named = ("atomic_", "hand_over", "counting_loop", "random_counting")
    rows += [
        AtomicMeasurement(r.source.split(",")[0], r.gpu, r.id, r.value, r.bound, r.experiment, r.parameters)
        for r in load_evidence()
        if r.experiment.startswith(named)
    ]
    return tuple(rows)


def simulate_rows(
    mechanism: Mechanism, values: NDArray[np.float64], rows: Sequence[AtomicMeasurement]
) -> NDArray[np.float64]:
    """What the mechanism gives for each row, in the row's unit."""
    cards = {name: mechanism.description(load_gpu(name), values) for name in {r.gpu for r in rows}}
    return np.array([row.simulated(cards[row.gpu]) for row in rows])


@dataclass(frozen=True)
class Constants:
    """Fitted values in the order of `Mechanism.free`, and what the rows leave open: ``unknown`` (shape
    constants x directions) spans the changes that no row would notice, in steps of each constant. Along
    these the values stand where the search began."""

    values: NDArray[np.float64]
    unknown: NDArray[np.float64]

    @property
    def determined(self) -> NDArray[np.bool_]:
        """Which constants the rows determine each by itself."""
        found: NDArray[np.bool_] = np.all(np.abs(self.unknown) < 0.1, axis=1)
        return found

    def predicts(self, effects: NDArray[np.float64]) -> bool:
        """Whether rows of these ``effects`` (of `effects_of`) hang on nothing that is unknown."""
        return bool((np.abs(effects @ self.unknown) < LEAST_EFFECT).all())


def effects_of(
    mechanism: Mechanism, values: NDArray[np.float64], rows: Sequence[AtomicMeasurement]
) -> NDArray[np.float64]:
    """By how much the logarithm of each row changes with a step of each constant: shape rows x constants."""
    here = np.log(simulate_rows(mechanism, values, rows))
    columns = []
    for k, c in enumerate(mechanism.free.values()):
        moved = values.copy()
        moved[k] += (step := c.step if values[k] + c.step <= c.high else -c.step)
        columns.append((np.log(simulate_rows(mechanism, moved, rows)) - here) * (c.step / step))
    return np.array(columns).T


def fit_constants(mechanism: Mechanism, rows: Sequence[AtomicMeasurement]) -> Constants:
    """The constants with the least robust squared relative errors over ``rows``, each source weighing the
    same.

    Bounds take no part: a simulation may be quicker than they are. `SmlabError` where no row is left.
    """
    rows = [r for r in rows if not r.bound]
    if not rows:
        raise SmlabError("joint fit: no measurement is left to fit to")
    measured = np.array([r.measured for r in rows])
    sources = [r.source for r in rows]
    weight = np.sqrt([1 / sources.count(s) for s in sources])
    weight *= np.sqrt(len(rows) / (weight**2).sum())
    free = mechanism.free.values()

    def residuals(values: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = weight * np.log(simulate_rows(mechanism, values, rows) / measured)
        return found

    steps = np.array([c.step for c in free])

    def slopes(values: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = weight[:, None] * effects_of(mechanism, values, rows) / steps
        return found

    answer = least_squares(
        residuals,
        [c.start for c in free],
        jac=slopes,
        bounds=([c.low for c in free], [c.high for c in free]),
        x_scale=steps,
        xtol=1e-4,
        ftol=1e-4,
        loss="soft_l1",
        f_scale=ROBUST_ERROR,
        max_nfev=25,
    )
    _, singular, directions = np.linalg.svd(effects_of(mechanism, answer.x, rows), full_matrices=True)
    known = int((singular > LEAST_EFFECT).sum())
    return Constants(answer.x, directions[known:].T)


def errors_of(simulated: NDArray[np.float64], rows: Sequence[AtomicMeasurement]) -> NDArray[np.float64]:
    """Relative errors; of a bound only what is beyond it."""
    ratio = simulated / np.array([r.measured for r in rows]) - 1
    found: NDArray[np.float64] = np.where([r.bound for r in rows], np.maximum(ratio, 0.0), ratio)
    return found


def joint_fit(mechanism: Mechanism, cards: str) -> JointFit:
    """Fit a mechanism to all sources of some ``cards`` (of `CARDS`), and without each source in turn."""
    rows = [r for r in atomic_rows() if CARDS[cards](load_gpu(r.gpu).compute_capability)]
    sources = sorted({r.source for r in rows if not r.bound})
    whole = fit_constants(mechanism, rows)
    errors = errors_of(simulate_rows(mechanism, whole.values, rows), rows)
    determined = whole.determined
    fitted: dict[str, float] = {}
    left_out: dict[str, float | None] = {}
    worst: dict[str, str] = {}
    without = []
    for source in sources:
        own = [r for r in rows if r.source == source and not r.bound]
        fitted[source] = float(np.mean([abs(e) for e, r in zip(errors, rows, strict=True) if r in own]))
        others = fit_constants(mechanism, [r for r in rows if r.source != source])
        values = others.values
        determined = determined & others.determined
        without.append(values)
        if not others.predicts(effects_of(mechanism, values, own)):
            left_out[source] = None
            continue
        missed = errors_of(simulate_rows(mechanism, values, own), own)
        left_out[source] = float(np.abs(missed).mean())
        k = int(np.abs(missed).argmax())
        worst[source] = f"{own[k].label} {100 * missed[k]:+.0f} %"
    count = len(sources)
    spread = np.sqrt((count - 1) / count * ((np.array(without) - np.mean(without, axis=0)) ** 2).sum(axis=0))
    half = student.ppf(0.5 + LEVEL / 2, count - 1) * spread
    return JointFit(
        mechanism.name,
        cards,
        mechanism.pipes,
        {
            name: (float(v), float(max(c.low, v - h)), float(min(c.high, v + h)))
            if known
            else (float(v), c.low, c.high)
            for (name, c), v, h, known in zip(
                mechanism.free.items(), whole.values, half, determined, strict=True
            )
        },
        fitted,
        left_out,
        worst,
        tuple(r.label for e, r in zip(errors, rows, strict=True) if r.bound and e > 0.05),
    )


def main() -> None:
    """Fit every mechanism to every set of cards and store the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--out", type=Path, default=STORED)
    out = parser.parse_args().out
    fits = []
    for cards in CARDS:
        for mechanism in MECHANISMS:
            fits.append(joint_fit(mechanism, cards))
            print(f"{cards}, {mechanism.name}: left out {100 * fits[-1].mean_left_out:.1f} %", flush=True)
    write_atomic(out, json.dumps([asdict(f) for f in fits], indent=1) + "\n")


if __name__ == "__main__":
    main()
