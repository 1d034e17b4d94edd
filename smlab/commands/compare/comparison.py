"""What changed between two runs: the time, the results, counters, reasons, source lines."""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass
from typing import Any, Final, Literal

from smlab.commands.compare.kept_run import KeptRun
from smlab.commands.run.results import difference

Verdict = Literal["faster", "slower", "the same"]
TOLERANCE: Final = 0.02
LEFT_OUT: Final = re.compile("_issue_stalled_|^device__")
"""Counters of stalls, and of the device."""


@dataclass(frozen=True)
class CounterChange:
    """A counter of both runs."""

    counter: str
    before: float
    after: float

    @property
    def ratio(self) -> float:
        """After over before; infinite for what was not there."""
        if self.before:
            return self.after / self.before
        return math.inf if self.after else 1.0


@dataclass(frozen=True)
class LineChange:
    """Time at a source line, as the part of the warps' time spent there times the kernel's: ``line_before``
    and ``line_after`` are None where a version has no such line."""

    line_before: int | None
    line_after: int | None
    text: str
    before_s: float
    after_s: float


@dataclass(frozen=True)
class RunComparison:
    """Two runs, and by how much the second may be slower than the first (a part of 1)."""

    before: KeptRun
    after: KeptRun
    tolerance: float = TOLERANCE

    @property
    def speedup(self) -> float:
        """The first's time over the second's."""
        return self.before.seconds / self.after.seconds

    @property
    def verdict(self) -> Verdict:
        """Whether the second is faster or slower by more than the tolerance."""
        if self.after.seconds > self.before.seconds * (1 + self.tolerance):
            return "slower"
        return "faster" if self.before.seconds > self.after.seconds * (1 + self.tolerance) else "the same"

    @property
    def headline(self) -> str:
        """The verdict in a line."""
        times = f"{1e6 * self.before.seconds:,.2f} us -> {1e6 * self.after.seconds:,.2f} us"
        if self.verdict == "the same":
            return f"the same within {100 * self.tolerance:g} % ({times})"
        factor = max(self.speedup, 1 / self.speedup)
        return f"{factor:.3g}x {self.verdict} ({times})"

    @property
    def results(self) -> tuple[bool | None, str]:
        """Whether both computed the same, and what is to be said of it; None where it cannot be told."""
        before, after = self.before, self.after
        common = [name for name in before.digests if name in after.digests]
        if not common:
            return None, "no array of both came back"
        for name in common:
            if before.digests[name] == after.digests[name]:
                continue
            if name in before.arrays and name in after.arrays:
                found = difference(after.arrays[name], before.arrays[name])
                if found:
                    return False, f"{name}: {found}"
            elif before.digests[name].startswith("float"):
                return None, f"{name} differs, perhaps by rounding alone"
            else:
                return False, f"{name} differs"
        return True, f"{', '.join(common)} as before"

    @property
    def counters(self) -> list[CounterChange]:
        """The counters that differ, the largest change first, but those of stalls, which `reasons` has, and
        of the device."""
        names = {n for n in (*self.before.counters, *self.after.counters) if not LEFT_OUT.search(n)}
        found = [
            CounterChange(name, self.before.counters.get(name, 0.0), self.after.counters.get(name, 0.0))
            for name in sorted(names)
        ]
        changed = [c for c in found if not math.isclose(c.before, c.after, rel_tol=1e-9)]
        return sorted(changed, key=lambda c: -abs(_log(c.ratio)))

    @property
    def reasons(self) -> list[tuple[str, float, float]]:
        """The reasons whose part of the warps' time changed, with both parts, the largest change first."""
        names = {*self.before.stalls, *self.after.stalls}
        found = [(n, self.before.stalls.get(n, 0.0), self.after.stalls.get(n, 0.0)) for n in names]
        found = [row for row in found if not math.isclose(row[1], row[2], rel_tol=1e-9)]
        return sorted(found, key=lambda row: (-abs(row[2] - row[1]), row[0]))

    @property
    def lines(self) -> list[LineChange]:
        """The source lines whose time changed, paired by their text where both runs have it, else by their
        number; the largest change first."""
        pairs = _paired(self.before, self.after)
        found = []
        for a, b in pairs:
            before_s = self.before.lines.get(a, 0.0) * self.before.seconds if a is not None else 0.0
            after_s = self.after.lines.get(b, 0.0) * self.after.seconds if b is not None else 0.0
            if not math.isclose(before_s, after_s, rel_tol=1e-9):
                text = self.after.source.get(b or 0, "") or self.before.source.get(a or 0, "")
                found.append(LineChange(a, b, text.strip(), before_s, after_s))
        return sorted(found, key=lambda line: -abs(line.after_s - line.before_s))

    def fell_short(self) -> bool:
        """Whether the second is slower, or computes something else."""
        return self.verdict == "slower" or self.results[0] is False

    def to_dict(self) -> dict[str, Any]:
        """All of it, as ``--json`` prints it; lines are None where there is no such line."""
        equal, said = self.results
        return {
            "faster": self.speedup,
            "verdict": self.verdict,
            "tolerance": self.tolerance,
            "results_equal": equal,
            "results": said,
            "before": _head(self.before),
            "after": _head(self.after),
            "counters": [{"counter": c.counter, "before": c.before, "after": c.after} for c in self.counters],
            "stalls": [{"reason": n, "before": a, "after": b} for n, a, b in self.reasons],
            "lines": [
                {
                    "line_before": line.line_before or None,
                    "line_after": line.line_after or None,
                    "text": line.text,
                    "before_s": line.before_s,
                    "after_s": line.after_s,
                }
                for line in self.lines
            ],
            "ok": not self.fell_short(),
        }


def _head(run: KeptRun) -> dict[str, Any]:
    return {
        "name": run.name,
        "kernel": run.kernel,
        "gpu": run.gpu,
        "seconds": run.seconds,
        "cycles": run.cycles,
    }


def _log(ratio: float) -> float:
    return math.inf if ratio in (0, math.inf) else math.log(ratio)


def _paired(before: KeptRun, after: KeptRun) -> list[tuple[int | None, int | None]]:
    """Lines of both that are one; 0 stands for code without a line."""
    if not before.source or not after.source:
        return [(line, line) for line in sorted({*before.lines, *after.lines})]
    first, second = sorted(before.source), sorted(after.source)
    matcher = difflib.SequenceMatcher(
        None, [before.source[n].strip() for n in first], [after.source[n].strip() for n in second], False
    )
    pairs: list[tuple[int | None, int | None]] = [(0, 0)]
    for kind, a0, a1, b0, b1 in matcher.get_opcodes():
        if kind == "equal" or (kind == "replace" and a1 - a0 == b1 - b0):
            pairs += zip(first[a0:a1], second[b0:b1], strict=True)
        else:
            pairs += [(n, None) for n in first[a0:a1]]
            pairs += [(None, n) for n in second[b0:b1]]
    return pairs
