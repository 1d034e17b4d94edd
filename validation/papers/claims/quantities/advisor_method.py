"""Zhou et al.'s equations (GPA, Sections IV and V), asked of arithmetic and of the simulator."""

from __future__ import annotations

import functools

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Duration, Instruction, Kernel, Loop, Program, Record, SimResult, simulate
from smlab.sim.address_patterns import Affine
from smlab.validation.papers.claims.registry import Observed, quantity

LINE_BYTES = 128


@quantity("advisor.bound_of_equation_4", unit="x", evidence="published")
def bound_of_equation_4(samples: int) -> Observed:
    """The largest value of T / (T - min(A, M)) over all whole A + L = T and M up to L (Equation 4)."""
    best = max((samples / (samples - min(active, samples - active)), active) for active in range(1, samples))
    return Observed.exactly(best[0], f"at {best[1]} active of {samples} samples")


@quantity("advisor.equation_2", unit="x", evidence="published")
def equation_2(matched_percent: float) -> Observed:
    """T / (T - M), the speedup that eliminating the matched samples gives (Equation 2)."""
    return Observed.exactly(1 / (1 - matched_percent / 100))


@quantity("advisor.apportioned_ratio", unit="", evidence="published")
def apportioned_ratio(issued: list[float], path: list[float]) -> Observed:
    """Equation 1 for two sources: the first one's share of the stalls over the second one's."""
    first, second = (i / p for i, p in zip(issued, path, strict=True))
    return Observed.exactly(first / second)


def load_loop(loads: int, unroll: int, warps: int) -> Kernel:
    """``loads`` global loads a warp, each followed by its use; ``unroll`` loads are issued before their uses.

    The instructions and the addresses are the same for every ``unroll``: only the order differs.
    """
    if loads % unroll:
        raise SmlabError.at("unroll", "does not divide the loads", unroll, f"a divisor of {loads}")
    stride = unroll * LINE_BYTES

    def pattern(k: int) -> Affine:
        return Affine(4, loads * LINE_BYTES, stride, k * LINE_BYTES)

    body = [Instruction("global-load", name=f"x{k}", memory=pattern(k)) for k in range(unroll)]
    body += [Instruction("fp32", after=(f"x{k}",)) for k in range(unroll)]
    program = Program("loads", (Loop(loads // unroll, tuple(body)),))
    return Kernel("loads", (program,), ((0,) * warps,))


@quantity("advisor.unrolled_speedup", unit="x", evidence="simulated")
def unrolled_speedup(gpu: str, unroll: int, warps: int) -> Observed:
    """Simulated speedup of the same loads and uses when ``unroll`` loads are issued before their uses.

    The detail gives what Equation 4 estimates for it, with each scheduler's cycles as the samples.
    """
    description = load_gpu(gpu)
    before, after = (simulate(load_loop(256, u, warps), description, keep=Record.TOTALS) for u in (1, unroll))
    total = before.cycles * min(warps, description.integer("sm.schedulers"))
    active = before.stalls["selected"]
    estimate = total / (total - min(active, total - active))
    return Observed.exactly(before.cycles / after.cycles, f"Equation 4 estimates {estimate:.3f}x")


@functools.cache
def _thinkers(gpu: str, warps_per_scheduler: int, think_cycles: float) -> SimResult:
    """Warps that issue, wait a random time, and issue again."""
    description = load_gpu(gpu)
    wait = Instruction("think", name="t", after=("t",), duration=Duration(think_cycles, "exponential"))
    warps = warps_per_scheduler * description.integer("sm.schedulers")
    kernel = Kernel("thinkers", (Program("think", (Loop(1500, (wait,)),)),), ((0,) * warps,))
    return simulate(kernel, description, keep=Record.TOTALS, seed=1)


@quantity("advisor.issue_rate_ratio", unit="", evidence="simulated")
def issue_rate_ratio(gpu: str, warps: int, reading: str) -> Observed:
    """Equation 8's issue rate over the simulated one, for independent warps of which one alone issues every 8
    cycles.

    ``reading`` of R_I: ``issued``, the share of a warp's samples in which it issues, or ``ready``, that in
    which it could.
    """
    result = _thinkers(gpu, warps, 8.0)
    stalls = result.stalls
    ready = {"issued": stalls["selected"], "ready": stalls["selected"] + stalls["not_selected"]}
    if reading not in ready:
        raise SmlabError.at("reading", "unknown", reading, "issued or ready")
    share = ready[reading] / sum(stalls.values())
    rate = result.warp_instructions / (result.cycles * load_gpu(gpu).integer("sm.schedulers"))
    predicted = 1 - (1 - share) ** warps
    return Observed.exactly(predicted / rate, f"predicted {predicted:.3f}, simulated {rate:.3f} a cycle")


@quantity("advisor.projected_issue_ratio", unit="", evidence="simulated")
def projected_issue_ratio(gpu: str, warps: int, new_warps: int) -> Observed:
    """The change of the issue rate that Equations 7 to 9 expect from more warps, over the simulated
    change."""
    schedulers = load_gpu(gpu).integer("sm.schedulers")
    results = [_thinkers(gpu, w, 8.0) for w in (warps, new_warps)]
    rates = [r.warp_instructions / (r.cycles * schedulers) for r in results]
    share = results[0].stalls["selected"] / sum(results[0].stalls.values())
    expected = (1 - (1 - share) ** new_warps) / (1 - (1 - share) ** warps)
    return Observed.exactly(
        expected / (rates[1] / rates[0]), f"expected {expected:.2f}x, simulated {rates[1] / rates[0]:.2f}x"
    )
