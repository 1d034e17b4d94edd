"""Published chains of loads and copies by one warp or thread: the simulated times are the published ones."""

import pytest

from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim.instructions import CLASSES
from smlab.sim.machine import machine_from
from smlab.validation.campaigns.tensor_cores.timing import Published, judge, published

CHAINS = {
    ("A100", "ldmatrix.x4", "next16"),
    ("A100", "ld.shared", "ways8"),
    ("Quadro RTX 6000", "ld.shared", "ways32"),
    ("Quadro RTX 6000", "ldmatrix.x1", "and240"),
    ("RTX 50 (sm_120)", "ldmatrix.x1", "add"),
    ("H800", "cp.async.ca.8", "through-l2"),
}


def rows() -> list[Published]:
    return [row for row in published() if (row.card, row.form, row.loop) in CHAINS]


@pytest.mark.skipif(not has_compiler(), reason="the CUDA compiler of the extra cuda12 is not installed")
def test_chains_take_the_published_time() -> None:
    found = judge(rows(), "glr")
    assert len(found) == len(CHAINS)
    for one in found:
        assert one.simulated == pytest.approx(one.published.value, abs=0.5), one.published.form


@pytest.mark.skipif(not has_compiler(), reason="the CUDA compiler of the extra cuda12 is not installed")
def test_products_by_groups_and_barriers_take_the_published_time() -> None:
    chosen = {"wgmma.m64n8k16.ss", "wgmma.m64n128k16.ss", "wgmma.m64n32k16.rs", "mbarrier.try_wait"}
    found = judge([row for row in published() if row.form in chosen], "glr")
    assert len(found) == len(chosen) + 1
    for one in found:
        assert one.simulated == pytest.approx(one.published.value, abs=1.5), one.published.form


def test_an_asynchronous_copy_takes_as_long_whatever_its_width() -> None:
    machine = machine_from(load_gpu("a100-40"))
    copy, load = CLASSES["async-copy"], CLASSES["global-load"]
    assert machine.tail_cycles(copy, 128) == machine.tail_cycles(copy, 32)
    assert machine.tail_cycles(load, 128) > machine.tail_cycles(load, 32)
