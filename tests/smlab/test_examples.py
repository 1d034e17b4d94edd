"""What ships to be tried: the profile says what it is and is what its kernels give; each command reads it."""

import json
from pathlib import Path

import pytest
from PIL import Image

from smlab.cli.main import run
from smlab.examples import GPU, PROFILE
from smlab.examples.making import HISTOGRAMS, WORKLOADS, write_profile
from smlab.hw_bench.profiles import read_profile
from smlab.models.roofline.ceilings import LATENCY


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    assert run(list(arguments)) == 0
    printed = capsys.readouterr()
    return printed.out, " ".join(printed.err.split())


@pytest.mark.parametrize("command", ["utilization", "roofline", "project"])
def test_the_example_runs_as_text_as_json_and_as_a_picture(command: str, tmp_path: Path, capsys) -> None:
    out, err = said(capsys, command, "--example")
    assert out.startswith("example profile")
    assert "histogram_flat" in out
    assert f"SIMULATED by smlab on {GPU}, not measured" in err
    picture = tmp_path / "p.png"
    out, err = said(capsys, command, "--example", "--json", "--plot", str(picture))
    document = json.loads(out)
    names = {row["kernel"] for row in document["kernels"]}
    assert {"histogram_flat", "histogram_noise", "compact"} <= names
    if command == "utilization":
        assert {row["reason"] for row in document["skipped"]} == {"no shared-memory atomics"}
    else:
        assert names == {*HISTOGRAMS, *WORKLOADS}
    with Image.open(picture) as image:
        assert min(image.size) > 300
    assert str(PROFILE.parent) not in out + err


def test_the_example_has_a_kernel_for_each_kind_of_answer(capsys) -> None:
    found = json.loads(said(capsys, "roofline", "--example", "--json")[0])["kernels"]
    assert {row["kernel"]: row["limiter"] for row in found} == {
        "histogram_flat": "shared",
        "histogram_noise": LATENCY,
        "compact": "dram",
        "saxpy": "dram",
        "matmul": "fp32",
        "hash_keys": "issue",
        "walk_list": LATENCY,
    }


def test_the_profile_is_what_its_kernels_give(tmp_path: Path) -> None:
    """Made anew by ``python -m smlab.examples``."""
    write_profile(tmp_path / "profile.csv")
    remake = "the simulator gives other counters now: make it anew with `python -m smlab.examples`"
    assert (tmp_path / "profile.csv").read_text() == PROFILE.read_text(), remake


def test_the_profile_says_that_it_is_simulated_and_on_which_gpu() -> None:
    profile = read_profile(PROFILE)
    assert profile.format == "ncu-wide"
    assert profile.notes[0].startswith("SIMULATED by smlab")
    assert f"on {GPU}, not measured" in profile.notes[0]
    assert (profile.device.name, profile.device.compute_capability) == ("NVIDIA A100 PCIe 40 GB", "8.0")
    assert list(dict.fromkeys(profile.table.kernel)) == [*HISTOGRAMS, *WORKLOADS]
