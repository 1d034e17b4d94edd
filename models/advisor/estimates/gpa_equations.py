"""Zhou et al.'s estimates of speedup (GPA, Section V-B, Equations 2 to 10).

Samples stand for time: ``total`` is T, ``matched`` M, ``active`` A. All functions give a speedup, 1 for
nothing gained.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from smlab.hw_bench.errors import SmlabError

MAX_SPEEDUP: Final = 100.0
"""A change that matches all samples is not promised more than this."""


def _check(total: float, *parts: float) -> None:
    if not total > 0:
        raise SmlabError.at("samples", "there are none", total, "more than 0")
    for part in parts:
        if not 0 <= part <= total * (1 + 1e-9):
            raise SmlabError.at("matched samples", "out of range", part, f"0 to {total:g}")


def _speedup(total: float, saved: float) -> float:
    return min(total / max(total - saved, total / MAX_SPEEDUP), MAX_SPEEDUP)


def stall_elimination(total: float, matched: float) -> float:
    """Equation 2: T / (T - M)."""
    _check(total, matched)
    return _speedup(total, matched)


def latency_hiding(total: float, active: float, matched_latency: float) -> float:
    """Equation 4: T / (T - min(A, M^L)); at most 2, since L = T - A >= M^L (Theorem V.1)."""
    _check(total, active, matched_latency)
    return _speedup(total, min(active, matched_latency))


def latency_hiding_in_scopes(total: float, scopes: Iterable[tuple[float, float]]) -> float:
    """Equation 5 for scopes that do not overlap: each can fill its latency samples only with its own
    active samples, (A of the scope and those nested in it, matched latency samples)."""
    saved = 0.0
    for active, matched in scopes:
        _check(total, active, matched)
        saved += min(active, matched)
    _check(total, saved)
    return _speedup(total, saved)


def issue_rate(issued_share: float, warps: float) -> float:
    """Equations 8 and 9: 1 - (1 - R_I)^W, the rate at which a scheduler with W warps issues."""
    if not 0 <= issued_share <= 1:
        raise SmlabError.at("share of issued samples", "out of range", issued_share, "0 to 1")
    if not warps > 0:
        raise SmlabError.at("warps of a scheduler", "out of range", warps, "more than 0")
    return float(1 - (1 - issued_share) ** warps)


def parallel(issued_share: float, warps: float, new_warps: float, factor: float = 1.0) -> float:
    """Equation 10, S = f C_I / C_W, with C_W = W_new / W (Equation 6) and C_I = I_new / I (Equation 7).

    W counts the active warps of a scheduler: spreading the same warps over more SMs makes fewer of them.
    """
    now, then = issue_rate(issued_share, warps), issue_rate(issued_share, new_warps)
    if now == 0:
        return 1.0
    return min(warps / new_warps * (then / now) * factor, MAX_SPEEDUP)
