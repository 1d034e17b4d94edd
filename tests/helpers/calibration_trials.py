"""Does a calibration find the constants of machines that execute the suite's machine code?

Each trial draws a machine (a shipped description with other constants of the atomic unit, `drawn_machine`),
executes the suite on it, lays noise over the times and fits the shipped description to them. What was
executed is kept in a store and serves all conditions.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from executed_suite import Noise, execute_suite, write_executed
from smlab.hw_bench.cuda.contract.compiler import linker_release
from smlab.hw_bench.cuda.measuring import plan
from smlab.hw_bench.cuda.measuring.batch import Batch
from smlab.hw_bench.cuda.measuring.plan import BenchmarkProfile
from smlab.hw_bench.cuda.toolkit import package_versions
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.sources import digest_of, package_folder
from smlab.sim.options import by_keywords
from smlab.validation.calibrate.calibration import calibrate_set, mechanism_lack
from smlab.validation.calibrate.dataset import read_set
from smlab.validation.calibrate.fit import atomic_parameters, fit, split
from smlab.validation.calibrate.on_simulator import BenchmarkGpu
from smlab.validation.calibrate.predict import BASE, LATENCY, MEASURING, PASS, QUEUE, UNIT_QUEUE, key
from smlab.validation.calibrate.simulated import write_simulated
from smlab.validation.work.encoding import decode, encode
from smlab.validation.work.store import Entry, Store

DEPTHS: Final = (8, 16, 23, 32)
GPUS: Final = ("a100-40", "h100-sxm", "v100-sxm2", "rtx-4090")
"""One of each architecture with tables of its own; trials take them in turn."""
SHARE: Final = 0.5
"""Of the rows, fitted: as many as a calibration of the suite's full profile fits with its 5 %."""
PROFILE: Final = replace(
    plan.PROFILES["quick"],
    repetitions=3,  # the first finds the code not yet in the instruction caches
    warps=(1, 2, 4, 8, 16, 32),
    lanes=(1, 2, 4, 8, 16, 32),
    cas_steps=2,
    loop_lanes=(1, 4, 8, 32),
    pattern_warps=(1, 8),
)

Hidden = Callable[[Mapping[str, Any]], float]


def nothing(row: Mapping[str, Any]) -> float:
    return 0.0


def switching(row: Mapping[str, Any]) -> float:
    """6 cycles whenever an operation of the other kind comes."""
    n, c = row["warps"], row["cas_warps"]
    return float(12 * min(c, n - c) * row["iterations"]) if 0 < c < n else 0.0


def convex(row: Mapping[str, Any]) -> float:
    """A cost of lanes that grows with their square: 8 cycles for 32 lanes on one word."""
    if row["operation"] == "none":
        return 0.0
    passes = row["same_word"] * row["same_bank"]
    return float(0.008 * passes**2 * row["warps"] * row["iterations"])


@dataclass(frozen=True)
class TrialCondition:
    """What is laid over the executed times: ``noise``, and a ``hidden`` cost that no constant stands for."""

    name: str
    noise: Noise = field(default_factory=Noise)
    hidden: Hidden = nothing
    depths: tuple[int, ...] = (16,)


CONDITIONS: Final = (
    TrialCondition("3 % noise", depths=DEPTHS),
    TrialCondition("hidden cost of switching", hidden=switching),
    TrialCondition("convex cost of lanes", hidden=convex),
    TrialCondition("outliers", Noise(outliers=0.05)),
    TrialCondition("noise of launches", Noise(launch=0.03)),
    TrialCondition("drift", Noise(drift=0.05)),
    TrialCondition("heavy tails", Noise(freedom=3)),
    TrialCondition("staggered starts", Noise(stagger_cycles=8)),
)


@dataclass(frozen=True)
class CalibrationTrial:
    """What came of one: by constant whether it was found and its interval held it, whether lack of fit was
    found or a drift, and the half-width of the interval of the unit's queue (infinite if that was not
    found)."""

    inside: dict[str, bool]
    lacking: bool
    drifting: bool
    queue_half_width: float

    @property
    def all_covered(self) -> bool:
        return all(self.inside.values())

    @property
    def noticed(self) -> bool:
        """Whether the answer says that something is wrong with the data."""
        return self.lacking or self.drifting


