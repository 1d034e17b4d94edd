"""Spaces whose configurations are compiled: CUDA C by macros, and the list of Triton's autotuner."""

from pathlib import Path

import pytest

import smlab
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.tuning.simulated import AskedConfiguration, Sample, simulate_all
from smlab.validation.tuning.space_file import SpaceAsked, read_space
from whole_files import TUNED_TRITON

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

SOURCE = """
#if WIDE == 3
#error no kernel of this width
#endif
__constant__ float factor[4];
extern "C" __global__ void scaled(float *x, int n)
{
    __shared__ float room[ROOM];
    room[threadIdx.x % ROOM] = x[threadIdx.x];
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * WIDE;
    for (int i = first; i < first + WIDE && i < n; i++)
        x[i] = x[i] * factor[i % 4] + room[threadIdx.x % ROOM];
}
"""
SPACE = """
[kernel]
file = "scaled.cu"
[kernel.macros]
width = "WIDE"
[parameters]
width = [1, 2, 3]
BLOCK = [64, 128]
ROOM = [64, 20000]
[first]
width = 1
BLOCK = 64
ROOM = 64
[launch]
grid = "ceil(20000 / (BLOCK * width))"
block = "BLOCK"
[[argument]]
name = "x"
dtype = "float32"
shape = [20000]
make = "arange"
[[argument]]
name = "n"
dtype = "int32"
value = 20000
[constant.factor]
dtype = "float32"
value = [1, 2, 3, 4]
"""
TUNED = TUNED_TRITON + "\nplain = doubled.fn\n"
LAUNCH = """
[launch]
grid = "ceil(1000 / BLOCK)"
[[argument]]
name = "x"
dtype = "float32"
shape = [1000]
make = "arange"
[[argument]]
name = "n"
dtype = "int32"
value = 1000
"""


@pytest.fixture
def space(tmp_path: Path) -> Path:
    (tmp_path / "scaled.cu").write_text(SOURCE)
    (tmp_path / "space.toml").write_text(SPACE)
    return tmp_path / "space.toml"


def test_configurations_are_compiled_by_their_macros(space: Path, tmp_path: Path) -> None:
    found = smlab.tune(space, gpu="v100", out=tmp_path / "out", jobs=1)
    widths = {found.space.settings(row.numbers[0])["width"] for row in found.ranking}
    assert widths == {1, 2}
    reasons = {f.reason: f for f in found.failed}
    assert set(reasons) == {"does not compile"}
    # WIDE 3 is refused by the source, 80,000 bytes of static shared memory by the compiler.
    assert len(reasons["does not compile"].numbers) == 12 - len(found.ranking)
    assert "no kernel of this width" in reasons["does not compile"].example or "shared" in (
        reasons["does not compile"].example
    )
    again = smlab.tune(space, gpu="v100", out=tmp_path / "out", jobs=1, resume=True)
    assert again.to_dataframe().equals(found.to_dataframe())


def test_a_time_does_not_hang_on_what_ran_before(space: Path) -> None:
    """A worker's arrays are put back: a configuration's time is the same after others and alone."""
    asked = read_space(space)
    gpu, sample = load_gpu("v100"), Sample(1, 1)
    rows = [AskedConfiguration(asked.settings(n), asked.tables_of(n)) for n in range(len(asked))]
    in_one_call = simulate_all(asked.kernel, gpu, rows, sample, "in_one_call")
    alone = [simulate_all(asked.kernel, gpu, [row], sample, f"{n}")[0] for n, row in enumerate(rows)]
    assert [t.error for t in in_one_call] == [t.error for t in alone]
    fine = [(a.seconds, b.seconds) for a, b in zip(in_one_call, alone, strict=True) if not a.error]
    assert len(fine) == 4
    assert all(a == b for a, b in fine)


def test_an_autotuner_s_list_is_a_space(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    (tmp_path / "tuned.py").write_text(TUNED)
    (tmp_path / "launch.toml").write_text(LAUNCH)
    kernel = f"{tmp_path / 'tuned.py'}:doubled"
    found = smlab.tune(kernel, gpu="a100-40", launch=tmp_path / "launch.toml", out=tmp_path / "out", jobs=1)
    assert not found.failed
    settings = [found.space.settings(n) for n in range(len(found.space))]
    assert [(s["BLOCK"], s["num_warps"]) for s in settings] == [(64, 4), (512, 8)]
    assert len(found.ranking) == 2
    asked = SpaceAsked(launch=tmp_path / "launch.toml", architecture="sm_80")
    with pytest.raises(SmlabError, match="has no list of configurations"):
        read_space(f"{tmp_path / 'tuned.py'}:plain", asked)
