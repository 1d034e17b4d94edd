"""The streaming multiprocessor as a discrete-event simulation. Its rules are in SEMANTICS.md beside this
file."""

from smlab.sim.counters import counter_table
from smlab.sim.reference import Record
from smlab.sim.result import SimResult
from smlab.sim.simulate import ENGINES, simulate
from smlab.sim.workloads.atomics_benchmark import atomics
from smlab.sim.workloads.workload import Duration, Instruction, Kernel, Loop, Program
from smlab.sim.workloads.workload_file import read_workload

__all__ = [
    "ENGINES",
    "Duration",
    "Instruction",
    "Kernel",
    "Loop",
    "Program",
    "Record",
    "SimResult",
    "atomics",
    "counter_table",
    "read_workload",
    "simulate",
]
