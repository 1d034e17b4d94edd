"""The errors that Van Lanker et al. publish, as they print them, and what of ours they can be held
against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.validation.projection.simulated.judge import Direction
from smlab.validation.report import Column, Section

SOURCE: Final = (
    "Van Lanker, Taboada, Brunet and Trahay, 2024, Predicting GPU kernel's performance on upcoming "
    "architectures, Euro-Par 2024, "
    "hal-04614350"
)


@dataclass(frozen=True)
class PublishedError:
    """One published error. ``mape`` in per cent, None where the paper prints none; ``said`` is what it says
    in words.

    ``regimes`` are our simulated regimes that come closest, none where there is no counterpart;
    ``comparison`` says what can be compared.
    """

    application: str
    where: str
    mape: float | None
    said: str
    regimes: tuple[str, ...]
    comparison: str


PUBLISHED_ERRORS: Final = (
    PublishedError(
        "Hydro1D",
        "section 5.2",
        None,
        "Errors of -5.83 to 4.45 % by kernel",
        ("DRAM",),
        "same limiter; theirs moves 50 million cells, far more than L2 holds, ours about as much as L2 holds",
    ),
    PublishedError(
        "UVMBench, kernels that fill the GPU",
        "section 5.3",
        None,
        "Mostly correctly predicted, some intervals wide",
        ("FP32", "L1", "L2", "DRAM"),
        "no figure printed; ours by limiter",
    ),
    PublishedError(
        "UVMBench, kernels that under-use it",
        "section 5.3",
        None,
        "The predictions are inaccurate",
        ("small grid", "latency"),
        "same cause: the case that the parallelism ceiling is for",
    ),
    PublishedError(
        "Quicksilver",
        "section 5.4",
        5.9,
        "6 of 32 threads active; fewer than 30 blocks excluded",
        (),
        "no counterpart: a Monte Carlo kernel in unified memory",
    ),
    PublishedError(
        "LULESH",
        "section 5.5",
        20.26,
        "The V100's L2 is too small for what the others' hold",
        ("DRAM",),
        "same cause: traffic that a larger L2 saves",
    ),
    PublishedError(
        "miniMDock",
        "section 5.6",
        10.2,
        "26 of 32 threads active",
        ("mixed precisions", "shared memory"),
        "similar limiter; theirs includes what the target's compiler changed",
    ),
    PublishedError(
        "all, by target GPU",
        "section 1",
        None,
        "MAPE of 10.3 to 17.0 %",
        (),
        "their applications; ours are weighted evenly over regimes",
    ),
)
"""In the order of the paper's sections. Their targets are A100-40, A100-80 and H100 together, from V100 with
measured maxima and the code of each target; ours are two simulated GPUs with the same code."""


def published_table(
    section: Section, regimes: NDArray[np.object_], direction: Direction, theirs: str, ours: str
) -> None:
    """The published errors beside those of two methods, ``theirs`` and ``ours``, over the regimes that
    compare."""
    rows: list[list[Any]] = []
    for one in PUBLISHED_ERRORS:
        chosen = np.isin(regimes, one.regimes)
        mapes = [direction.mape(name, chosen) if chosen.any() else None for name in (theirs, ours)]
        ground = f"Ours: {', '.join(one.regimes)}" if one.regimes else "None of ours"
        told = f"{one.said}. {ground}; {one.comparison}"
        rows.append([f"{one.application} ({one.where})", one.mape, *mapes, told])
    section.table(
        "roofline-published",
        [
            Column("Application", key="application"),
            Column("Theirs", "MAPE, %", "published", 1, key="published_mape"),
            Column("Their method", "MAPE, %", "modelled", 1, key="as_published_mape"),
            Column("Ours", "MAPE, %", "modelled", 1, key="ours_mape"),
            Column("What the paper says, and what can be compared", key="comparison"),
        ],
        rows,
        f"{SOURCE}: from a real V100 to real A100 and H100 GPUs, beside their method and ours on simulated "
        f"{direction.name}. "
        "The figures are of other kernels on other machines: what can be compared is which regime is hard.",
    )
