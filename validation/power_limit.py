"""A simulated kernel at the clock that its board's power limit leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.models import power
from smlab.models.power import HeldClock, PowerUse, held_clock
from smlab.sim.execution.run import TimedRun
from smlab.validation.grid_counters import TENSOR_SOURCES, whole_gpu

SOURCES: Final = (Path(power.__file__), Path(__file__))
"""What decides a clock beside the description: part of the key of a time that is kept."""
ISSUED: Final = "smsp__inst_executed.sum"
PASSES: Final = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
L1_BYTES: Final = "l1tex__t_bytes.sum"
PASS_BYTES: Final = 128
"""What a pass of the data stage gives, to shared memory's loads and to those that find their line in L1."""
DRAM: Final = "dram__bytes.sum"
_WIDTHS: Final = {
    **{"tf32": 2.0, "fp8": 0.5, "fp8_fp32": 0.5, "fp6": 0.5, "int8": 0.5, "int4": 0.25, "int1": 1 / 16},
    "fp64": 16.0,
}
"""The power of an operation over that of one on FP16: as the rates of the A100's tensor cores are to each
other, so that a product at full rate takes the same power whatever its type."""


def held_by_power(done: TimedRun, gpu: Gpu) -> HeldClock:
    """The clock of a run on ``gpu``, and how much longer it takes than at the described one."""
    counted = whole_gpu(done)
    seconds = done.seconds
    bandwidth = float(gpu.number("dram.sustained_bandwidth_bytes_per_s"))
    use = PowerUse(
        seconds,
        counted.get(ISSUED, 0.0) + counted.get(PASSES, 0.0) + counted.get(L1_BYTES, 0.0) / PASS_BYTES,
        sum(
            _WIDTHS.get(kind, 1.0) * counted.get(f"sm__ops_path_tensor_{name}.sum", 0.0)
            for kind, name in TENSOR_SOURCES.items()
        ),
        min(counted.get(DRAM, 0.0) / (bandwidth * seconds), 1.0),
    )
    return held_clock(gpu, use)
