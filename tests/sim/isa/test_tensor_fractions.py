"""Products that take no whole number of cycles of the tensor core: what is left of a cycle is carried on."""

import numpy as np
import pytest

from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass.tools import assemble
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.validation.campaigns.tensor_cores.forms import ProductForm
from smlab.validation.campaigns.tensor_cores.timing import products_source

CHAINS = 4
WARPS = 8
TURNS = 512
FULL_TURNS = 2048
"""Of the campaign's kernel."""

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)


@pytest.mark.parametrize(("gpu", "cycles"), [("h100-sxm", 2048 / 335), ("b200", 2048 / 250)])
def test_eight_warps_keep_the_unit_busy_at_its_rate_in_both_engines(gpu: str, cycles: float) -> None:
    form = ProductForm(16, 8, 16, "f32", "f16", "f16", (), "", "")
    description = load_gpu(gpu)
    source = products_source(form, description.sm_architecture, CHAINS, "unrolled")
    source = source.replace(f"%r1, {FULL_TURNS // 8};", f"%r1, {TURNS // 64};")
    image = from_cubin(assemble(source, description.sm_architecture)[0], "timed", gpu)
    spans = []
    for engine in ("compiled", "simpy"):
        begins, ends = np.zeros(32 * WARPS, np.uint64), np.zeros(32 * WARPS, np.uint64)
        launch = MachineLaunch(
            image, (1, 1, 1), (32 * WARPS, 1, 1), (np.zeros(4096, np.uint64), begins, ends)
        )
        run_machine_code(launch, description, sms=1, engine=engine)
        spans.append(int(ends.max() - begins.min()))
    assert spans[0] == spans[1]
    products = TURNS // 8 * CHAINS * WARPS // 4
    # The first turns wait for their code.
    assert 0 <= spans[0] - products * cycles < 800
