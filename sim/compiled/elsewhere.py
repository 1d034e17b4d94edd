"""What blocks that are not simulated bring to L2: a bit a sector."""

from __future__ import annotations

from smlab.sim.compiled.jit import helper, read_at
from smlab.sim.compiled.layout import State, Word


@helper
def fetched_elsewhere(st: State, sector: int) -> Word:
    """1 where a block that is not simulated has brought the sector, else 0."""
    n = sector - st.elsewhere_first
    if n < 0 or n >= st.elsewhere_sectors:
        return 0
    return (read_at(st.elsewhere, n >> 6) >> (n & 63)) & 1
