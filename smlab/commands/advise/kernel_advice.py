"""Advice on one kernel, with what it rests on."""

from __future__ import annotations

from dataclasses import dataclass

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.pc_samples.samples import KernelSamples
from smlab.models.advisor.advice import Advice
from smlab.models.advisor.changes.matching import Context
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.stall_causes.blame import Blamed


@dataclass(frozen=True)
class SimulatedVersion:
    """A change that was compiled and simulated beside the kernel: the file or the macros that make it, its
    cycles, and the kernel's over them."""

    what: str
    cycles: float
    speedup: float


@dataclass(frozen=True)
class KernelAdvice:
    """Advice on one kernel, the most promising first; ``context`` is what the optimizers saw, or None for
    samples by source line without code."""

    samples: KernelSamples
    gpu: Gpu
    blamed: Blamed | None
    context: Context | None
    advice: tuple[Advice, ...]
    note: str = ""
    tried: tuple[SimulatedVersion, ...] = ()

    @property
    def code(self) -> AdvisedCode | None:
        return None if self.context is None else self.context.code
