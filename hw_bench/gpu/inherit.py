"""What a description takes over from the one that it extends, and what it may not.

Three sorts of constants. Those of the architecture (the SM, its pipes, latencies in cycles) are taken over as
they are. Those of the board must be said by every board: SMs, boost clock, bandwidth of the memory. What
follows from these (peaks, base clock, bandwidth of the caches, what a stream sustains) is scaled with them
unless it is said, and is then `assumed`: a maker's figure for one board is no specification of another. A
board's power limit and what its instructions take cannot be guessed, so they are left out unless they are
said.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.constants import Constant
from smlab.hw_bench.gpu.schema import KEYS_BY_NAME

OF_ONE_CARD: Final = ("published", "measured", "calibrated")
"""Kinds of which a value is known of one card only."""

REQUIRED: Final = ("gpu.sms", "clock.boost_hz", "dram.bandwidth_bytes_per_s")
"""What every board must say itself."""

_NOT_GUESSED: Final = (*("power.limit_w", "power.instruction_energy_j", "power.tensor_operation_energy_j"),)

_AS_CLOCK: Final = ("clock.base_hz", "clock.sm_hz")
_AS_MEMORY: Final = ("clock.memory_hz", "dram.sustained_bandwidth_bytes_per_s")
_AS_SMS: Final = (
    *(f"peak.{p}_flops_per_s" for p in ("fp32", "fp64", "fp16", "tensor_fp16", "sustained")),
    *("l1.sustained_bandwidth_bytes_per_s", "l2.bandwidth_bytes_per_s"),
)
_OF_THE_BOARD: Final = ("l2.bytes", "dram.bytes")
"""Not scaled, but a guess on another board."""


def inherited(
    where: str,
    parent: str,
    constants: Mapping[str, Constant],
    described: Mapping[str, Constant],
    *,
    same_card: bool,
    without: Collection[str],
) -> dict[str, Constant]:
    """The constants that a description takes over, ``{key: constant}``, those of ``described`` not among
    them.

    ``constants`` are those of ``parent``, ``described`` what the description says itself. With ``same_card``
    all are taken over as they are.

    Raises:
        SmlabError: another card that does not say one of `REQUIRED`.
    """
    kept = {name: c for name, c in constants.items() if name not in without and name not in described}
    if same_card:
        return kept
    for name in REQUIRED:
        if name not in described:
            key = KEYS_BY_NAME[name]
            what = f"is missing: it belongs to the board and is not taken over from {parent}"
            raise SmlabError.at(
                f"{where}: {name}", what, expected=f"{key.doc}, in {key.unit}, or same_card = true"
            )
    sms, clock, memory = (_number(described[name]) / _number(constants[name]) for name in REQUIRED)
    ratios = dict.fromkeys(_AS_CLOCK, (clock, "the boost clock"))
    ratios |= dict.fromkeys(_AS_MEMORY, (memory, "the rated bandwidth"))
    ratios |= dict.fromkeys(_AS_SMS, (sms * clock, "SMs times the boost clock"))
    taken = {}
    for name, constant in kept.items():
        if name in _NOT_GUESSED:
            continue
        if name in ratios:
            ratio, with_what = ratios[name]
            how = f"assumed: {parent}'s value scaled with {with_what}, x {ratio:.4g}"
            taken[name] = _scaled(constant, ratio, f"{how}; there it is {constant.kind}: {constant.source}")
        elif constant.kind in OF_ONE_CARD or name in _OF_THE_BOARD:
            source = f"assumed: as on {parent}, where it is {constant.kind}: {constant.source}"
            taken[name] = replace(constant, kind="assumed", source=source)
        else:
            taken[name] = constant
    return taken


def _scaled(constant: Constant, ratio: float, source: str) -> Constant:
    low, high = (None if end is None else end * ratio for end in (constant.low, constant.high))
    value = _number(constant) * ratio
    # a product of floats may leave its own interval by its last digit
    low, high = (None if low is None else min(low, value)), (None if high is None else max(high, value))
    return replace(constant, value=value, kind="assumed", source=source, low=low, high=high, note=None)


def _number(constant: Constant) -> float:
    assert not isinstance(constant.value, str), constant.key
    return float(constant.value)
