"""What the advisor says at the entries of a public work log (H100 histograms by channel), beside what its
author did next and measured.

The CUDA C is ours (`smlab.validation.kernels.channels`); each entry runs on `SMS` of the SMs with their share
of the rest, long enough for all of their places to be taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.models.advisor.advice import advise, estimate, optimizer_of
from smlab.sim.histogram import share_of
from smlab.sim.machine_code.kernels import load_kernel
from smlab.sim.machine_code.launch import MachineLaunch
from smlab.validation.advisor.simulate import SMS, execute
from smlab.validation.advisor.speedups import context_of
from smlab.validation.channel_histograms import CHANNELS, ENTRIES
from smlab.validation.kernels.channels import BINS, LAUNCHES, SOURCE

GPU: Final = "h100-sxm"
ROWS: Final = 8192
GRIDS: Final = {3: (2, 62), 4: (16, 4), 5: (16, 4), 6: (16, 4), 8: (16, 1)}
"""Of `SMS` SMs, by entry."""


@dataclass(frozen=True)
class Step:
    """A step of the log: from an entry to another, by the advice of an optimizer with its factor."""

    before: int
    after: int | None
    optimizer: str | None = None
    factor: float | None = None


STEPS: Final = (
    Step(3, 4, "privatisation"),
    Step(4, 6, "loop-unrolling", 8.0),
    Step(4, 5, "fewer-conflicts"),
    Step(8, None),
)


def steps() -> list[dict[str, Any]]:
    """For each step the first advice at its entry, what the step's own was promised, at which rank, and what
    it gained in simulation and when measured."""
    gpu = share_of(load_gpu(GPU), SMS)
    pixels = np.random.default_rng(1).integers(0, 256, (ROWS, CHANNELS), dtype=np.uint8)
    runs, contexts = {}, {}
    for entry in sorted({e for step in STEPS for e in (step.before, step.after) if e is not None}):
        how = LAUNCHES[entry]
        defines = {name: str(value) for name, value in how.defines.items()}
        image = load_kernel(SOURCE, gpu.sm_architecture, name=how.kernel, defines=defines)
        out = np.zeros((CHANNELS, BINS), dtype=np.int32)
        arguments = [pixels, out, np.int32(ROWS), np.int32(CHANNELS)]
        grid, block = (*GRIDS[entry], 1), (*how.block, 1)
        launch = MachineLaunch(image, grid, block, arguments, ("x", "out", "rows", "channels"))
        runs[entry] = execute(launch, gpu)
        contexts[entry] = context_of(runs[entry], gpu)
    measured = {entry.entry: entry.ms for entry in ENTRIES}
    told = []
    for step in STEPS:
        context = contexts[step.before]
        advice = advise(context)
        mine = None if step.optimizer is None else optimizer_of(step.optimizer)
        found = None if mine is None else estimate(context, mine, step.factor)
        names = [name for a in advice for name in a.names]
        told.append(
            {
                "entry": step.before,
                "next": step.after,
                "first": advice[0].optimizer.name,
                "first_promised": advice[0].speedup,
                "optimizer": step.optimizer,
                "rank": names.index(step.optimizer) if step.optimizer in names else None,
                "promised": None if found is None else found.speedup,
                "simulated": None if step.after is None else _ratio(runs, step),
                "measured": None if step.after is None else measured[step.before] / measured[step.after],
            }
        )
    return told


def _ratio(runs: dict[int, Any], step: Step) -> float:
    return float(runs[step.before].cycles / runs[step.after].cycles) if step.after is not None else 1.0
