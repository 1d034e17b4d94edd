"""What every row of ``smlab project --json`` says, whether of a profile's kernel or of a data set's case."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray


class Intervals(Protocol):
    """Projected times, arrays (rows,), with what limits each."""

    @property
    def low_s(self) -> NDArray[Any]: ...
    @property
    def mid_s(self) -> NDArray[Any]: ...
    @property
    def high_s(self) -> NDArray[Any]: ...
    @property
    def limiter(self) -> NDArray[Any]: ...


def agreed_row(p: Intervals, i: int, source_s: float, flags: list[str], **named: Any) -> dict[str, Any]:
    """Row ``i`` with the agreed keys, after those that tell which it is."""
    return {
        **named,
        "source_s": source_s,
        "low_s": p.low_s[i],
        "mid_s": p.mid_s[i],
        "high_s": p.high_s[i],
        "limiter": p.limiter[i],
        "flags": flags,
    }
