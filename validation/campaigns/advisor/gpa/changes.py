"""The kernels of GPA's own benchmark, each before and after the change that its authors published: the gain
that they measured on a V100 beside the simulated one, and what `smlab advise` says of the kernel before.

Zhou et al. (2021, Table III) give the time of each kernel, the change that was made and its gain. The kernels
in ``pairs/gpa`` are ours, with the work of theirs. Inputs that are not at hand are drawn
(`inputs`). They were written and committed before any of them was timed or asked about. The truth
of a number is the whole grid, simulated before and after; the measured gain stands beside it.
"""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.validation.campaigns.advisor import pairs
from smlab.validation.campaigns.advisor.pairs import ChangedKernel, PairAnswer
from smlab.validation.campaigns.advisor.speedups import ChangeRow, numbers

ROUND: Final = "gpa"
GPU: Final = "v100"
SOURCE: Final = (
    "Zhou, Meng, Sai and Mellor-Crummey, 2021, GPA: A GPU Performance Advisor Based on Instruction Sampling, "
    "CGO 2021, Table III (V100); kernels and inputs of Jokeren/GPA-Benchmark and Rodinia 3.1"
)


@dataclass(frozen=True)
class PublishedGain:
    """A row of Table III: the ``gain`` of a change and the time before it. That is the sum of ``launches``
    (0: not known), which are all alike where ``same_launches`` says so."""

    application: str
    kernel: str
    optimization: str
    original_us: float
    gain: float
    launches: int
    same_launches: bool
    input: str

    @property
    def launch_us(self) -> float | None:
        """The time of one launch; None where launches differ, or nobody knows their number."""
        return self.original_us / self.launches if self.launches and self.same_launches else None


@dataclass(frozen=True)
class PublishedAnswer:
    """A published change: what is advised, and the simulated times of a launch before and after."""

    answer: PairAnswer
    before_us: float
    after_us: float


def published_changes() -> tuple[ChangedKernel, ...]:
    """All kernels, in order of their names."""
    return pairs.read_round(ROUND, GPU)


def gain_of(pair: ChangedKernel) -> PublishedGain:
    """What Table III says of a kernel's change."""
    return PublishedGain(**tomllib.loads((pair.folder / "about.toml").read_text())["published"])


def judge_one(pair: ChangedKernel, _: Gpu) -> PublishedAnswer:
    """The change as it is advised and as it is."""
    us = 1e6 / load_gpu(GPU).number("clock.sm_hz")
    with tempfile.TemporaryDirectory() as made:
        folder = pairs.with_inputs(pair, Path(made))
        before, after = (pairs.simulated(pair, folder, version)[0] for version in ("before", "after"))
        told = pairs.advised(pair, folder)
    answer = pairs.answer_of(pair.name, pair.change, pairs.RULES[pair.change], before / after, told)
    return PublishedAnswer(answer, before * us, after * us)


def judged(answers: Sequence[PublishedAnswer], gains: Sequence[PublishedGain]) -> dict[str, Any]:
    """How far the simulated gain and time are from the measured ones, how good the told numbers are, and all
    rows."""
    rows, same, times = [], [], []
    for one, gain in zip(answers, gains, strict=True):
        row, simulated = one.answer.row, one.before_us / one.after_us
        same.append(ChangeRow(row.kernel, row.change, row.change, gain.gain, simulated, simulated, 0))
        if gain.launch_us is not None:
            times.append(np.log(one.before_us / gain.launch_us))
        told = {"told": row.estimated, "how": row.how, "doubt": row.doubt} if row.rank is not None else {}
        rows.append(
            {
                "kernel": row.kernel,
                "change": row.change,
                "optimization": gain.optimization,
                "measured": gain.gain,
                "simulated": simulated,
                "measured_us": gain.launch_us,
                "simulated_us": one.before_us,
                "rank": row.rank,
                **told,
            }
        )
    found = pairs.judged([one.answer for one in answers])
    return {
        "source": SOURCE,
        "gain": numbers(same),
        "times": {
            "n": len(times),
            "mape": 100 * float(np.mean(np.abs(np.expm1(times)))),
            "median_ape": 100 * float(np.median(np.abs(np.expm1(times)))),
            "bias": float(np.exp(np.mean(times))),
        },
        "summary": found["summary"],
        "rows": rows,
        "told": found["told"],
        "advised": [asdict(one.answer.row) for one in answers],
    }
