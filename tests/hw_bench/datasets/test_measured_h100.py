"""The measured H100: what its counters say of the passes of shared atomics."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from smlab.hw_bench.cuda.measuring.dataset import find_table, read_table
from smlab.hw_bench.profiles.atomics.required_counters import CONFLICTS, JOBS, WAVEFRONTS
from smlab.hw_bench.profiles.reading import read_profile
from smlab.hw_bench.sources import package_folder
from smlab.sim.address_patterns import passes

FOLDER = package_folder("smlab.hw_bench.datasets") / "measured" / "h100-sxm"
PIXELS = 2**20


def words(image: NDArray[np.uint8], reordered: bool) -> NDArray[np.int64]:
    """The counters that each warp's lanes count in, (warps, 4 channels in turn, lanes)."""
    lane = np.arange(32)
    colours = image.reshape(-1, 32, 4).astype(np.int64)
    channels = [(lane % 4 * reordered + step) % 4 for step in range(4)]
    return np.stack([256 * c + colours[:, lane, c] for c in channels], axis=1)


@pytest.mark.parametrize("kind", ["solid", "uniform"])
@pytest.mark.parametrize(
    "kernel", ["original/add", "original/popc-inc", "reordered/add", "reordered/popc-inc"]
)
def test_an_h100_counts_the_passes_that_the_rules_say(kernel: str, kind: str) -> None:
    """SEMANTICS.md, section 6, rule 5, to the last pass: lanes on a bank, or words where lanes merge."""
    table = read_profile(FOLDER / "histogram-profile.csv.gz").table
    rows = read_table(FOLDER / "histogram-profile.rows.csv")
    chosen = (rows["kernel"] == kernel) & (rows["image"] == kind) & (rows["pixels"] == PIXELS)
    chosen &= rows["threads"] > 32
    assert chosen.sum() == 2
    image = np.full((PIXELS, 4), 7, dtype=np.uint8)
    if kind == "uniform":
        image = np.random.default_rng(0).integers(0, 256, (PIXELS, 4), dtype=np.uint8)
    variant, operation = kernel.split("/")
    count = int(passes(operation.replace("-", "_"), words(image, variant == "reordered"), 32).sum())
    for launch in np.flatnonzero(chosen):
        here = table.launch == launch
        told = dict(zip(table.counter[here], table.value[here], strict=True))
        assert (told[JOBS], told[WAVEFRONTS], told[CONFLICTS]) == (PIXELS // 8, count, count - PIXELS // 8)


@pytest.mark.parametrize("benchmark", ["latency", "ceilings", "shared-banks", "histogram"])
def test_the_set_is_here(benchmark: str) -> None:
    path = find_table(FOLDER, benchmark)
    assert path is not None
    assert read_table(path)
