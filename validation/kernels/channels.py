"""The H100's histograms of many channels as compiled CUDA C, executed and held against measured times and
stalls.

`smlab.validation.channel_histograms` has the same kernels as workloads written by hand, and what was
measured; here the compiler's own code runs. Nothing is fitted to the measured rows.
``python -m smlab.validation.kernels.channels`` does it; it needs the CUDA compiler of the extra cuda12.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import end_with
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.sim.machine_code.kernels import load_kernel
from smlab.sim.machine_code.launch import MachineLaunch
from smlab.sim.machine_code.run import MachineRun, run_machine_code
from smlab.validation.channel_histograms import CHANNELS, ENTRIES, ROWS

SOURCE: Final = Path(__file__).parent / "histograms" / "channels.cu"
BINS: Final = 256


@dataclass(frozen=True)
class ChannelLaunch:
    """How a kernel of the work log is compiled and launched."""

    kernel: str
    block: tuple[int, int]
    grid: tuple[int, int]
    defines: Mapping[str, int] = field(default_factory=dict)


LAUNCHES: Final = {
    3: ChannelLaunch("channels_global", (256, 1), (2, 2048)),
    4: ChannelLaunch("channels_shared", (32, 16), (16, 128)),
    5: ChannelLaunch("channels_shared", (32, 16), (16, 128), {"STRIDE": 257}),
    6: ChannelLaunch("channels_shared", (32, 16), (16, 128), {"UNROLL": 8}),
    8: ChannelLaunch("channels_shared", (32, 32), (16, 32), {"UNROLL": 8}),
}
"""By entry of the work log."""


@dataclass(frozen=True)
class ChannelOutcome:
    """One entry on a simulated GPU: milliseconds with their interval, and stalled cycles an issue."""

    entry: int
    gpu: str
    milliseconds: float
    low: float
    high: float
    stalls: dict[str, float]
    issue_active_percent: float
    wall_s: float


def channel_launch(entry: int, gpu: Gpu, pixels: NDArray[np.uint8]) -> MachineLaunch:
    """The launch of an entry on rows of bytes, ``(rows, channels)``."""
    how = LAUNCHES[entry]
    defines = {name: str(value) for name, value in how.defines.items()}
    image = load_kernel(SOURCE, gpu.sm_architecture, name=how.kernel, defines=defines)
    rows, channels = pixels.shape
    out = np.zeros((channels, BINS), dtype=np.int32)
    arguments = [pixels, out, np.int32(rows), np.int32(channels)]
    grid, block = (*how.grid, 1), (*how.block, 1)
    return MachineLaunch(image, grid, block, arguments, ("x", "out", "rows", "channels"))


def run_entry(entry: int, gpu: Gpu, pixels: NDArray[np.uint8], sms: int = 2) -> ChannelOutcome:
    """Execute an entry, sampled on some SMs."""
    began = time.perf_counter()
    done = run_machine_code(channel_launch(entry, gpu, pixels), gpu, sms=sms)
    to_ms = 1e3 * done.seconds / done.cycles
    return ChannelOutcome(
        entry,
        gpu.name,
        1e3 * done.seconds,
        done.cycles_low * to_ms,
        done.cycles_high * to_ms,
        stalls_an_issue(done),
        100 * done.result.warp_instructions / (done.result.cycles * done.sms * 4),
        time.perf_counter() - began,
    )


def stalls_an_issue(done: MachineRun) -> dict[str, float]:
    """Warp-cycles by reason over issued warp-instructions, as profilers give them."""
    issued = done.result.warp_instructions
    return {reason: cycles / issued for reason, cycles in done.result.stalls.items()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m smlab.validation.kernels.channels", description=__doc__)
    parser.add_argument("--gpu", default="h100-sxm")
    parser.add_argument("--sms", type=int, default=2)
    parser.add_argument("--entries", type=int, nargs="*", default=list(LAUNCHES))
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    gpu = load_gpu(asked.gpu)
    pixels = np.random.default_rng(0).integers(0, BINS, (ROWS, CHANNELS), dtype=np.uint8)
    rows = []
    for measured in (e for e in ENTRIES if e.entry in asked.entries):
        row = run_entry(measured.entry, gpu, pixels, asked.sms)
        rows.append(row)
        if asked.json:
            continue
        print(
            f"entry {row.entry}: {row.milliseconds:.3f} ms ({row.low:.3f} to {row.high:.3f}), measured "
            f"{measured.ms:.3f}, ratio {row.milliseconds / measured.ms:.2f}; issue active "
            f"{row.issue_active_percent:.1f} %",
            flush=True,
        )
        for reason in ("long_scoreboard", "short_scoreboard", "mio_throttle", "lg_throttle", "barrier"):
            theirs = getattr(measured, reason, None)
            told = "" if theirs is None else f" (measured {theirs:.2f})"
            print(f"    {reason}: {row.stalls[reason]:.2f}{told}")
    if asked.json:
        print(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
    return 0


if __name__ == "__main__":
    end_with(main)
