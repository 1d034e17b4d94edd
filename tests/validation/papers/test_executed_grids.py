"""The thesis's kernels, executed: what the record holds, and what cannot be one."""

import json
from pathlib import Path

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.validation.campaigns.portability.__main__ import KERNELS, recorded
from smlab.validation.papers.claims.executed_grids import executed_grids
from smlab.validation.papers.claims.published import grid_table


def run_folder(where: Path, gpu: str, factor: float) -> Path:
    where.mkdir()
    rows = [
        f"{kernel},0,{blocks},256,{factor * blocks * 1e-6}"
        for kernel in KERNELS.values()
        for blocks in (8, 96)
    ]
    table = "kernel,size,blocks,threads,seconds_median\n" + "\n".join(rows) + "\n"
    (where / "portability.csv").write_text(table)
    (where / "portability.json").write_text(json.dumps({"gpu": gpu, "SIMULATED": "not measured"}))
    return where


def test_a_record_is_what_the_folders_hold(tmp_path: Path) -> None:
    found = recorded(
        run_folder(tmp_path / "a", "simulated v100", 1), run_folder(tmp_path / "b", "simulated a100-80", 2)
    )
    assert found["gpus"] == ["v100", "a100-80"]
    assert found["tables"]["butterfly"]["microseconds"] == [[8, 96], [16, 192]]


def test_a_measured_folder_is_no_record(tmp_path: Path) -> None:
    simulated = run_folder(tmp_path / "a", "simulated v100", 1)
    measured = run_folder(tmp_path / "b", "NVIDIA A100 80GB PCIe", 2)
    (measured / "portability.json").write_text(json.dumps({"gpu": "NVIDIA A100 80GB PCIe"}))
    with pytest.raises(SmlabError, match="not a run on a described, simulated GPU"):
        recorded(simulated, measured)


@pytest.mark.parametrize("table", KERNELS)
def test_every_grid_of_the_thesis_was_run(table: str) -> None:
    grids, printed = executed_grids(table), grid_table(table)
    ratio = grids.ratio(printed.blocks)
    assert ((ratio > 0.4) & (ratio < 1.2)).all()
    # At the descriptions' own clocks the A100, whose clock is higher, is ahead by just that.
    at = [grids.blocks.index(b) for b in printed.blocks]
    assert np.allclose((grids.new_s / grids.old_s)[at] * grids.clocks_hz[1] / grids.clocks_hz[0], ratio)


def test_a_grid_that_was_not_run_is_told() -> None:
    with pytest.raises(SmlabError, match="no such grid was run"):
        executed_grids("butterfly").ratio((8, 9))
    with pytest.raises(SmlabError, match="not executed"):
        executed_grids("permutation")
