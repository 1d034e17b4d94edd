"""Parts of the attention campaign that need neither nvcc nor the authors' sources."""

import numpy as np
import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.campaigns.attention.kernels import Attention, _map, attended, drawn_arrays
from smlab.validation.campaigns.attention.rows import part_case, part_of


def test_attention_is_a_mean_of_values_by_weight() -> None:
    arrays = drawn_arrays(Attention(2, 1, 3, 1, 4, False))
    q, k, v = (arrays[name].astype(float)[0, :, 0] for name in "qkv")
    weights = np.exp(q @ k.T / 2)
    out, logarithms = attended(*(arrays[name] for name in "qkv"), causal=False)
    assert np.allclose(out[0, :, 0], weights @ v / weights.sum(axis=1, keepdims=True))
    assert np.allclose(logarithms[0, 0], np.log(weights.sum(axis=1)))
    causal, _ = attended(*(arrays[name] for name in "qkv"), causal=True)
    assert np.allclose(causal[0, 0, 0], v[0])


def test_a_recorded_map_is_of_the_array_at_its_address() -> None:
    array = np.zeros((2, 512, 4, 64), np.float16)
    words = f"{2 << 44} 128 64 512 4 2 / 512 128 262144 / 64 128 1 1".split()
    made = _map(words, {"k": array})
    assert made.array is array
    assert (made.shape, made.box, made.strides_bytes) == (
        [64, 512, 4, 2],
        [64, 128, 1, 1],
        [512, 128, 262144],
    )
    assert made.swizzle == "128"


@pytest.mark.parametrize(
    ("case", "sms", "heads", "factor"),
    [
        (Attention(3, 16, 512, 32, 64, True), 33, 128, 1),
        (Attention(3, 4, 8192, 32, 64, True), 4, 4, 128 / 132),
        (Attention(3, 4, 8192, 32, 64, False), 4, 4, 42 / 43),  # 5,504 tiles on 132 SMs, 172 on 4
        (Attention(2, 32, 256, 32, 64, False), 33, 256, 1),
    ],
)
def test_a_part_has_as_much_for_each_sm(case: Attention, sms: int, heads: int, factor: float) -> None:
    part, found = part_case(case, sms)
    assert (part.batch, part.heads) == (1, heads)
    assert found == pytest.approx(factor)


def test_a_part_of_a_card_has_its_share() -> None:
    gpu = load_gpu("h100-sxm")
    part = part_of(gpu, 33)
    assert part.integer("gpu.sms") == 33
    for key in ("l2.bandwidth_bytes_per_s", "dram.sustained_bandwidth_bytes_per_s"):
        assert part.number(key) == pytest.approx(gpu.number(key) / 4)
    assert part.number("l2.bytes") == gpu.number("l2.bytes")
