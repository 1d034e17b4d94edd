"""The built-in histogram by compiled code: it counts the image, with the written program's jobs, in the order
of Listing 1 or 2."""

import importlib.util

import numpy as np
import pytest

import smlab
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Record
from smlab.sim.execution.run import run_machine_code
from smlab.sim.workloads.compiled_histogram import launch_of_image
from smlab.sim.workloads.histogram import CountingOptions, uniform_image

if not has_compiler() or importlib.util.find_spec("nvidia.cuda_runtime") is None:
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

FEW_SMS = {"gpu.sms": 4}


@pytest.mark.parametrize("variant", ["original", "reordered"])
@pytest.mark.parametrize("gpu", ["titan-v", "a6000"])
@pytest.mark.parametrize("op", ["add", "popc-inc"])
@pytest.mark.parametrize("channels", ["constant", "variable"])
def test_it_counts_the_image(gpu: str, variant: str, op: str, channels: str) -> None:
    card = load_gpu(gpu).with_values(FEW_SMS, source="test")
    image = uniform_image(1000)
    options = CountingOptions(threads=64, variant=variant, op=op, channels=channels, cache="cold")
    if op == "popc-inc" and gpu == "titan-v":
        with pytest.raises(smlab.SmlabError, match=r"no ATOMS\.POPC\.INC for sm_70"):
            launch_of_image(card, image, options)
        return
    launch = launch_of_image(card, image, options)
    run = run_machine_code(launch, card, keep=Record.TOTALS)
    counts = launch.arguments[3]
    assert np.array_equal(counts, np.concatenate([np.bincount(c, minlength=256) for c in image.T]))
    names = {
        i.text.split()[0 if not i.text.startswith("@") else 1] for i in run.instructions if "ATOMS" in i.text
    }
    assert any("POPC.INC" in name for name in names) == (op == "popc-inc")


def test_its_jobs_are_the_written_programs() -> None:
    settings = {"gpu.gpu.sms": 4, "pixels": 5000, "threads": 128, "image": "uniform"}
    written, compiled = (
        smlab.simulate("histogram", "titan-v", settings={**settings, "code": code}, keep=Record.TOTALS)
        for code in ("written", "compiled")
    )
    assert written.atomic.jobs == compiled.atomic.jobs
    assert written.atomic.e_mean == pytest.approx(compiled.atomic.e_mean)
    assert compiled.warp_instructions == pytest.approx(written.warp_instructions, rel=0.1)


def test_a_warm_cache_saves_the_images_sectors() -> None:
    settings = {"gpu.gpu.sms": 4, "pixels": 5000, "code": "compiled"}
    warm, cold = (
        smlab.simulate("histogram", "a6000", settings={**settings, "cache": cache}, keep=Record.TOTALS)
        for cache in ("warm", "cold")
    )
    assert cold.memory.l2_sector_misses - warm.memory.l2_sector_misses == 4 * 5000 // 32
    assert warm.cycles < cold.cycles
