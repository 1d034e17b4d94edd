"""Run drawn kernels on both GPUs and read their counters with the reader that profiles are read with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles import as_profile
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterRow, CounterTable
from smlab.hw_bench.profiles.work.kernel_work import Floats, KernelWork
from smlab.hw_bench.profiles.work.roofline_quantities import roofline_quantities
from smlab.sim.counters import counter_table
from smlab.sim.lowering import lower
from smlab.sim.machine import machine_from
from smlab.sim.reference import Record
from smlab.sim.simulate import ENGINES
from smlab.validation.campaigns.projection.kernels import DrawnKernel, draw, draw_reuse, working_set_bytes


@dataclass(frozen=True, eq=False)
class Simulated:
    """Kernels by regime, and their work on each GPU as the reader gives it; row i is the same kernel
    everywhere.

    ``working_set_bytes`` (kernels,) is the global memory that each touches, which no counter tells.
    """

    regimes: tuple[str, ...]
    work: tuple[KernelWork, ...]
    working_set_bytes: Floats


def simulate_kernels(
    gpus: Sequence[Gpu], numbered: Sequence[tuple[str, int]], seed: int, engine: str
) -> Simulated:
    """Draw the kernels (regime, number) and run each on every GPU; the one with fewer SMs sets the waves."""
    smaller = min((machine_from(gpu) for gpu in gpus), key=lambda m: m.sms)
    return run([draw(regime, number, seed, smaller) for regime, number in numbered], gpus, engine)


def simulate_reuse(gpus: Sequence[Gpu], kernels: int, seed: int, engine: str) -> Simulated:
    """Run kernels that come back to a buffer which one GPU's L2 may hold and another's not."""
    smaller = min((machine_from(gpu) for gpu in gpus), key=lambda m: m.sms)
    return run([draw_reuse(number, seed, smaller) for number in range(kernels)], gpus, engine)


def run(drawn: Sequence[DrawnKernel], gpus: Sequence[Gpu], engine: str) -> Simulated:
    """Run kernels on every GPU and read their counters."""
    machines = [machine_from(gpu) for gpu in gpus]
    rows: list[list[CounterRow]] = [[] for _ in gpus]
    for launch, one in enumerate(drawn):
        for machine, out in zip(machines, rows, strict=True):
            kernel = replace(one.kernel, sms=machine.sms)
            result = ENGINES[engine](lower(kernel, machine, one.seed), Record.TOTALS, None, None)
            out += [row for row in counter_table(result, launch).rows() if row.sm == WHOLE_GPU]
    work = tuple(
        read_work(CounterTable.from_rows(r), gpu, len(drawn)) for r, gpu in zip(rows, gpus, strict=True)
    )
    touched = np.array([working_set_bytes(one.kernel) for one in drawn])
    return Simulated(tuple(one.regime for one in drawn), work, touched)


def read_work(table: CounterTable, gpu: Gpu, kernels: int) -> KernelWork:
    """What the reader of profiles makes of a simulated counter table; `SmlabError` if it leaves a kernel
    out."""
    read = roofline_quantities(as_profile(table, "simulated"), gpu)
    if len(read.work) != kernels:
        left = ", ".join(f"{s.kernel}: {s.reason}" for s in read.skipped)
        raise SmlabError.at(
            "simulated kernels", f"the reader left some out ({left})", len(read.work), str(kernels)
        )
    return read.work
