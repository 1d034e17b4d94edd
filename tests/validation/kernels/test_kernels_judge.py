"""Executed kernels beside measured ones: ratios and errors on rows whose answer is known, and the launch of
the convolution against measured rows."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim.machine_code.launch_file import read_launch
from smlab.validation.kernels.judge import best_of, counter_ratios, time_errors, told_clock_hz
from smlab.validation.kernels.measured import LAUNCH, UNREAD, drawn, read_card

KTT = Path(os.environ.get("SMLAB_SHARED_DATA", "")) / "tuning" / "ktt-convolution"
GPU = load_gpu("rtx-2080-ti")
SCHEDULERS = 68 * 4


def rows() -> pd.DataFrame:
    n = np.arange(1.0, 13.0)
    frame = pd.DataFrame({"cycles": 1.7e6 * n, "measured_s": 1e-3 * n})
    frame["registers"] = frame["measured_registers"] = 64
    frame.loc[0, "measured_registers"] = 128
    frame["local_bytes"] = frame["measured_local_bytes"] = 0.0
    frame.loc[[1, 2], "local_bytes"] = 1184.0
    frame.loc[2, "measured_local_bytes"] = 1200.0
    frame["smsp__inst_executed.sum"] = frame["warp_instructions"] = 1e6 * n
    frame.loc[1, "warp_instructions"] *= 1.1
    share = frame["smsp__inst_executed.sum"] / SCHEDULERS / frame["cycles"]
    frame["smsp__issue_active.avg.pct_of_peak_sustained_active"] = 100 * share
    for name in ("fp32", "dram_sectors_read", "global_lanes_store"):
        frame[f"count.{name}"] = 1e6
    frame["count.shared_wavefronts_load"] = frame["count.shared_wavefronts_store"] = 1e5
    frame["resident_warps"] = 16.0
    return frame


def test_a_clock_is_read_off_counters() -> None:
    assert told_clock_hz(rows(), SCHEDULERS) == pytest.approx(1.7e9)
    assert np.isnan(told_clock_hz(rows()[["cycles", "measured_s"]], SCHEDULERS))


def test_ratios_and_errors_of_known_rows() -> None:
    (ratio,) = (r for r in counter_ratios(rows()) if r.counter == "executed instructions")
    assert (ratio.n, ratio.equal, ratio.median) == (12, 11, 1.0)
    found = {(e.rows, e.clock): e for e in time_errors(rows(), GPU)}
    exact = found["all", "counters of the run"]
    assert exact.errors.mape == pytest.approx(0, abs=1e-9)
    assert exact.spearman == pytest.approx(1)
    assert found["registers within 1.5", "counters of the run"].errors.n == 11
    assert found["registers and spills within 1.5", "counters of the run"].errors.n == 10
    slow = GPU.number("clock.sm_hz")
    assert found["all", "description"].errors.bias == pytest.approx(1.7e9 / slow)
    assert set(exact.baselines) == {"peak", "roofline", "busiest unit", "counts with occupancy"}
    assert best_of(rows(), 3) == 0
    worse = rows().assign(cycles=lambda f: f["cycles"].to_numpy()[::-1])
    assert best_of(worse, 3) == pytest.approx(900)


@pytest.mark.skipif(not KTT.is_dir(), reason="SMLAB_SHARED_DATA: no searches of others here")
def test_the_launch_is_the_drivers_for_every_measured_row(tmp_path: Path) -> None:
    times = read_card(KTT, GPU)
    few = drawn(times, 100, 0)
    assert few == drawn(times, 300, 0)[:100]
    assert all(times.config[i][times.parameters.index(UNREAD)] == 0 for i in few)
    small = LAUNCH.replace("4096, 4096", "1").replace("4110, 4110", "1")
    (tmp_path / "launch.toml").write_text(small)
    for i in few[::10]:
        macros = dict(zip(times.parameters, times.config[i], strict=True))
        launch = read_launch(tmp_path / "launch.toml", macros)
        assert np.prod(launch.grid) == times.blocks[i]
        assert np.prod(launch.block) == times.threads_per_block[i]
