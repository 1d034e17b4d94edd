"""Which GPU a kernel runs on, as the options say: a description, at a clock, with constants changed. It has
one or all of the alternatives for its atomic unit that the evidence leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from smlab.commands.simulate.workload import GPU_PREFIX, changed_gpu, split_setting, value_of
from smlab.hw_bench.errors import SmlabError, nearest
from smlab.hw_bench.gpu.alternatives import Alternative
from smlab.hw_bench.gpu.constants import SEEN
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.gpu.schema import KEYS_BY_NAME

ALL: Final = "all"
CLOCK: Final = "clock.sm_hz"
MAX_MHZ: Final = 10_000


@dataclass(frozen=True)
class GpuChoice:
    """``--gpu``, ``--clock`` (MHz), ``--set`` and ``--alternative`` as they were given."""

    gpu: str
    clock_mhz: float | None = None
    settings: tuple[str, ...] = ()
    alternative: str | None = None


def chosen_gpu(choice: GpuChoice) -> Gpu:
    """The description with the options' clock and constants.

    Raises:
        SmlabError: an unknown GPU, key or value, by name; two clocks.
    """
    return at_clock(with_settings(load_gpu(choice.gpu), choice.settings), choice.clock_mhz)


def with_settings(gpu: Gpu, settings: Sequence[str]) -> Gpu:
    """The GPU with what ``--set gpu.KEY=VALUE`` says.

    Raises:
        SmlabError: an unknown key or value, by name.
    """
    return changed_gpu(gpu, _pairs(settings))


def constants_of(settings: Sequence[str], clock_mhz: float | None) -> dict[str, Any]:
    """What ``--set gpu.KEY=VALUE`` and ``--clock`` say, by ``gpu.KEY``."""
    constants = {key: value_of(key, text) for key, text in _pairs(settings).items()}
    return constants if clock_mhz is None else {**constants, f"{GPU_PREFIX}{CLOCK}": clock_of(clock_mhz)}


def _pairs(settings: Sequence[str]) -> dict[str, str]:
    """``gpu.KEY`` and the text of its value; `SmlabError` for another key."""
    pairs = dict(split_setting(text) for text in settings)
    for key, value in pairs.items():
        if not key.startswith(GPU_PREFIX):
            guess = nearest(key, KEYS_BY_NAME)
            expected = f"perhaps {GPU_PREFIX}{guess}={value}" if guess else "gpu.KEY=VALUE"
            raise SmlabError.at("--set", "only the GPU has keys to set", f"{key}={value}", expected)
    return pairs


def at_clock(gpu: Gpu, clock_mhz: float | None) -> Gpu:
    """The GPU at a clock of its SMs that somebody saw; as it is without one."""
    if clock_mhz is None:
        return gpu
    return gpu.with_values({CLOCK: clock_of(clock_mhz)}, SEEN, "measured", "--clock")


def clock_of(clock_mhz: float) -> float:
    """The clock in Hz that ``--clock`` gives; `SmlabError` for one that no GPU has."""
    if not 1 <= clock_mhz <= MAX_MHZ:
        raise SmlabError.at("--clock", "no clock of a GPU", clock_mhz, f"1 to {MAX_MHZ:,} MHz")
    return 1e6 * clock_mhz


def chosen_alternatives(gpu: Gpu, wanted: str | None) -> Sequence[tuple[Alternative, Gpu]]:
    """The alternatives for the atomic unit to run: the description's own, one by name, or all of them.

    Raises:
        SmlabError: a name that the description does not have.
    """
    variants = gpu.variants()
    if wanted is None:
        return variants[:1]
    chosen = [one for one in variants if wanted in (ALL, one[0].name)]
    if not chosen:
        names = ", ".join([*(alternative.name for alternative, _ in variants), ALL])
        raise SmlabError.at("--alternative", f"{gpu.name} has no such alternative", wanted, f"one of {names}")
    return chosen


def clock_text(gpu: Gpu) -> str:
    """The clock that a time was computed with, and what it rests on: ``1,380 MHz (assumed, 1,200 to
    1,530)``."""
    clock = gpu.constants[CLOCK]
    bounds = [b for b in (clock.low, clock.high) if b is not None]
    interval = f", {bounds[0] / 1e6:,.0f} to {bounds[1] / 1e6:,.0f}" if len(bounds) == 2 else ""
    return f"{gpu.number(CLOCK) / 1e6:,.0f} MHz ({clock.kind}{interval})"
