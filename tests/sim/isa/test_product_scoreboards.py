"""When the scoreboard of a product of matrices opens: soon after its issue, where stall cycles tell when its
result is there."""

import json

import numpy as np
import pytest

from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass.tools import assemble
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.validation.campaigns.tensor_cores.forms import ProductForm
from smlab.validation.campaigns.tensor_cores.timing import RESULTS, products_source

CHAINS = 4
UNROLL = 8
TURNS = 256
FULL_TURNS = 2048
"""Of the campaign's kernel."""

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)


def cycles_a_product(opens_after: int | None, engine: str) -> float:
    """Of one warp with four chains on a T4, which all wait for one scoreboard (CUDA 12.9)."""
    gpu = load_gpu("t4")
    if opens_after is not None:
        gpu = gpu.with_values({"tensor.scoreboard_cycles": opens_after}, source="a test")
    form = ProductForm(16, 8, 8, "f16", "f16", "f16", (), "", "")
    source = products_source(form, "sm_75", CHAINS, "unrolled")
    source = source.replace(f"%r1, {FULL_TURNS // UNROLL};", f"%r1, {TURNS // UNROLL};")
    begins, ends = np.zeros(32, np.uint64), np.zeros(32, np.uint64)
    image = from_cubin(assemble(source, "sm_75")[0], "timed", "t4")
    launch = MachineLaunch(image, (1, 1, 1), (32, 1, 1), (np.zeros(4096, np.uint64), begins, ends))
    run_machine_code(launch, gpu, sms=1, engine=engine)
    return float(ends.max() - begins.min()) / (TURNS * CHAINS)


def test_chains_take_what_the_tensor_core_takes_in_both_engines() -> None:
    """A Quadro RTX 6000 takes 8.04 cycles a product (connollydavid/tu102), a T4 8.06 with eight chains."""
    took = [cycles_a_product(None, engine) for engine in ("compiled", "simpy")]
    assert took[0] == took[1]
    assert 8 < took[0] < 8.4  # with the first fetch of its code


def test_chains_would_wait_if_the_scoreboard_told_of_the_result() -> None:
    took = [cycles_a_product(14, engine) for engine in ("compiled", "simpy")]
    assert took[0] == took[1]
    assert took[0] > 9


def test_code_by_an_older_assembler_is_judged_too() -> None:
    """Up to CUDA 12.3 each product sets a scoreboard. A Titan V's compiler of 2018 is not known."""
    rows = json.loads(RESULTS.with_name("timing-ptxas-12.1.json").read_text())["rows"]
    judged = [row for row in rows if row["rests"] == "judged"]
    assert len(judged) == 33
    beyond = [(row["card"], row["form"]) for row in judged if not row["within"]]
    assert beyond == [("Titan V", "mma.m8n8k4.f32.f16")]
