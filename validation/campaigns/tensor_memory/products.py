"""Random products in tensor memory on the simulated GPU."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass.tools import assemble
from smlab.sim.execution import functional
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.validation.campaigns.tensor_cores.group_products import images, line_bytes
from smlab.validation.campaigns.tensor_cores.products import Words
from smlab.validation.campaigns.tensor_memory.forms import LANES, MemoryForm


def _lanes(form: MemoryForm) -> NDArray[np.int64]:
    """The lane of each row: of 64 rows 16 lie in each quarter."""
    row = np.arange(form.rows)
    return row if form.rows == LANES else row // 16 * 32 + row % 16


def run_memory_products(
    form: MemoryForm, factors: tuple[Words, Words, Words], engine: str | None = None
) -> tuple[Words, int]:
    """The products, one a block, without timing or by an ``engine``; and the cycles, or 0."""
    cubin, _ = assemble(form.source(), "sm_100a")
    image = from_cubin(cubin, "product", form.name)
    a, b, c = factors
    lanes = _lanes(form)
    first, sums = np.zeros((len(a), 8, LANES), np.uint32), np.zeros((len(a), form.n, LANES), np.uint32)
    first[:, :, lanes] = line_bytes(a, form.a).view(np.uint32).transpose(0, 2, 1)
    sums[:, :, lanes] = c.transpose(0, 2, 1).astype(np.uint32)
    out = np.zeros_like(sums)
    arguments = (images(form, a, b), first, sums, out)
    size = form.shared_bytes
    launch = MachineLaunch(
        image, (len(a), 1, 1), (LANES, 1, 1), arguments, dynamic_shared_bytes=size, check_shared=False
    )
    cycles = 0
    if engine is None:
        functional.run(launch)
    else:
        cycles = int(run_machine_code(launch, load_gpu("b200"), engine=engine).cycles)
    return out[:, :, lanes].transpose(0, 2, 1).astype(np.uint64), cycles
