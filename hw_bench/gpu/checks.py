"""Checks of a GPU description as a whole: that it is complete and that its constants agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.constants import Constant
from smlab.hw_bench.gpu.schema import ATOMIC_OPS, KEYS, popc_inc_keys

_NOT_MORE: Final = (
    ("clock.base_hz", "clock.boost_hz"),
    ("sm.shared_bytes_per_block", "sm.shared_bytes"),
    ("sm.shared_bytes", "l1.bytes"),
    ("sm.max_threads_per_block", "sm.max_threads"),
    ("sm.max_blocks", "sm.max_warps"),
    ("l1.sector_bytes", "l1.line_bytes"),
    ("l1.bytes", "l2.bytes"),
    ("l2.bytes", "dram.bytes"),
    ("dram.sustained_bandwidth_bytes_per_s", "dram.bandwidth_bytes_per_s"),
    ("dram.bandwidth_bytes_per_s", "l2.bandwidth_bytes_per_s"),
)
"""Pairs of keys of which the first must not exceed the second."""

_LESS: Final = (("l1.latency_cycles", "l2.latency_cycles"), ("l2.latency_cycles", "dram.latency_cycles"))
"""Pairs of keys of which the first must be below the second."""

_DIVIDES: Final = (
    ("sm.schedulers", "sm.max_warps"),
    ("sm.register_unit_per_warp", "sm.registers"),
    ("l1.sector_bytes", "l1.line_bytes"),
)
"""Pairs of keys of which the first must divide the second."""


def check_constants(where: str, compute_capability: str, constants: Mapping[str, Constant]) -> None:
    """`SmlabError` for a missing key, or for constants that cannot all be right."""
    _check_complete(where, compute_capability, constants)

    def number(key: str) -> float:
        value = constants[key].value
        assert not isinstance(value, str), key
        return value

    for small, large in _NOT_MORE:
        if number(small) > number(large):
            raise SmlabError.at(
                f"{where}: {small}", f"exceeds {large}", number(small), f"at most {number(large)}"
            )
    for small, large in _LESS:
        if number(small) >= number(large):
            raise SmlabError.at(
                f"{where}: {large}", f"must exceed {small}", number(large), f"above {number(small)}"
            )
    for part, whole in _DIVIDES:
        if number(whole) % number(part):
            raise SmlabError.at(
                f"{where}: {whole}",
                f"is not a multiple of {part}",
                number(whole),
                f"a multiple of {number(part)}",
            )
    threads = number("sm.max_warps") * number("sm.warp_lanes")
    if number("sm.max_threads") != threads:
        raise SmlabError.at(
            f"{where}: sm.max_threads",
            "is not sm.max_warps of full warps",
            number("sm.max_threads"),
            str(threads),
        )
    for op in ATOMIC_OPS:
        base = f"atomic.{op}.base_interval_cycles"
        if base in constants:
            least = number(base) + number(f"atomic.{op}.pass_interval_cycles")
            if least < 1:
                what = "with pass_interval_cycles, an operation of one pass takes less than a cycle"
                raise SmlabError.at(f"{where}: {base}", what, least, "a sum of at least 1 cycle")


RATED_WITHIN: Final = 0.05
"""By how much a maker's rounded peak may differ from what SMs, pipes and boost clock give."""


def check_rates(where: str, constants: Mapping[str, Constant]) -> None:
    """`SmlabError` for a rated FP32 peak that SMs, pipes and boost clock do not give: one of them is wrong.

    Only what a file says is held to it: a what-if may change one without the others.
    """
    sms, lanes, boost, interval, schedulers, rated = (
        float(constants[key].value)
        for key in (
            *("gpu.sms", "sm.warp_lanes", "clock.boost_hz", "pipe.fp32.interval_cycles"),
            *("sm.schedulers", "peak.fp32_flops_per_s"),
        )
    )
    pipes = schedulers if constants["pipe.fp32.shared_by"].value == "scheduler" else 1.0
    by_pipes = 2 * sms * pipes * lanes / interval * boost
    if abs(rated / by_pipes - 1) > RATED_WITHIN:
        what = "disagrees with gpu.sms, the FP32 pipes and clock.boost_hz"
        raise SmlabError.at(f"{where}: peak.fp32_flops_per_s", what, rated, f"about {by_pipes:.4g} FLOP/s")


def _check_complete(where: str, compute_capability: str, constants: Mapping[str, Constant]) -> None:
    major = int(compute_capability.split(".")[0])
    popc_inc = popc_inc_keys()
    if major < 8:
        for name in popc_inc:
            if name in constants:
                what = f"compute capability {compute_capability} has no ATOMS.POPC.INC"
                raise SmlabError.at(f"{where}: {name}", what, expected="no such key, or 8.0 and up")
    for key in KEYS:
        required = not key.optional or (key.name in popc_inc and major >= 8)
        if required and key.name not in constants:
            raise SmlabError.at(f"{where}: {key.name}", "is missing", expected=f"a constant in {key.unit}")
