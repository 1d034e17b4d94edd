"""A data set whose times come from the suite's machine code, executed in the simulator: what a calibration
is judged by, since the predictor that fits it has no part in making it.

The noise is ours: of each repetition, of whole launches, outliers. So is what may be wrong with the
machine (``hidden``): costs that no constant of the description stands for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.cuda import registry
from smlab.hw_bench.cuda.measuring import driver, plan, steadiness
from smlab.hw_bench.cuda.measuring.batch import Batch
from smlab.hw_bench.cuda.measuring.benchmarks import points
from smlab.hw_bench.cuda.measuring.dataset import DataSet
from smlab.hw_bench.cuda.measuring.driver import FakeDriver
from smlab.hw_bench.cuda.measuring.plan import BenchmarkProfile
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.validation.calibrate.cases import Floats
from smlab.validation.calibrate.noise import median_noise

BENCHMARK: Final = "shared-atomics"
UNREAD: Final = "float-add"
"""An operation that no calibration reads, and that takes longer than all others together: not executed."""


def execute_suite(device: FakeDriver, profile: BenchmarkProfile) -> list[Batch]:
    """The batches of `BENCHMARK` as the suite would measure them on the simulated ``device``, without noise
    and without those of `UNREAD`."""
    kernels = [spec.name for spec in registry.benchmark(BENCHMARK).kernels()]
    launches = plan.point_launches(BENCHMARK, kernels, profile, device.limits.max_warps)
    unread = frozenset(launch.name for launch in launches if launch.kernel.startswith(f"{UNREAD}/"))
    with driver.using(device):
        return list(points.measure(BENCHMARK, profile, device.limits, unread))


@dataclass(frozen=True)
class Noise:
    """What measuring adds. ``row`` is the relative noise of a row's median, made of independent noise of
    ``repetitions`` repetitions; ``launch`` is shared by all rows of a launch. A share ``outliers`` of the
    repetitions takes ``outlier_factor`` times as long. ``drift`` is the relative rise over the whole run.
    ``freedom`` is that of Student's distribution, from which the repetitions' noise is drawn where it is
    given: the fewer, the heavier its tails. The first of several warps begins up to ``stagger_cycles`` before
    the others, evenly drawn."""

    row: float = 0.03
    launch: float = 0.0
    outliers: float = 0.0
    outlier_factor: float = 3.0
    drift: float = 0.0
    freedom: float | None = None
    stagger_cycles: float = 0.0
    repetitions: int = 5

    def relative(self, rng: np.random.Generator) -> Floats:
        """The noise of each repetition of a row."""
        each = self.row / median_noise(self.repetitions)
        if self.freedom is None:
            return each * rng.standard_normal(self.repetitions)
        return each * rng.standard_t(self.freedom, self.repetitions)

    def early(self, rng: np.random.Generator, row: Mapping[str, Any]) -> Floats:
        """By how many cycles the first warp is early, in each repetition of a row."""
        if self.stagger_cycles == 0 or row["warps"] < 2:
            return np.zeros(self.repetitions)
        return self.stagger_cycles * rng.random(self.repetitions)


def write_executed(
    folder: Path,
    gpu: Gpu,
    batches: Sequence[Batch],
    truth: Mapping[str, float],
    *,
    noise: Noise,
    seed: int | Sequence[int] = 0,
    hidden: Callable[[Mapping[str, Any]], float] = lambda row: 0.0,
) -> None:
    """Write executed ``batches`` as the suite writes measured ones, with ``noise``.

    ``hidden`` gives cycles to add to a row's time: what the machine does beyond its description.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    about = {
        "profile": "executed",
        "gpu": f"simulated {gpu.name}",
        "compute_capability": gpu.compute_capability,
        "sms": gpu.integer("gpu.sms"),
        "simulated_truth": dict(truth),
        "noise": dataclasses.asdict(noise),
        "seed": seed,
    }
    data = DataSet(folder, BENCHMARK, plan.ATOMIC_COLUMNS, about, resume=False)
    for place, batch in enumerate(batches):
        level = noise.launch * rng.standard_normal() + noise.drift * place / len(batches)
        rows, samples = [], []
        for row in batch.rows:
            base = row["cycles_median"] + hidden(row)
            early = noise.early(rng, row)
            times = (base + early) * np.exp(level + noise.relative(rng))
            late = rng.random(noise.repetitions) < noise.outliers
            times = np.maximum(1, np.rint(times * np.where(late, noise.outlier_factor, 1.0)))
            rows.append(
                row
                | {
                    "samples": noise.repetitions,
                    "steady_from": 0,
                    "cycles_min": int(times.min()),
                    "cycles_median": float(np.median(times)),
                    "cycles_max": int(times.max()),
                    "relative_noise": round(steadiness.noise(times), 6),
                    "issue_cycles_median": row["issue_cycles_median"] + float(np.median(early)),
                }
            )
            samples.append(times)
        data.add(batch.name, rows, {"cycles": np.array(samples)}, batch.about)
    data.close(complete=True)
