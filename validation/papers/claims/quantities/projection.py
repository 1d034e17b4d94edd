"""Van Lanker et al.: arithmetic on their Table 1 and on the errors that they give, and their equations on
the simulator."""

from __future__ import annotations

import functools

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Instruction, Kernel, Loop, Program, Record, simulate
from smlab.sim.address_patterns import Grouped
from smlab.validation.papers.claims.published import projection_errors, sustained_maxima
from smlab.validation.papers.claims.registry import Observed, quantity
from smlab.validation.papers.judging import Scale

DIGIT = 0.05
"""Half a unit of the last digit of an error printed with one."""


@quantity("projection.errors_outside", unit="applications", evidence="published")
def errors_outside() -> Observed:
    """How many of the abstract's errors by application lie outside the range that the introduction gives."""
    errors = projection_errors()
    low, high = errors["introduction"]
    off = {name: e for name, e in errors["abstract"].items() if not low - DIGIT <= e <= high + DIGIT}
    return Observed.exactly(len(off), ", ".join(f"{n} {e} %" for n, e in off.items()))


@quantity("projection.error_disagreements", unit="applications", evidence="published")
def error_disagreements() -> Observed:
    """How many of the abstract's errors differ from those in the sections by more than their rounding."""
    errors = projection_errors()
    off = [n for n, e in errors["sections"].items() if abs(e - errors["abstract"][n]) > DIGIT + 1e-9]
    return Observed.exactly(len(off), ", ".join(off))


_RATED = {"perf": "peak.fp64_flops_per_s", "dram": "dram.bandwidth_bytes_per_s"}


@quantity("projection.share_of_rated", unit="%", evidence="published")
def share_of_rated(row: str, gpu: str) -> Observed:
    """A maximum of Table 1 (``perf`` or ``dram``) as a share of the maker's rating (FP64 peak or
    bandwidth)."""
    if row not in _RATED:
        raise SmlabError.at("row", "no rating to compare with", row, " or ".join(_RATED))
    rated = load_gpu(gpu).number(_RATED[row])
    return Observed.exactly(100 * sustained_maxima(gpu).value(row) * 1e9 / rated, f"rated {rated:.4g}")


@quantity("projection.share_of_l1_product", unit="%", evidence="published")
def share_of_l1_product(gpu: str) -> Observed:
    """Table 1's L1 bandwidth as a share of SMs x 128 bytes x boost clock, which is no measurement."""
    g = load_gpu(gpu)
    product = g.number("gpu.sms") * 128 * g.number("clock.boost_hz")
    return Observed.exactly(
        100 * sustained_maxima(gpu).l1_gb_per_s * 1e9 / product, f"the product is {product / 1e9:.0f} GB/s"
    )


@quantity("projection.capability_disagreements", unit="GPUs", evidence="published")
def capability_disagreements(gpus: list[str]) -> Observed:
    """How many compute capabilities of Table 1 differ from the makers' documents."""
    off = [g for g in gpus if sustained_maxima(g).compute_capability != load_gpu(g).compute_capability]
    return Observed.exactly(len(off), ", ".join(off))


@quantity("projection.differing_rows", unit="rows", evidence="published")
def differing_rows(first: str, second: str) -> Observed:
    """In how many rows of Table 1 two GPUs differ."""
    rows = ("perf", "dram", "l2", "l1")
    off = [r for r in rows if sustained_maxima(first).value(r) != sustained_maxima(second).value(r)]
    return Observed.exactly(len(off), ", ".join(off))


@quantity("projection.roof_ratio", unit="times", evidence="published", scale=Scale.RATIO)
def roof_ratio(first: str, second: str, intensity: float) -> Observed:
    """Equation 1 with the DRAM roof of Table 1: one GPU's over another's, at so many FLOP a byte."""

    def roof(gpu: str) -> float:
        m = sustained_maxima(gpu)
        return min(m.perf_gflops, m.dram_gb_per_s * intensity)

    return Observed.exactly(roof(first) / roof(second), f"at {intensity:g} FLOP a byte")


@quantity("projection.ridge", unit="FLOP/byte", evidence="published")
def ridge(gpu: str) -> Observed:
    """Where Table 1's DRAM roof meets the compute roof."""
    m = sustained_maxima(gpu)
    return Observed.exactly(m.perf_gflops / m.dram_gb_per_s)


@quantity("projection.interval_width", unit="times", evidence="published", scale=Scale.RATIO)
def interval_width(source: str, target: str, dram: str) -> Observed:
    """Greatest over least speedup that Equation 9 gives, when L1 and L2 are bandwidth roofs and DRAM is a
    ``dram`` roof.

    ``dram`` is ``bandwidth`` for a kernel of low, ``perf`` for one of high DRAM intensity.
    """
    s, t = sustained_maxima(source), sustained_maxima(target)
    rows = ("l1", "l2", "perf" if dram == "perf" else "dram")
    gains = {row: t.value(row) / s.value(row) for row in rows}
    words = ", ".join(f"{row} {gain:.2f}x" for row, gain in gains.items())
    return Observed.exactly(max(gains.values()) / min(gains.values()), words)


@quantity("projection.mix_rate_ratio", unit="", evidence="published")
def mix_rate_ratio(weights: str) -> Observed:
    """Equation 2's rate over the true one for equal numbers of FMA and ADD instructions, when both issue at
    one rate.

    ``weights``: N counts ``instructions``, as the paper says, or ``operations`` (an FMA being two).
    """
    fma, add = 2.0, 1.0  # operations a cycle of either kind alone
    share = {"instructions": 1 / 2, "operations": 2 / 3}
    if weights not in share:
        raise SmlabError.at("weights", "unknown", weights, "instructions or operations")
    mixed = fma * share[weights] + add * (1 - share[weights])
    true = (2 * 1 + 1 * 1) / 2
    return Observed.exactly(mixed / true)


@functools.cache
def _cycles_per_load(gpu: str, words_on_bank: int) -> float:
    pattern = Grouped(1, words_on_bank)
    load = Instruction("shared-load", shared=pattern)
    # Two blocks of 32 warps keep the pipe fed; the start and the drain are small beside 200 rounds.
    kernel = Kernel("loads", (Program("loads", (Loop(200, (load,)),)),), ((0,) * 32,), 2, 4096)
    result = simulate(kernel, load_gpu(gpu), keep=Record.TOTALS)
    return result.cycles / result.warp_instructions


@quantity("projection.shared_time_ratio", unit="", evidence="simulated")
def shared_time_ratio(gpu: str, words_on_bank: int) -> Observed:
    """Equation 5's time of a shared load with bank conflicts over the simulated one.

    With k distinct words on each bank asked, a load of 128 bytes moves 128 / k bytes a cycle.
    """
    simulated = _cycles_per_load(gpu, words_on_bank)
    equation = 128 / (128 / words_on_bank) * 1.0  # cycles, with 128 bytes a cycle at best
    return Observed.exactly(equation / simulated, f"simulated {simulated:.2f} cycles a load")
