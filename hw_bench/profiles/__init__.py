"""Readers of profiler output: Nsight Compute (CSV and reports), nvprof, and the simulator's own counters, as
one table.

`read_profile` reads any of them, `as_profile` takes a counter table at hand; `atomic_quantities` gives what
the model of the atomic unit needs; `how` tells how to collect it; `write_ncu_wide` writes a table as
Nsight Compute would.
"""

from smlab.hw_bench.profiles.atomics.quantities import AtomicQuantities, SkippedKernel, atomic_quantities
from smlab.hw_bench.profiles.atomics.required_counters import HowTo, Need, how
from smlab.hw_bench.profiles.profile import UNKNOWN_UNIT, UNNAMED, Device, Profile, Skipped
from smlab.hw_bench.profiles.reading import as_profile, read_profile
from smlab.hw_bench.profiles.writers import write_ncu_wide

__all__ = [
    "UNKNOWN_UNIT",
    "UNNAMED",
    "AtomicQuantities",
    "Device",
    "HowTo",
    "Need",
    "Profile",
    "Skipped",
    "SkippedKernel",
    "as_profile",
    "atomic_quantities",
    "how",
    "read_profile",
    "write_ncu_wide",
]
