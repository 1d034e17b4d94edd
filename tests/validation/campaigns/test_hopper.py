"""The machine of generation 9.0 beside what an H100 of ours has measured, and packs of launches."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.campaigns.hopper.judge import FITTED, GPU, judged, read_pipes, straight_cycles
from smlab.validation.campaigns.hopper.memory_units import FITTED as FITTED_CONSTANTS
from smlab.validation.campaigns.hopper.memory_units import (
    constant_chain,
    constant_operands,
    measured_constants,
    simulated_constants,
)
from smlab.validation.campaigns.hopper.packing import HardwareLaunch, write_pack
from smlab.validation.campaigns.hopper.pipes import PipeProbe

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

JUDGES = [
    *(("bar", 1, 8), ("bar", 1, 32), ("tanh", 1, 1), ("sin", 1, 4), ("d2i", 1, 4)),
    *(("redux_min", 1, 8), ("f2f16", 1, 8), ("iadd3", 1, 1), ("imin", 1, 32)),
]


@pytest.mark.parametrize(("link", "chains", "warps"), JUDGES)
def test_links_that_no_constant_comes_from_take_what_the_card_takes(
    link: str, chains: int, warps: int
) -> None:
    assert (link, chains, warps) not in FITTED
    probe = PipeProbe(link, chains, warps)
    row = judged(probe, read_pipes()[probe], load_gpu(GPU))
    assert row.ratio == pytest.approx(1, abs=0.06)


def test_code_that_l0_does_not_hold_comes_as_fast_as_on_the_card() -> None:
    gpu = load_gpu(GPU)
    assert straight_cycles(1024, gpu)[0] == pytest.approx(1.01, abs=0.03)  # an earlier launch left it
    assert straight_cycles(4096, gpu)[2] == pytest.approx(2.21, rel=0.05)


CONSTANTS = [
    *((constant_chain, 4, 4096, 1), (constant_chain, 16, 2560, 1), (constant_chain, 64, 1536, 1)),
    *((constant_chain, 64, 2048, 4), (constant_chain, 64, 4096, 8), (constant_operands, 256, 4, 1)),
    *((constant_operands, 1024, 4, 4), (constant_operands, 64, 64, 1), (constant_operands, 128, 64, 4)),
]


@pytest.mark.parametrize(("make", "first", "second", "warps"), CONSTANTS)
def test_tables_of_constants_take_what_the_card_takes(
    make: Callable[[int, int, int], HardwareLaunch], first: int, second: int, warps: int
) -> None:
    one = make(first, second, warps)
    assert one.name not in FITTED_CONSTANTS
    found = simulated_constants(one, load_gpu(GPU))
    assert found == pytest.approx(measured_constants()[one.name], rel=0.04)


def test_a_pack_names_arrays_for_addresses(tmp_path: Path) -> None:
    one = PipeProbe("iadd3", 1, 1).launch()
    assert write_pack(tmp_path / "pack.zip", [one]) == 1
    with zipfile.ZipFile(tmp_path / "pack.zip") as pack:
        (row,) = json.loads(pack.read("items.json"))
        assert "blob/" + row["cubin"] in pack.namelist()
    assert [array["name"] for array in row["arrays"]] == ["times", "sink", "in"]
    assert [place[:2] for place in row["relocations"]] == [[0, 0], [8, 1], [16, 2]]
    assert row["arrays"][0] == {"name": "times", "bytes": 256, "keep": True, "zeros": True}
    assert row["more"] == {"links": 256, "warps": 1}
    with pytest.raises(SmlabError, match="stands twice"):
        write_pack(tmp_path / "pack.zip", [one, one])


def test_large_arrays_travel_as_what_makes_them(tmp_path: Path) -> None:
    probe = PipeProbe("iadd3", 1, 1)
    one = probe.launch()
    made = {"make": "uniform", "dtype": "uint32", "shape": [64], "seed": 3}
    rows = HardwareLaunch(one.name, one.group, one.cubin, one.launch, made={"times": made})
    write_pack(tmp_path / "pack.zip", [rows])
    with zipfile.ZipFile(tmp_path / "pack.zip") as pack:
        (row,) = json.loads(pack.read("items.json"))
    assert row["arrays"][0]["row"] == made
    assert np.asarray(one.launch.arguments[0]).nbytes == row["arrays"][0]["bytes"]
