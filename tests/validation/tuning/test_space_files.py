"""Tuning spaces as files: ours, the problem format that Kernel Tuner and KTT share, and results of both."""

import json
from pathlib import Path
from typing import Any

import pytest

from smlab.examples import TUNING_SPACE
from smlab.hw_bench.errors import SmlabError
from smlab.validation.tuning import space
from smlab.validation.tuning.space import allowed
from smlab.validation.tuning.space_file import SpaceAsked, read_space
from whole_files import KTT

OWN = """
restrictions = ["A * B <= 64", "PAD == 0 or A > 8"]

[kernel]
file = "k.cu"
name = "k"

[kernel.defines]
SIZE = 100

[kernel.macros]
A = "TILE_A"

[parameters]
A = [8, 16]
B = "[2 * i for i in range(1, 4)]"
PAD = [0, 1]

[launch]
grid = ["ceil(SIZE / A)", "B"]
block = "A * B"

[[argument]]
name = "x"
dtype = "float32"
shape = [100]
make = "zeros"
"""
SOURCE = 'extern "C" __global__ void k(float *x) { x[threadIdx.x] = TILE_A * B; }\n'
PROBLEM: dict[str, Any] = {
    "General": {"BenchmarkName": "sums"},
    "ConfigurationSpace": {
        "TuningParameters": [
            {"Name": "block_size_x", "Type": "int", "Values": "[32 * i for i in range(1, 5)]", "Default": 64},
            {"Name": "tile", "Type": "int", "Values": [1, 2], "Default": 2},
        ],
        "Conditions": [{"Expression": "block_size_x * tile <= 128", "Parameters": ["block_size_x", "tile"]}],
    },
    "KernelSpecification": {
        "Language": "CUDA",
        "CompilerOptions": ["-std=c++11", "-use_fast_math"],
        "KernelName": "k",
        "KernelFile": "k.cu",
        "ProblemSize": [1000],
        "GridDivX": ["block_size_x", "tile"],
        "LocalSize": {"X": "block_size_x", "Y": "1"},
        "SharedMemory": 0,
        "Arguments": [
            {
                "Name": "x",
                "Type": "float",
                "MemoryType": "Vector",
                "Size": "ProblemSize[0] * max(tile)",
                "FillType": "Random",
                "FillValue": 2.0,
            },
            {"Name": "d", "Type": "float", "MemoryType": "Vector", "MemType": "Constant", "Size": 4},
            {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillValue": 1000},
        ],
    },
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "k.cu").write_text(SOURCE)
    (tmp_path / "space.toml").write_text(OWN)
    return tmp_path


def problem(folder: Path, **changes: Any) -> Path:
    content = json.loads(json.dumps(PROBLEM))
    content["KernelSpecification"] |= changes
    path = folder / "problem.json"
    path.write_text(json.dumps(content))
    return path


def test_a_space_file_has_what_restrictions_leave(folder: Path) -> None:
    found = read_space(folder / "space.toml")
    assert found.parameters == ("A", "B", "PAD")
    kept = [(8, b, 0) for b in (2, 4, 6)] + [(16, b, p) for b in (2, 4) for p in (0, 1)]
    assert list(found.configurations) == kept
    assert found.restricted == 12 - len(kept)
    assert found.settings(0) == {"A": 8, "B": 2, "PAD": 0}
    assert found.kernel.macros_of(found.settings(0)) == {"SIZE": "100", "TILE_A": "8", "B": "2", "PAD": "0"}


def test_parameters_that_nothing_reads_make_no_code(folder: Path) -> None:
    """PAD is in neither source nor launch: its values are one code, which is simulated once."""
    found = read_space(folder / "space.toml")
    groups = found.distinct()
    assert sorted(map(len, groups.values())) == [1, 1, 1, 2, 2]
    (folder / "k.cu").write_text('#include "other.h"\n' + SOURCE)
    assert len(read_space(folder / "space.toml").distinct()) == len(found)


def test_the_example_s_launches_are_told_apart() -> None:
    found = read_space(TUNING_SPACE)
    assert len(found.distinct()) == len(found) == 22
    assert found.settings(found.first) == {"THREADS": 256, "BLOCKS": 8}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"A * B <= 64"', '"A * C <= 64"', "restriction 1: names no parameter .got 'C'"),
        ('"A * B <= 64"', '"A * B <="', "restriction 1: cannot be read"),
        ('"A * B <= 64"', '"A / (B - B)"', "restriction 1: divides by zero"),
        ('"A * B <= 64"', '"A > 100"', "leave no configuration"),
        ('"A * B <= 64"', "3", "restrictions: not a list of texts"),
        ("A = [8, 16]", "A = [8, 8]", "A: has a value twice"),
        ("A = [8, 16]", "A = []", "A: not a list of values"),
        ("A = [8, 16]", "A = [[8]]", "A: not a value of a parameter"),
        ("A = [8, 16]", '"A-B" = [8]', "A-B: not a name"),
        ("[2 * i for i in range(1, 4)]", "open('x')", "B: cannot be evaluated"),
        ('file = "k.cu"', 'file = "none.cu"', "none.cu: there is no such file"),
        ('file = "k.cu"', "fil = 3", "unknown key .got 'fil'; expected perhaps file"),
        ("[launch]", "[lanch]", "unknown key .got 'lanch'; expected perhaps launch"),
        ('A = "TILE_A"', 'Z = "TILE_A"', "macros: names no parameter .got 'Z'"),
        ("[parameters]", "[first]\nA = 8\n[parameters]", r"\[first\]: not a configuration"),
        ("[parameters]", "[first]\nA = 8\nB = 2\nPAD = 1\n[parameters]", "is not in the space"),
        ("[parameters]", "[configurations]\n[parameters]", "needs one of"),
    ],
)
def test_a_wrong_space_is_told_in_one_line(folder: Path, old: str, new: str, says: str) -> None:
    path = folder / "space.toml"
    assert old in OWN
    path.write_text(OWN.replace(old, new, 1))
    with pytest.raises(SmlabError, match=says) as told:
        read_space(path)
    assert "\n" not in str(told.value)


