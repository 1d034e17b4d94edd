"""Which configurations of a measured tuning space are executed, and as which study."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from smlab.hw_bench.datasets.ktt import read_ktt_folder
from smlab.hw_bench.datasets.tuning import TuningTimes
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import write_atomic
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.gpu.devices import is_called
from smlab.validation.experiments.design.study import Study, parse_study
from smlab.validation.experiments.systems.machine_code import COUNTS

SOURCE: Final = "KernelTunerConvolution.cu"
UNREAD: Final = "PADDING"
"""A parameter that the kernel's text never names: rows that differ in it alone are one kernel."""
LAUNCH: Final = """\
# The launch of KTT's convolution, as its driver computes it (KernelTunerConvolution.cpp). At the image's edge
# the kernel reads shared memory that no thread has written, and throws the sums away.
[launch]
grid = [
    "ceil(ceil(IMAGE_WIDTH / BLOCK_SIZE_X) / TILE_SIZE_X)",
    "ceil(ceil(IMAGE_HEIGHT / BLOCK_SIZE_Y) / TILE_SIZE_Y)",
]
block = ["BLOCK_SIZE_X", "BLOCK_SIZE_Y"]
check_shared = false

[[argument]]
name = "output"
dtype = "float32"
shape = [4096, 4096]
make = "zeros"
returned = true

[[argument]]
name = "input"
dtype = "float32"
shape = [4110, 4110]
make = "uniform"
low = -2
high = 2

[[argument]]
name = "filter"
dtype = "float32"
shape = [225]
make = "uniform"
low = -2
high = 2
"""
RESPONSES: Final = (
    *("cycles", "cycles_low", "cycles_high", "seconds", "warp_instructions", "resident_warps", "blocks"),
    *("blocks_simulated", "registers", "local_bytes", "shared_bytes", "code_instructions"),
    *COUNTS,
    "stalls",
)


def read_card(folder: Path, gpu: Gpu) -> TuningTimes:
    """The search that was made on a card.

    Raises:
        SmlabError: no file of that card.
    """
    for times in read_ktt_folder(folder):
        if is_called(gpu, times.device):
            return times
    raise SmlabError.at(str(folder), "no search of this card", gpu.name, "a file of KTT with this device")


def drawn(times: TuningTimes, count: int, seed: int) -> list[int]:
    """Rows drawn without replacement from those with ``PADDING=0``; fewer of the same seed are the first of
    more."""
    place = times.parameters.index(UNREAD) if UNREAD in times.parameters else -1
    rows = [i for i, config in enumerate(times.config) if place < 0 or config[place] == 0]
    return [rows[i] for i in np.random.default_rng(seed).permutation(len(rows))[:count]]


def make_study(
    times: TuningTimes, rows: Sequence[int], gpu: Gpu, source: Path, folder: Path, sms: int
) -> Study:
    """The study that executes these rows, and its files in ``folder``: launch, cases, study."""
    names = [n for n in times.parameters if n != UNREAD]
    table = [dict(zip(times.parameters, times.config[i], strict=True)) for i in rows]
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "launch.toml", LAUNCH)
    with (folder / "cases.csv").open("w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, [f"define.{n}" for n in names], lineterminator="\n")
        writer.writeheader()
        writer.writerows({f"define.{n}": row[n] for n in names} for row in table)
    raw = {
        "title": f"KTT's convolution on {gpu.title}",
        "question": "Do counters and times of executed machine code agree with measured ones?",
        "responses": list(RESPONSES),
        "base": {"gpu": gpu.name, "kernel": str(source.resolve()), "launch": "launch.toml", "sms": sms},
        "factors": {
            f"define.{n}": {"values": sorted({row[n] for row in table}), "base": table[0][n]} for n in names
        },
        "design": {"kind": "listed", "cases": "cases.csv"},
    }
    return parse_study(raw, str(folder / "study"), folder, gpu.name)