def drawn_machine(gpu: Gpu, depth: int, seed: Sequence[int]) -> Gpu:
    """One SM of ``gpu`` with other constants of its atomic unit, whose queue takes ``depth`` operations.

    Latencies are whole cycles, as the simulator has them.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    drawn: dict[str, float] = {"gpu.sms": 1, UNIT_QUEUE: depth, QUEUE: int(rng.integers(3, 9))}
    for op in ("add", "cas", "popc_inc"):
        if not gpu.has(key(op, BASE)):
            continue
        drawn[key(op, BASE)] = max(0.0, float(gpu.number(key(op, BASE)) + rng.uniform(-1, 2)))
        drawn[key(op, PASS)] = float(gpu.number(key(op, PASS)) * rng.uniform(1, 1.4))
        if gpu.has(key(op, LATENCY)):
            drawn[key(op, LATENCY)] = round(float(gpu.number(key(op, LATENCY))) + rng.uniform(-3, 15))
    return gpu.with_values(drawn, source="assumed: drawn for a trial of the calibration")


def true_constants(gpu: Gpu) -> dict[str, float]:
    """The constants of the atomic unit that a calibration is to find."""
    names = [p.name for p in atomic_parameters(gpu) if p.name not in MEASURING]
    return {name: float(gpu.number(name)) for name in names}


def executed_batches(gpu: Gpu, store: Store | None = None) -> list[Batch]:
    """The suite's batches on ``gpu``, from the store where the same kernels, simulator and description have
    been executed before."""
    if store is None:
        return execute_suite(BenchmarkGpu(gpu), PROFILE)
    name = _machine_key(gpu)
    if name not in store.known([name]):
        batches = execute_suite(BenchmarkGpu(gpu), PROFILE)
        kept = [[b.name, pd.DataFrame(b.rows), b.about] for b in batches]
        store.add([Entry(name, {"executed": gpu.name, **true_constants(gpu)}, {"batches": encode(kept)})])
    kept = decode(store.get([name])[name].result["batches"])
    return [Batch(batch, rows.to_dict("records"), {}, about, []) for batch, rows, about in kept]


def try_calibration(
    truth: Gpu,
    start: Gpu,
    batches: Sequence[Batch],
    condition: TrialCondition,
    seed: Sequence[int],
) -> CalibrationTrial:
    """Calibrate ``start`` to ``batches`` that were executed on ``truth``, under noise of this ``seed``."""
    constants = true_constants(truth)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_executed(
            folder, truth, batches, constants, noise=condition.noise, seed=seed, hidden=condition.hidden
        )
        cases = read_set(folder).atomics
    found = fit(start, cases.select(split(start, cases, SHARE, seed)), atomic_parameters(start))
    fitted = {f.name: f for f in found.fitted}
    lack = mechanism_lack(start, cases, found, atomic_parameters(start))
    queue = fitted.get(UNIT_QUEUE)
    return CalibrationTrial(
        {
            name: name in fitted and fitted[name].low <= value <= fitted[name].high
            for name, value in constants.items()
        },
        lacking=lack is not None and lack.found,
        drifting=found.shared.drifting,
        queue_half_width=np.inf if queue is None else (queue.high - queue.low) / 2,
    )


def run_trials(
    condition: TrialCondition,
    trials: int,
    *,
    gpus: Sequence[str] = GPUS,
    depths: Sequence[int] | None = None,
    seed: int = 0,
    store: Store | None = None,
) -> Iterator[tuple[int, str, CalibrationTrial]]:
    """``trials`` of each depth, as they end: depth, GPU and what came of it."""
    for depth in condition.depths if depths is None else depths:
        for trial in range(trials):
            start = load_gpu(gpus[trial % len(gpus)])
            machine = drawn_machine(start, depth, (seed, depth, trial))
            noise_seed = (seed, depth, trial, 1 + [c.name for c in CONDITIONS].index(condition.name))
            yield depth, start.name, _kept_trial(machine, start, condition, noise_seed, store)


def _kept_trial(
    machine: Gpu, start: Gpu, condition: TrialCondition, seed: Sequence[int], store: Store | None
) -> CalibrationTrial:
    if store is None:
        return try_calibration(machine, start, executed_batches(machine), condition, seed)
    asked = {"condition": condition.name, "gpu": start.name, "seed": list(seed)}
    parts = (_machine_key(machine), _plain(start), _calibrating(), asked)
    name = hashlib.sha256(repr(parts).encode()).digest()
    if name not in store.known([name]):
        found = try_calibration(machine, start, executed_batches(machine, store), condition, seed)
        store.add([Entry(name, asked, asdict(found))])
    return CalibrationTrial(**store.get([name])[name].result)


def _machine_key(gpu: Gpu) -> bytes:
    return hashlib.sha256(repr((_executing(), _plain(gpu), asdict(PROFILE))).encode()).digest()


@lru_cache(maxsize=1)
def _executing() -> tuple[Any, ...]:
    """What an execution depends on beside the description: simulator, kernels and compiler."""
    rooms = ("smlab.sim", "smlab.hw_bench.cuda", "smlab.hw_bench.sass")
    return digest_of(*map(package_folder, rooms)), sorted(package_versions().items()), linker_release()


@lru_cache(maxsize=1)
def _calibrating() -> str:
    """The version of what is judged."""
    return digest_of(package_folder("smlab.validation.calibrate"))


def _plain(gpu: Gpu) -> list[tuple[str, str]]:
    return sorted((name, str(constant.value)) for name, constant in gpu.constants.items())


ALL: Final = "atomic unit, all"

SMALL: Final = replace(
    plan.PROFILES["quick"],
    warps=(1, 2, 8, 32),
    lanes=(1, 4, 16, 32),
    cas_steps=2,
    loop_lanes=(1, 8, 32),
    bursts=(16, 32, 64),
    pattern_warps=(1, 8),
    bank_warps=(1, 8, 32),
)
"""A data set that takes no time to make, of some 500 times."""


@dataclass(frozen=True)
class Recovery:
    """What came of the trials.

    ``all_covered`` counts trials in which all true constants were in their intervals, ``by_constant`` those
    in which one was. ``mape`` and ``noise_mape`` are means over the trials of the judged MAPE of the
    calibrated and of the true constants."""

    trials: int
    all_covered: int
    by_constant: dict[str, int]
    mape: float
    noise_mape: float

    @property
    def factor(self) -> float:
        """By how much the judged error exceeds what the noise alone makes."""
        return self.mape / self.noise_mape


@dataclass(frozen=True)
class RecoverOptions:
    """Keywords of `recover`."""

    trials: int
    noise: float = 0.03
    share: float = 0.05
    profile: BenchmarkProfile = SMALL
    seed: int = 0
    progress: Callable[[int, int], None] = lambda done, total: None


@by_keywords(RecoverOptions)
def recover(truth: Gpu, start: str, options: RecoverOptions) -> Recovery:
    """Calibrate the description ``start`` to simulated data of ``truth``, ``trials`` times with other
    noise and another split."""
    trials = options.trials
    all_covered, held = 0, dict[str, int]()
    mapes, noises = [], []
    for trial in range(trials):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            seed = options.seed + trial
            true = write_simulated(folder, truth, profile=options.profile, noise=options.noise, seed=seed)
            found = calibrate_set(read_set(folder), start, share=options.share, seed=seed, truth=true)
        inside = {f.name: f.low <= true[f.name] <= f.high for f in found.fitted if f.name not in MEASURING}
        all_covered += all(inside.values())
        for constant, ok in inside.items():
            held[constant] = held.get(constant, 0) + ok
        mapes.append(found.mape(ALL))
        noises.append(found.mape(ALL, "truth"))
        options.progress(trial + 1, trials)
    return Recovery(trials, all_covered, held, float(np.mean(mapes)), float(np.mean(noises)))
