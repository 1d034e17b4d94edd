"""What a GPU can do at most: operations by precision, bytes by level, instructions, each with its kind and
source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.work.kernel_work import LEVELS, PRECISIONS, Floats

Which = Literal["sustained", "spec"]
WHICH: Final = ("sustained", "spec")


@dataclass(frozen=True, eq=False)
class Maxima:
    """A GPU's maxima, ``which`` of them. FLOP/s of the scalar pipes, shape (3,), in the order of
    `PRECISIONS`.

    ``tensor_flops_per_s`` is 0 for a GPU without tensor cores. ``bandwidth`` in bytes/s is of shape (3,), in
    the order of `LEVELS`. ``issue_per_s`` are warp-instructions; ``requests_per_s`` those that access memory,
    infinite where the description does not say how many the SM takes. ``origin`` tells for each maximum its
    kind and source.
    """

    gpu: Gpu
    which: Which
    fma_flops_per_s: Floats
    add_mul_flops_per_s: Floats
    tensor_flops_per_s: float
    bandwidth: Floats
    shared_bytes_per_s: float
    issue_per_s: float
    requests_per_s: float
    clock_hz: float
    origin: Mapping[str, str]


def maxima_of(gpu: Gpu, which: Which = "sustained") -> Maxima:
    """``sustained``: what benchmarks reached; ``spec``: what nothing can exceed, at the description's clock.

    Sustained FLOP/s other than FP64's are not published for these GPUs. They are the rated ones times the
    share of the rated FP64 peak that was reached, as Van Lanker et al. (section 4.1) assume for GPUs that
    they cannot measure. A spec peak is the higher of the maker's, which is rounded, and of the pipes' width
    times the clock.
    """
    checked_maxima(which)
    number = gpu.number
    clock = float(number("clock.sm_hz"))
    sms, lanes, schedulers = (float(number(k)) for k in ("gpu.sms", "sm.warp_lanes", "sm.schedulers"))
    origin: dict[str, str] = {}
    share = 1.0
    if which == "sustained" and gpu.has("peak.sustained_flops_per_s"):
        share = min(1.0, float(number("peak.sustained_flops_per_s")) / float(number("peak.fp64_flops_per_s")))
    fma = []
    for precision in PRECISIONS:
        rated = float(number(f"peak.{precision}_flops_per_s"))
        key = f"peak.sustained_{precision}_flops_per_s"
        if which == "spec":
            fma.append(max(rated, _pipe_flops(gpu, precision, sms, lanes, schedulers, clock)))
            origin[precision] = _kind_and_source(gpu, f"peak.{precision}_flops_per_s")
        elif gpu.has(key):
            fma.append(float(number(key)))
            origin[precision] = _kind_and_source(gpu, key)
        else:
            fma.append(rated * share)
            origin[precision] = _scaled(gpu, f"peak.{precision}_flops_per_s", share)
    tensor = 0.0
    if gpu.has("peak.tensor_fp16_flops_per_s"):
        tensor = float(number("peak.tensor_fp16_flops_per_s"))
        origin["tensor"] = _kind_and_source(gpu, "peak.tensor_fp16_flops_per_s")
    l1 = float(number("l1.bandwidth_bytes_per_cycle")) * sms * clock
    banks = float(number("banks.count")) * float(number("banks.width_bytes"))
    shared = banks * sms * clock / float(number("shared.interval_cycles_per_pass"))
    origin["l1"], origin["shared"] = (
        _kind_and_source(gpu, "l1.bandwidth_bytes_per_cycle"),
        _kind_and_source(gpu, "banks.count"),
    )
    dram_key = "dram.bandwidth_bytes_per_s"
    if which == "sustained":
        dram_key = "dram.sustained_bandwidth_bytes_per_s"
        if gpu.has("l1.sustained_bandwidth_bytes_per_s"):
            l1 = float(number("l1.sustained_bandwidth_bytes_per_s"))
            origin["l1"] = _kind_and_source(gpu, "l1.sustained_bandwidth_bytes_per_s")
    origin["l2"], origin["dram"] = (
        _kind_and_source(gpu, "l2.bandwidth_bytes_per_s"),
        _kind_and_source(gpu, dram_key),
    )
    origin["issue"] = "derived: SMs x schedulers x SM clock (Ding and Williams 2022, instruction roofline)"
    requests = np.inf
    if gpu.has("mio.request_interval_cycles"):
        requests = sms * clock / float(number("mio.request_interval_cycles"))
        origin["request"] = _kind_and_source(gpu, "mio.request_interval_cycles")
    return Maxima(
        gpu=gpu,
        which=which,
        fma_flops_per_s=np.array(fma),
        add_mul_flops_per_s=np.array(fma) / 2,
        tensor_flops_per_s=tensor,
        bandwidth=np.array([l1, float(number("l2.bandwidth_bytes_per_s")), float(number(dram_key))]),
        shared_bytes_per_s=shared,
        issue_per_s=sms * schedulers * clock,
        requests_per_s=requests,
        clock_hz=clock,
        origin=origin,
    )


def checked_maxima(which: str) -> Which:
    """``which`` if there is such a kind of maxima, else `SmlabError`."""
    if which not in WHICH:
        raise SmlabError.at("maxima", "unknown kind", which, "one of " + ", ".join(WHICH))
    return cast(Which, which)


def _pipe_flops(gpu: Gpu, precision: str, sms: float, lanes: float, schedulers: float, clock: float) -> float:
    """FMA FLOP/s by the pipe's interval; a half-precision instruction is on two numbers."""
    pipes = schedulers if gpu.text(f"pipe.{precision}.shared_by") == "scheduler" else 1.0
    packed = 2.0 if precision == "fp16" else 1.0
    return 2.0 * packed * sms * pipes * lanes / float(gpu.number(f"pipe.{precision}.interval_cycles")) * clock


def _kind_and_source(gpu: Gpu, key: str) -> str:
    constant = gpu[key]
    return f"{constant.kind}: {constant.source}"


def _scaled(gpu: Gpu, key: str, share: float) -> str:
    if share == 1.0:
        return _kind_and_source(gpu, key)
    return f"assumed: {share:.3f} of {key}, the share of the FP64 peak that was reached"


assert LEVELS == ("l1", "l2", "dram")
