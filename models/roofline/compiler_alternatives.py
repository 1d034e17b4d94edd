"""Two readings of what a kernel is on the target, where another compiler than the target's made the code.

Code that is compiled here tells registers and spills of the target as *our* compiler chose them. The one that
makes the code which runs there may choose otherwise: spill where ours does, or do what the source's did. It
is not known which of the two is right. So the time is the middle of both in logarithms. Half of their
distance is a part of its uncertainty (``code`` in `smlab.models.projection.uncertainty`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from smlab.hw_bench.profiles.work.kernel_work import add_flag
from smlab.models.projection.projection import Projection
from smlab.models.projection.uncertainty import NAMES, Parts

APART = 0.1
"""Distance of the readings, in logarithms, from which on a kernel is told about."""


def mixed(compiled: Projection, as_source: Projection) -> Projection:
    """The projection between that with the target's code as compiled here and that with what the kernels do
    on the source. Kernels that only one of them could project keep that one's time."""
    place = {int(row): n for n, row in enumerate(as_source.index)}
    at = np.array([place.get(int(row), -1) for row in compiled.index], dtype=np.int64)
    both = at >= 0
    level_s, mid_s = compiled.level_s.copy(), compiled.mid_s.copy()
    low_s, high_s = compiled.low_s.copy(), compiled.high_s.copy()
    log = compiled.parts.log.copy()
    other = at[both]
    distance = np.abs(np.log(compiled.mid_s[both] / as_source.mid_s[other]))
    mid_s[both] = np.sqrt(compiled.mid_s[both] * as_source.mid_s[other])
    level_s[both] = np.sqrt(compiled.level_s[both] * as_source.level_s[other])
    log[both] = np.sqrt((compiled.parts.log[both] ** 2 + as_source.parts.log[other] ** 2) / 2)
    has_parts = bool(log.any())
    if has_parts:
        log[np.flatnonzero(both), NAMES.index("code")] = distance / 2
        low_s, high_s = Parts(log).interval(mid_s)
    else:
        low_s[both] = np.minimum(compiled.low_s[both], as_source.low_s[other])
        high_s[both] = np.maximum(compiled.high_s[both], as_source.high_s[other])
    far = np.zeros(len(compiled), dtype=bool)
    far[both] = distance > APART
    note = "between two readings of the target's code: as compiled here, and as on the source"
    return replace(
        compiled,
        level_s=level_s,
        low_s=low_s,
        mid_s=mid_s,
        high_s=high_s,
        parts=Parts(log),
        flags=add_flag(compiled.flags, far, note),
    )
