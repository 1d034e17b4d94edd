"""The streaming multiprocessor as a discrete-event simulation. Its rules are in SEMANTICS.md beside this file."""

from sim.builtin import atomics
from sim.counters import counter_table
from sim.reference import Record
from sim.result import SimResult
from sim.simulate import ENGINES, simulate
from sim.workload import Duration, Instruction, Kernel, Loop, Program
from sim.workload_file import read_workload

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
