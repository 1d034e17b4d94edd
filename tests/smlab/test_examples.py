"""What ships to be tried: the profile says what it is, is what its kernels give, and names its GPU."""

from pathlib import Path

from smlab.hw_bench.profiles import read_profile

from smlab.examples import GPU, PROFILE
from smlab.examples.making import HISTOGRAMS, WORKLOADS, write_profile


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
