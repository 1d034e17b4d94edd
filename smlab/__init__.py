"""The front door: the names that users import, gathered from the rooms behind it."""

from importlib.metadata import PackageNotFoundError, version

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, list_gpus, load_gpu
from smlab.hw_bench.profiles.counter_table import CounterTable
from smlab.models import ServiceTable, estimate_utilization, read_atomic_counters
from smlab.sim import (
    Duration,
    Instruction,
    Kernel,
    Loop,
    Program,
    Record,
    SimResult,
    atomics,
    counter_table,
    read_workload,
    simulate,
)
from smlab.sim.table import service_table

try:
    __version__ = version("smlab")
except PackageNotFoundError:  # run from a checkout that is not installed
    __version__ = "0+unknown"

__all__ = [
    "CounterTable",
    "Duration",
    "Gpu",
    "Instruction",
    "Kernel",
    "Loop",
    "Program",
    "Record",
    "ServiceTable",
    "SimResult",
    "SmlabError",
    "atomics",
    "counter_table",
    "estimate_utilization",
    "list_gpus",
    "load_gpu",
    "read_atomic_counters",
    "read_workload",
    "service_table",
    "simulate",
]
