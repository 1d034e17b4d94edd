"""``smlab port --samples``: where the same kernels stall on two GPUs, instruction by instruction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smlab.commands.arguments import a_path
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.profiles.pc_samples.ncu_report import read_report_samples
from smlab.hw_bench.profiles.pc_samples.sample_files import read_samples
from smlab.hw_bench.profiles.pc_samples.samples import KernelSamples
from smlab.hw_bench.sass.linking import plain_name
from smlab.models.portability.stalled_code import StalledPlace, stalled_places


@dataclass(frozen=True)
class StalledKernel:
    """Places of one kernel's code by the change of their share of the stalled samples; ``samples`` are how
    many each side has."""

    kernel: str
    samples: tuple[int, int]
    places: tuple[StalledPlace, ...]


def stalled_kernels(
    files: Mapping[str, str | Path], platforms: tuple[str, ...]
) -> dict[str, tuple[StalledKernel, ...]]:
    """The samples of each platform compared with the first's, by its name; nothing without files.

    Raises:
        SmlabError: a name that is no platform's, none for the first one, an unreadable file, or no kernel
            that both have samples of.
    """
    for name in files:
        if name not in platforms:
            raise SmlabError.at("--samples", "no file of that name", name, ", ".join(platforms))
    if not files:
        return {}
    if platforms[0] not in files or len(files) < 2:
        expected = f"{platforms[0]}=FILE and another's"
        raise SmlabError.at("--samples", "nothing to compare with", ", ".join(files), expected)
    read = {name: _read(a_path(f"samples[{name!r}]", path)) for name, path in files.items()}
    source = read.pop(platforms[0])
    return {name: _compared(name, source, target) for name, target in read.items()}


def _read(path: Path) -> tuple[KernelSamples, ...]:
    return read_report_samples(path) if path.suffix == ".ncu-rep" else (read_samples(path),)


def _compared(
    name: str, source: tuple[KernelSamples, ...], target: tuple[KernelSamples, ...]
) -> tuple[StalledKernel, ...]:
    if len(source) == len(target) == 1:
        pairs = [(source[0], target[0])]
    else:
        of = {plain_name(samples.kernel): samples for samples in target}
        pairs = [(one, of[key]) for one in source if (key := plain_name(one.kernel)) in of]
    if not pairs:
        raise SmlabError.at("--samples", f"no kernel of {name} has samples on both", source[0].kernel)
    return tuple(
        StalledKernel(here.kernel, (here.samples, there.samples), tuple(stalled_places(here, there)))
        for here, there in pairs
    )


def stalled_rows(stalled: Mapping[str, tuple[StalledKernel, ...]]) -> list[dict[str, Any]]:
    """The rows of ``stalled_code`` in the JSON document."""
    return [
        {
            "target": name,
            "kernel": kernel.kernel,
            "line": place.line,
            "text": place.text,
            "source_share": place.source,
            "target_share": place.target,
            "change": place.change,
            "reasons": dict(place.reasons),
        }
        for name, kernels in stalled.items()
        for kernel in kernels
        for place in kernel.places
    ]
