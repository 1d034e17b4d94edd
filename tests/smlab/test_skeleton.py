"""A kernel without a launch gets one to start from, which can be read."""

from dataclasses import replace
from pathlib import Path

import pytest

from smlab.cli.main import run
from smlab.commands.run.skeleton import skeleton
from smlab.examples import KERNEL
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass.image import KernelParameter
from smlab.sim.frontends.registry import load_kernel
from smlab.sim.isa.launch.launch_file import read_launch


def test_it_has_every_parameter_and_can_be_read(tmp_path: Path) -> None:
    sizes = (8, 4, 2, 1)
    parameters = tuple(KernelParameter(8 * n, size) for n, size in enumerate(sizes))
    image = replace(load_kernel(KERNEL, "sm_70"), parameters=parameters)
    (tmp_path / "k.toml").write_text(skeleton(image))
    launch = read_launch(tmp_path / "k.toml")
    assert launch.names == ("p0", "p1", "p2", "p3")
    assert [argument.itemsize for argument in launch.arguments] == [4, 4, 2, 1]
    assert launch.arguments[0].shape == (1024,)
    assert launch.returned == ("p0",)


def test_a_missing_launch_prints_it_and_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", str(KERNEL)]) == 2
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1
    (tmp_path / "k.toml").write_text(printed.out)
    assert read_launch(tmp_path / "k.toml").block == (256, 1, 1)
    assert run(["run", str(KERNEL), "--json"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("suffix", "hint"), [(".ptx", r"a line such as \.target"), (".so", "nvcc")])
def test_files_without_machine_code_of_their_own_get_a_hint(suffix: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / f"k{suffix}").write_bytes(b"")
    with pytest.raises(SmlabError, match=hint):
        load_kernel(tmp_path / f"k{suffix}", "sm_70")
