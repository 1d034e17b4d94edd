"""Kernels of Triton that make their tensor descriptors on the device: results are NumPy's."""

import pytest

import smlab

pytest.importorskip("triton")

from smlab.validation.campaigns.tensor_cores import triton_rows


@pytest.mark.parametrize("gpu", ["h100-pcie", "rtx-5090"])
def test_products(gpu: str) -> None:
    with smlab.simulated(gpu, threads=1) as simulated:
        assert triton_rows.run_product(128, 16, 192) < 0.05
        assert triton_rows.run_attention(2, 128, 64) < 2e-3
        assert triton_rows.run_attention(2, 64, 64, 32) < 2e-3
    assert len(simulated.runs) == 3


def test_a_sampled_run() -> None:
    """The blocks near the sample are executed with their descriptors, too."""
    with smlab.simulated(triton_rows.card(), threads=1, sms=1) as simulated:
        triton_rows.run_attention(200, 128, 64)
    assert simulated.runs[0].cycles > 5000


def test_engines_agree() -> None:
    cycles = []
    for engine in ("simpy", "compiled"):
        with smlab.simulated("rtx-5090", threads=1, engine=engine) as simulated:
            assert triton_rows.run_product(64, 16, 64) < 0.02
        cycles.append(simulated.runs[0].cycles)
    assert cycles[0] == cycles[1]
