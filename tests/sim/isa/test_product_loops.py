"""Loops of products of matrices in both engines.

What is left of a cycle is carried on. Where stall cycles tell when the result of a product is there, its
scoreboard opens before that.
"""

import json

import numpy as np
import pytest

from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.sass.tools import assemble
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.validation.campaigns.tensor_cores.forms import ProductForm
from smlab.validation.campaigns.tensor_cores.timing import RESULTS, products_source

CHAINS = 4
UNROLL = 8
FULL_ROUNDS = 2048
"""Of the campaign's kernel."""
if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)


def cycles_of_a_loop(gpu: Gpu, form: ProductForm, warps: int, rounds: int) -> int:
    """Of so many warps of one SM with four chains each, the same in both engines."""
    source = products_source(form, gpu.sm_architecture, CHAINS, "unrolled")
    source = source.replace(f"%r1, {FULL_ROUNDS // UNROLL};", f"%r1, {rounds // UNROLL};")
    image = from_cubin(assemble(source, gpu.sm_architecture)[0], "timed", gpu.name)
    spans = []
    for engine in ("compiled", "simpy"):
        begins, ends = np.zeros(32 * warps, np.uint64), np.zeros(32 * warps, np.uint64)
        launch = MachineLaunch(
            image, (1, 1, 1), (32 * warps, 1, 1), (np.zeros(4096, np.uint64), begins, ends)
        )
        run_machine_code(launch, gpu, sms=1, engine=engine)
        spans.append(int(ends.max() - begins.min()))
    assert spans[0] == spans[1]
    return spans[0]


@pytest.mark.parametrize(("gpu", "cycles"), [("h100-sxm", 2048 / 335), ("b200", 2048 / 250)])
def test_eight_warps_keep_the_unit_busy_at_its_rate(gpu: str, cycles: float) -> None:
    warps, rounds = 8, 32
    form = ProductForm(16, 8, 16, "f32", "f16", "f16", (), "", "")
    products = rounds * CHAINS * warps // 4
    # The first rounds wait for their code.
    assert 0 <= cycles_of_a_loop(load_gpu(gpu), form, warps, rounds) - products * cycles < 800


@pytest.mark.parametrize(("opens_after", "waits"), [(None, 0), (14, 6)])
def test_chains_that_share_a_scoreboard_wait_for_no_result(opens_after: int | None, waits: int) -> None:
    """A Quadro RTX 6000 takes 8.04 cycles a product (connollydavid/tu102), a T4 8.06 with eight chains. If
    the scoreboard told of the result, which is there after 14, each four products would wait for it."""
    rounds, gpu = 256, load_gpu("t4")
    if opens_after is not None:
        gpu = gpu.with_values({"tensor.scoreboard_cycles": opens_after}, source="a test")
    form = ProductForm(16, 8, 8, "f16", "f16", "f16", (), "", "")
    took = cycles_of_a_loop(gpu, form, 1, rounds)
    assert 0 <= took - rounds * (CHAINS * 8 + waits) < 400


def test_code_by_an_older_assembler_is_judged_too() -> None:
    """Up to CUDA 12.3 each product sets a scoreboard. A Titan V's compiler of 2018 is not known."""
    rows = json.loads(RESULTS.with_name("timing-ptxas-12.1.json").read_text())["rows"]
    judged = [row for row in rows if row["rests"] == "judged"]
    assert len(judged) == 33
    beyond = [(row["card"], row["form"]) for row in judged if not row["within"]]
    assert beyond == [("Titan V", "mma.m8n8k4.f32.f16")]
