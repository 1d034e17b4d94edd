"""What ships to be tried: `PROFILE`, counters of a few kernels as Nsight Compute would write them, for
``--example``.

The counters are simulated, and the file says so. ``python -m smlab.examples`` makes it anew; its kernels are
the workload files beside it and the built-in histogram.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

PROFILE: Final = Path(__file__).with_name("profile.csv")
GPU: Final = "a100-40"
"""The GPU that the profile's kernels were simulated on."""

KERNEL: Final = Path(__file__).with_name("histogram.sm_70.sass")
KERNEL_SOURCE: Final = Path(__file__).with_name("histogram.cu")
KERNEL_LAUNCH: Final = Path(__file__).with_name("histogram.toml")
"""What ``smlab run --example`` runs: the listing of `histogram.cu` as NVRTC 12.9 compiles it, and a launch
of it."""

TUNING_SPACE: Final = Path(__file__).with_name("histogram-space.toml")
"""What ``smlab tune --example`` ranks: launches of `KERNEL`."""

TARGET: Final = "h100-pcie"
"""Where ``smlab project --example`` projects to unless told otherwise."""

PORT_FILES: Final = {name: Path(__file__).with_name(f"port-{name}.csv") for name in ("v100", "a100-80")}
"""What ``smlab port --example`` compares: times made of the differences that Coyne (2025) publishes in
Tables 5.1 and 5.3 to 5.5, the V100's being 1 ms each."""
