"""What the commands on profiles share: the profile, and the GPU that it is of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.cli.fast_start import check_profiles
from smlab.cli.tables import Listing
from smlab.cli.terminal import out
from smlab.commands.arguments import a_gpu
from smlab.examples import PROFILE
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, list_gpus, load_gpu
from smlab.hw_bench.gpu.devices import gpu_called
from smlab.hw_bench.profiles import Profile, read_profile
from smlab.hw_bench.profiles.profile import check_gpu


def chosen_profiles(profiles: Sequence[Path], example: bool, how: str) -> tuple[Path, ...]:
    """The profiles to read: those given, or the one that ships; `SmlabError` for both, and for none (``how``
    tells what else to say)."""
    check_profiles(profiles, example, how)
    return (PROFILE,) if example else tuple(profiles)


def label(path: Path) -> str:
    """What a profile is called in print: its path, or that it is the one that ships."""
    return "example profile" if path == PROFILE else str(path)


def short_label(path: Path) -> str:
    """As `label`, without the folders."""
    return label(path) if path == PROFILE else path.name


def kernel_column(listed: Listing) -> None:
    """The column of a table that names the kernels."""
    listed.add_column("kernel", fold=True, max_width=40, min_width=16)


PRINTED_ROWS: Final = 40
"""Kernels that a table in print shows; the document has all."""


def longest(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Which kernels to print, the longest first; says so where some are left out."""
    if len(seconds) > PRINTED_ROWS:
        out.print(f"the {PRINTED_ROWS} longest (--json gives all)")
    return np.argsort(-seconds, kind="stable")[:PRINTED_ROWS]


def profile_of(path: Path, given: str | Path | Gpu | None, option: str = "--gpu") -> tuple[Profile, Gpu, str]:
    """A profile, the GPU it is of (``given``, or found out), and a note on that choice (or nothing)."""
    if given is None:
        profile = read_profile(path)
        return profile, *gpu_of(profile, option)
    gpu = a_gpu(option.removeprefix("--"), given)
    return read_profile(path, gpu=gpu), gpu, ""


def gpu_of(profile: Profile, option: str = "--gpu") -> tuple[Gpu, str]:
    """The description that fits the profile best, and a note on the choice (or nothing); `SmlabError` if
    none does, and for a profile that names no GPU (``option`` would)."""
    device = profile.device
    if device.name is None and device.compute_capability is None:
        raise SmlabError.at(
            profile.path,
            "the profile does not name its GPU",
            expected=f"{option} with a name that `smlab gpus` lists, or with a description's path",
        )
    called = gpu_called(device.name) if device.name else None
    if called is not None and device.compute_capability in (None, called.compute_capability):
        return called, ""
    fitting: list[tuple[int, Gpu]] = []
    for name in list_gpus():
        gpu = load_gpu(name)
        try:
            fitting.append((len(check_gpu(profile.path, device, gpu)), gpu))
        except SmlabError:
            continue
    if not fitting:
        expected = f"{option} with a description's path, or one of " + ", ".join(list_gpus())
        raise SmlabError.at(profile.path, "no description of this GPU", str(device), expected)
    # Of those with the fewest warnings, the one of which most is known.
    fewest = min(warnings for warnings, _ in fitting)
    alike = [gpu for warnings, gpu in fitting if warnings == fewest]
    best = min(alike, key=lambda gpu: sum(c.kind == "assumed" for c in gpu.constants.values()))
    others = ", ".join(gpu.name for gpu in alike if gpu is not best)
    return best, f"taken as {best.name}; {others} would fit as well ({option} tells)" if others else ""
