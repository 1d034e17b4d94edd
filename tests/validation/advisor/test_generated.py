"""Kernels made by chance: the same seed gives the same, and the two sets have none in common."""

import pytest

from smlab.validation.advisor.generated import FAMILIES, JUDGED, SHAPED, generated


def test_a_seed_is_a_kernel() -> None:
    assert generated(7) == generated(7)
    assert generated(7) != generated(8)
    assert not set(SHAPED) & set(JUDGED)


@pytest.mark.parametrize("seeds", [SHAPED, JUDGED])
def test_every_family_is_in_each_set(seeds: range) -> None:
    kernels = [generated(seed) for seed in seeds]
    assert len({k.body for k in kernels}) > 0.9 * len(kernels)
    assert {k.name.partition("_")[2] for k in kernels} == {f.__name__.strip("_") for f in FAMILIES}
    for k in kernels:
        assert k.source.endswith(f"KERNEL({k.name}) {{\n{k.body}\n}}\n")
        assert k.blocks * k.threads <= k.n
