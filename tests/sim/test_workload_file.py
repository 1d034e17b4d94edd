"""Workload files: what they give, and how each mistake is told."""

from pathlib import Path

import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Duration, Instruction, Loop, read_workload, simulate
from smlab.sim.address_patterns import Affine, Grouped, RandomWords
from smlab.sim.workloads.workload import NO_WARP

GOOD = """
name = "demo"
[kernel]
warps_per_block = 4
blocks = 2
shared_bytes_per_block = 4096
[[program]]
warps = [0, 2]
body = [
    { op = "think", name = "t", cycles = 20, distribution = "exponential" },
    { loop = 3, body = [
        { op = "global-load", name = "x", after = ["t"], address = { pattern = "affine", warp_stride_bytes = 4096 } },
        { loop = 2, body = [
            { op = "atomic-add", after = ["x"], address = { pattern = "random", words = 256 } },
        ] },
    ] },
]
[[program]]
warps = [3]
body = [{ op = "atomic-cas", lanes = 8, returns = false, address = { pattern = "grouped", same_word = 4, same_bank = 2 } }]
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "w.toml"
    path.write_text(text)
    return path


def test_a_file_gives_the_kernel_that_it_describes(tmp_path: Path) -> None:
    kernel = read_workload(written(tmp_path, GOOD))
    assert (kernel.name, kernel.blocks, kernel.warps_per_block, kernel.shared_bytes_per_block) == (
        "demo",
        2,
        4,
        4096,
    )
    assert kernel.roles == ((0, NO_WARP, 0, 1),)
    think, loop = kernel.programs[0].body
    assert think == Instruction("think", name="t", duration=Duration(20, "exponential"))
    assert isinstance(loop, Loop)
    assert loop.body[0] == Instruction(
        "global-load", name="x", after=("t",), memory=Affine(warp_stride_bytes=4096)
    )
    assert loop.body[1] == Loop(2, (Instruction("atomic-add", after=("x",), shared=RandomWords(256)),))
    assert kernel.programs[1].body == (
        Instruction("atomic-cas", lanes=8, returns=False, shared=Grouped(4, 2)),
    )
    assert kernel.warp_instructions == 2 * (2 * (1 + 3 * (1 + 2)) + 1)


def test_the_example_in_the_repository_runs(repository: Path) -> None:
    kernel = read_workload(repository / "examples" / "two_phase.toml")
    result = simulate(kernel, load_gpu("a100-40"))
    assert result.warp_instructions == kernel.warp_instructions
    assert result.stalls["barrier"] > 0
    assert result.stalls["long_scoreboard"] > 0


MISTAKES = {
    "not TOML": ("= 3", "is not valid TOML"),
    "no kernel": ("[[program]]\nbody = []", "kernel: missing key"),
    "unknown key": (
        GOOD.replace("blocks = 2", "blocs = 2"),
        r"kernel.blocs: unknown key \(expected perhaps blocks\)",
    ),
    "unknown class": (
        GOOD.replace('"think"', '"thnk"'),
        r"program\[0\].body\[0\].op: unknown instruction class.*perhaps think",
    ),
    "unknown pattern": (
        GOOD.replace('"random"', '"rnd"'),
        r"program\[0\].body\[1\].body\[1\].body\[0\]: address",
    ),
    "a loop that never ends": (
        GOOD.replace("loop = 3", "loop = inf"),
        r"program\[0\].body\[1\]: loop: never ends",
    ),
    "a loop of nothing": (
        GOOD.replace("loop = 3", "loop = 0"),
        r"body\[1\]: loop: not a usable count \(got 0",
    ),
    "half a loop": (GOOD.replace("loop = 3", "loop = 2.5"), r"body\[1\]: loop: not a usable count \(got 2.5"),
    "no such warp": (
        GOOD.replace("warps = [3]", "warps = [4]"),
        r"program\[1\].warps: no such warp in a block \(got 4; expected 0 to 3",
    ),
    "two programs": (
        GOOD.replace("warps = [3]", "warps = [2]"),
        r"program\[1\].warps: a warp has two programs \(got 2",
    ),
    "unknown name": (
        GOOD.replace('after = ["t"]', 'after = ["u"]'),
        "waits for an instruction that is not there .got 'u'",
    ),
    "a think without a time": (GOOD.replace("cycles = 20, ", ""), r"body\[0\]: think: needs a time"),
    "address of arithmetic": (
        GOOD.replace('op = "think"', 'op = "think", address = { pattern = "stride" }'),
        "think has no address",
    ),
    "lanes": (
        GOOD.replace("lanes = 8", "lanes = 40"),
        r"program\[1\].body\[0\]: atomic-cas: lanes: out of range \(got 40",
    ),
    "a time below one cycle": (
        GOOD.replace("cycles = 20", "cycles = 0.5"),
        r"body\[0\]: mean_cycles: out of range \(got 0.5",
    ),
    "blocks": (GOOD.replace("blocks = 2", "blocks = 0"), r"kernel.blocks: .*got 0"),
    "a string for a number": (GOOD.replace("blocks = 2", 'blocks = "2"'), "kernel.blocks: .*got '2'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_one_line_with_its_place(mistake: str, tmp_path: Path) -> None:
    text, message = MISTAKES[mistake]
    with pytest.raises(SmlabError, match=message) as caught:
        read_workload(written(tmp_path, text))
    assert str(caught.value).startswith(str(tmp_path / "w.toml"))
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SmlabError, match="there is no such file"):
        read_workload(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SmlabError, match="is not a text file"):
        read_workload(tmp_path / "binary.toml")
