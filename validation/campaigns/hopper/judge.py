"""What the simulator says of the kernels that an H100 of ours has timed, beside the card:
``python -m smlab.validation.campaigns.hopper.judge`` prints the table, one line a link, in some minutes.

Rows in `FITTED` gave a constant of the description its value. The others judge it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.sim.execution.run import run_machine_code
from smlab.validation.campaigns.hopper.pipes import TURNS, PipeProbe, cycles_a_link, straight

MEASURED: Final = Path(__file__).parents[3] / "hw_bench" / "datasets" / "measured" / "h100-sxm"
GPU: Final = "h100-sxm"
FITTED: Final = frozenset(
    {
        ("popc", 1, 1),
        ("i2f_f2i", 1, 1),
        ("f2f16", 1, 32),
        ("f2f64", 1, 1),
        ("redux", 1, 1),
        ("bar", 1, 1),
    }
)
"""Links, chains and warps of the rows that constants of generation 9.0 come from."""


@dataclass(frozen=True)
class JudgedProbe:
    """A probe's cycles a link, measured and simulated."""

    probe: PipeProbe
    measured: float
    simulated: float

    @property
    def ratio(self) -> float:
        return self.simulated / self.measured

    @property
    def fitted(self) -> bool:
        return (self.probe.link, self.probe.chains, self.probe.warps) in FITTED


def read_pipes(path: Path = MEASURED / "pipes.csv") -> dict[PipeProbe, float]:
    """Measured cycles a link."""
    with path.open(newline="") as file:
        return {
            PipeProbe(row["link"], int(row["chains"]), int(row["warps"])): float(row["cycles_a_link"])
            for row in csv.DictReader(file)
        }


def judged(probe: PipeProbe, measured: float, gpu: Gpu) -> JudgedProbe:
    """Simulate a probe; `SmlabError` where the CUDA compiler is not there."""
    launch = probe.launch().launch
    run_machine_code(launch, gpu, sms=1, threads=1)
    times = launch.arguments[0]
    return JudgedProbe(probe, measured, cycles_a_link(times, probe.warps, probe.links))


def straight_cycles(count: int, gpu: Gpu) -> list[float]:
    """Simulated cycles an instruction of so many in a row, turn by turn."""
    launch = straight(count, 1).launch
    run_machine_code(launch, gpu, sms=1, threads=1)
    readings = np.asarray(launch.arguments[0])[: 2 * TURNS].reshape(-1, 2).astype(np.int64)
    return [float(c) / count for c in readings[:, 1] - readings[:, 0]]


def lines(rows: Iterable[JudgedProbe]) -> Iterable[str]:
    for row in rows:
        probe, mark = row.probe, "fitted" if row.fitted else ""
        shape = f"{probe.link:11s} {probe.chains} chains {probe.warps:2d} warps"
        cycles = f"measured {row.measured:8.2f}  simulated {row.simulated:8.2f}"
        yield f"{shape}  {cycles}  {row.ratio:5.2f} {mark}"


def main() -> None:
    gpu, found = load_gpu(GPU), []
    for probe, measured in read_pipes().items():
        found.append(judged(probe, measured, gpu))
        print(*lines(found[-1:]), sep="\n", flush=True)
    errors = [abs(np.log(row.ratio)) for row in found if not row.fitted]
    within = sum(e <= np.log(1.1) for e in errors)
    print(
        f"{len(errors)} rows judge: {within} within 10 %, median error {100 * float(np.median(errors)):.1f} %"
    )


if __name__ == "__main__":
    main()
