"""Advice on one kernel, with what it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.pc_samples.samples import KernelSamples
from smlab.models.advisor.advice import Advice
from smlab.models.advisor.changes.matching import Context
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.stall_causes.blame import Blamed
from smlab.sim.execution.run import MachineRun

SHAPE_KINDS: Final = ("grid", "block", "grid+block")
COMBINED: Final = "combined"
SLOWEST: Final = 1.25
"""Times the kernel's cycles after which a version of our own is given up: what is slower is no advice, and
the time is another version's."""
RESTRICT: Final = "__restrict__"
"""At each pointer of a kernel it says that no two arrays overlap."""


@dataclass(frozen=True)
class SimulatedVersion:
    """A change that was simulated beside the kernel: the file, macros, launch or options that make it, its
    ``kind`` (``version``, ``macros``; ``grid``, ``block`` or ``grid+block``; ``unroll``, ``batched-loads``,
    ``restrict``, ``fast-math`` or ``registers``; those of `rewrites`; ``combined``), its cycles, and the
    kernel's over them.
    ``results_equal`` says whether it computes the same, None where ``note`` says why that is not known.
    Where it need not, ``stands_in`` says what a programmer has to do so that it does."""

    what: str
    cycles: float
    speedup: float
    kind: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    results_equal: bool | None
    note: str
    cpu_s: float
    stands_in: str = ""


@dataclass(frozen=True)
class Trials:
    """The changes that the advisor tried by itself, and the CPU time that it took. Those ``refused`` could
    not be compiled or run, for ``late`` ones there was no time; ``note`` says what was not tried at all."""

    versions: tuple[SimulatedVersion, ...] = ()
    cpu_s: float = 0.0
    refused: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class KernelAdvice:
    """Advice on one kernel, the most promising first; ``context`` is what the optimizers saw, or None for
    samples by source line without code. ``tried`` is
    what was asked for, ``trials`` what the advisor tried itself, ``run`` the simulation that was sampled,
    with the ``sectors`` of each instruction where they were counted, ``top`` how much advice is given."""

    samples: KernelSamples
    gpu: Gpu
    blamed: Blamed | None
    context: Context | None
    advice: tuple[Advice, ...]
    note: str = ""
    tried: tuple[SimulatedVersion, ...] = ()
    trials: Trials = Trials()
    top: int = 5
    run: MachineRun | None = None
    sectors: NDArray[np.int64] | None = None

    @property
    def code(self) -> AdvisedCode | None:
        return None if self.context is None else self.context.code