def test_a_space_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {name: tuple(range(10)) for name in "abcdefgh"}
    monkeypatch.setattr(space, "MAX_CONFIGURATIONS", 1000)
    with pytest.raises(SmlabError, match="too many configurations"):
        allowed("x", values, [])
    monkeypatch.setattr(space, "MAX_VISITED", 1000)
    with pytest.raises(SmlabError, match="too many combinations"):
        allowed("x", values, ["a + b + c + d + e + f + g + h < 0"])


def test_a_problem_of_kernel_tuner(folder: Path) -> None:
    found = read_space(problem(folder))
    assert list(found.configurations) == [(32, 1), (32, 2), (64, 1), (64, 2), (96, 1), (128, 1)]
    assert (found.title, found.restricted) == ("sums", 2)
    assert found.settings(found.first) == {"block_size_x": 64, "tile": 2}
    assert found.kernel.flags == "-use_fast_math"
    launch = found.tables_of(3)
    assert launch == {
        "grid": ["ceil(1000 / ((block_size_x) * (tile)))"],
        "block": ["block_size_x", "1"],
        "shared_bytes": 0,
    }
    x, d, n = found.kernel.tables["argument"]
    assert (x["shape"], x["low"], x["high"], x["dtype"]) == ([2000], 0, 2.0, "float32")
    assert n == {"name": "n", "dtype": "int32", "value": 1000}
    assert found.kernel.tables["constant"] == {"d": {k: v for k, v in d.items() if k != "name"}}


def test_a_problem_of_ktt_tells_blocks_or_threads(folder: Path) -> None:
    """KTT's GlobalSize is in blocks for CUDA, in threads where the file says OpenCL."""
    size = {"X": "1024 // block_size_x", "Y": "4"}
    kind = {
        "Arguments": [],
        "ProblemSize": None,
        "GridDivX": None,
        "GlobalSize": size,
        "GlobalSizeType": "CUDA",
    }
    assert read_space(problem(folder, **kind)).tables_of(0)["grid"] == ["1024 // block_size_x", "4"]
    threads = read_space(problem(folder, **{**kind, "GlobalSizeType": "OpenCL"})).tables_of(0)["grid"]
    assert threads == ["ceil((1024 // block_size_x) / (block_size_x))", "ceil((4) / (1))"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"Language": "OpenCL"}, "Language: is not executed here"),
        ({"KernelFile": "none.cu"}, "there is no such file"),
        ({"KernelName": 3}, "KernelName: unusable value"),
        ({"ProblemSize": "x"}, "ProblemSize: not sizes"),
        ({"GridDivX": 3}, "GridDivX: not a list"),
        ({"Arguments": [{"Type": "string"}]}, "Type: unknown .got 'string'"),
        ({"Arguments": [{"Type": "float", "Size": "n"}]}, "Size: names something that is not there"),
        ({"Arguments": [{"Type": "float", "Size": 4, "FillType": "BinaryRaw"}]}, "is not made here"),
        ({"Arguments": {}}, "Arguments: is not a list"),
    ],
)
def test_a_wrong_problem_is_told_in_one_line(folder: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SmlabError, match=says) as told:
        read_space(problem(folder, **changes))
    assert "\n" not in str(told.value)


def test_results_bring_configurations_and_launches(folder: Path) -> None:
    (folder / "found.json").write_text(json.dumps(KTT))
    (folder / "launch.toml").write_text("[launch]\ngrid = 1\nblock = 1\n")
    asked = SpaceAsked(folder / "k.cu", folder / "launch.toml", "k")
    found = read_space(folder / "found.json", asked)
    assert found.times is not None
    assert found.configurations == found.times.config
    assert found.times.grid is not None
    assert found.tables_of(0)["grid"] == [int(n) for n in found.times.grid[0]]
    with pytest.raises(SmlabError, match="results have no kernel"):
        read_space(folder / "found.json")
    own = OWN.partition("[parameters]")[0].replace('restrictions = ["A * B <= 64", "PAD == 0 or A > 8"]', "")
    own = own.replace('[kernel.macros]\nA = "TILE_A"\n', "")
    name = found.parameters[0]
    value = found.configurations[0][0]
    listed = f'{own}\n[configurations]\nfile = "found.json"\nwhere = {{ {name} = {json.dumps(value)} }}\n'
    (folder / "listed.toml").write_text(listed)
    few = read_space(folder / "listed.toml")
    assert {few.settings(n)[name] for n in range(len(few))} == {value}
    assert len(few) + few.restricted == len(found)
