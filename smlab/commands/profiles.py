"""What the commands on profiles share: the profile, and the GPU that it is of."""

from __future__ import annotations

from pathlib import Path

from smlab.commands.arguments import a_gpu
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, list_gpus, load_gpu
from smlab.hw_bench.profiles import Profile, read_profile
from smlab.hw_bench.profiles.profile import check_gpu

DEFAULT_GPU = "v100"
"""Where neither ``--gpu`` nor the profile tells which GPU it is (nvprof and the simulator do not)."""


def profile_of(path: Path, given: str | Path | Gpu | None) -> tuple[Profile, Gpu, str]:
    """A profile, the GPU it is of (``given``, or found out), and a note on that choice (or nothing)."""
    if given is None:
        profile = read_profile(path)
        return profile, *gpu_of(profile)
    gpu = a_gpu("gpu", given)
    return read_profile(path, gpu=gpu), gpu, ""


def gpu_of(profile: Profile) -> tuple[Gpu, str]:
    """The description that fits the profile best, and a note on the choice (or nothing); `SmlabError` if
    none does."""
    device = profile.device
    if device.name is None and device.compute_capability is None:
        return load_gpu(
            DEFAULT_GPU
        ), f"the profile does not name its GPU; {DEFAULT_GPU} is assumed (--gpu tells)"
    fitting: list[tuple[int, Gpu]] = []
    for name in list_gpus():
        gpu = load_gpu(name)
        try:
            fitting.append((len(check_gpu(profile.path, device, gpu)), gpu))
        except SmlabError:
            continue
    if not fitting:
        expected = "--gpu with a description's path, or one of " + ", ".join(list_gpus())
        raise SmlabError.at(profile.path, "no description of this GPU", str(device), expected)
    # Among equals, the one of which most is known.
    best = min(
        fitting, key=lambda pair: (pair[0], sum(c.kind == "assumed" for c in pair[1].constants.values()))
    )[1]
    others = [gpu.name for _, gpu in fitting if gpu is not best]
    return (
        best,
        f"taken as {best.name}; {', '.join(others)} would fit as well (--gpu tells)" if others else "",
    )
