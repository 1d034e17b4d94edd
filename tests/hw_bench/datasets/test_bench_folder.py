"""Folders of ``smlab bench run``: what the machine code tells, and which times were simulated."""

import json
from pathlib import Path

import numpy as np
import pytest

from smlab.hw_bench.datasets.bench_folder import read_bench_folder
from smlab.hw_bench.errors import SmlabError

TABLE = """kernel,size,blocks,threads,seconds_median
butterfly,0,8,1024,1e-06
butterfly,0,96,1024,2e-06
knn,64,2,32,3e-05
"""


def folder(where: Path, note: object) -> Path:
    (where / "portability.csv").write_text(TABLE)
    (where / "portability.json").write_text(note if isinstance(note, str) else json.dumps(note))
    return where


def test_registers_and_shared_memory_are_those_of_each_kernels_code(tmp_path: Path) -> None:
    codes = {"butterfly": {"registers": 18, "static_shared_bytes": 4096}, "knn": {"not_checked": "none"}}
    found = read_bench_folder(folder(tmp_path, {"gpu": "Tesla V100", "machine_code": codes}))
    assert found.registers_per_thread.tolist()[:2] == [18, 18]
    assert found.shared_bytes_per_block.tolist()[:2] == [4096, 4096]
    assert np.isnan([found.registers_per_thread[2], found.shared_bytes_per_block[2]]).all()
    assert found.device == "Tesla V100"
    assert not found.exact


def test_a_note_that_is_no_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SmlabError, match=r"portability.json: line 1: is not JSON"):
        read_bench_folder(folder(tmp_path, "no JSON"))


@pytest.mark.parametrize("note", ["[]", '{"machine_code": [1]}', '{"machine_code": {"knn": 3}}'])
def test_a_note_that_tells_nothing_leaves_the_times(tmp_path: Path, note: str) -> None:
    found = read_bench_folder(folder(tmp_path, note))
    assert found.seconds.tolist() == [1e-6, 2e-6, 3e-5]
    assert np.isnan(found.registers_per_thread).all()


def test_a_simulated_folder_says_so_and_counts_the_steady_launch(tmp_path: Path) -> None:
    cold_and_steady = np.array([[3e-6, 1e-6], [4e-6, 2e-6]])
    np.savez(tmp_path / "portability.samples.npz", **{"butterfly/seconds": cold_and_steady})
    found = read_bench_folder(folder(tmp_path, {"SIMULATED": "by smlab", "gpu": "simulated v100"}))
    assert found.exact
    assert found.runs == ((1e-6,), (2e-6,), (3e-5,))
    measured = read_bench_folder(folder(tmp_path, {"gpu": "Tesla V100"}))
    assert measured.runs == ((3e-6, 1e-6), (4e-6, 2e-6), (3e-5,))
