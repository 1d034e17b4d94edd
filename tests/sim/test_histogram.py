"""The histogram workload: its sums, its addresses, its launch; both engines run it alike."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.sim import Record, compiled, reference, simulate
from smlab.sim.address_patterns import lanes_on_fullest_bank
from smlab.sim.lowering import lower
from smlab.sim.machine import machine_from
from smlab.sim.traces.compare import first_difference
from smlab.sim.workloads.histogram import (
    BINS,
    CHANNELS,
    CountingOptions,
    counts_of,
    histogram,
    histogram_of_image,
    recorded_words,
    share_of,
    solid_image,
    uniform_image,
)


@pytest.fixture(scope="module")
def small() -> Gpu:
    """A Titan V of three SMs."""
    return load_gpu("titan-v").with_values({"gpu.sms": 3}, source="test")


def plain_histogram(image: np.ndarray) -> np.ndarray:
    return np.concatenate([np.bincount(image[:, c], minlength=BINS) for c in range(CHANNELS)])


@given(
    st.integers(1, 3000),
    st.sampled_from([32, 64, 256, 512, 1024]),
    st.sampled_from(["original", "reordered"]),
    st.integers(0, 3),
    st.integers(0, 2**32 - 1),
)
def test_the_addresses_add_up_to_the_images_histogram(
    pixels: int, threads: int, variant: str, blocks_per_sm: int, seed: int
) -> None:
    gpu = load_gpu("titan-v").with_values({"gpu.sms": 3}, source="test")
    image = uniform_image(pixels, seed)
    options = CountingOptions(threads=threads, variant=variant, blocks_per_sm=blocks_per_sm)
    kernel = histogram_of_image(gpu, image, options)
    counts = counts_of(kernel)
    assert counts.sum() == pixels * CHANNELS
    assert np.array_equal(counts, plain_histogram(image))


@pytest.mark.parametrize("variant", ["original", "reordered"])
def test_every_pixel_is_counted_by_the_simulation(small: Gpu, variant: str) -> None:
    result = simulate(histogram(small, pixels=1000, threads=64, image="uniform", variant=variant), small)
    assert sum(s.thread_operations for s in result.sms) == 1000 * CHANNELS
    groups = -(-1000 // 32)
    assert result.atomic.jobs == CHANNELS * groups


@pytest.mark.parametrize(("gpu", "op"), [("titan-v", "add"), ("a6000", "add"), ("a6000", "popc-inc")])
@pytest.mark.parametrize("variant", ["original", "reordered"])
def test_both_engines_run_it_alike(gpu: str, op: str, variant: str) -> None:
    few = load_gpu(gpu).with_values({"gpu.sms": 2}, source="test")
    for pixels, threads, image, cache, resident in (
        (1500, 64, "uniform", "warm", 1),
        (333, 32, "uniform", "cold", 0),
        (700, 256, "solid", "warm", 2),
    ):
        kernel = histogram(
            few,
            pixels=pixels,
            threads=threads,
            image=image,
            variant=variant,
            op=op,
            cache=cache,
            blocks_per_sm=resident,
        )
        lowered = lower(kernel, machine_from(few))
        difference = first_difference(reference.run(lowered, Record.ALL), compiled.run(lowered, Record.ALL))
        assert difference is None, difference


def wavefronts_of(colour: tuple[int, int, int, int], variant: str) -> set[int]:
    tables = recorded_words(solid_image(64, colour), 2, 2, variant)
    return {int(n) for table in tables for n in lanes_on_fullest_bank(table, 32).ravel()}


def test_how_many_lanes_a_solid_colour_puts_on_one_bank() -> None:
    # 256 bins a channel are a multiple of 32 banks, so a channel's value alone decides its bank.
    assert wavefronts_of((128, 128, 128, 128), "original") == {32}
    assert wavefronts_of((128, 128, 128, 128), "reordered") == {32}
    assert wavefronts_of((128, 128, 128, 255), "reordered") == {24}
    assert wavefronts_of((128, 128, 255, 255), "reordered") == {16}
    assert wavefronts_of((200, 120, 37, 255), "reordered") == {8}
    assert wavefronts_of((200, 120, 37, 255), "original") == {32}


def test_reordering_begins_with_the_threads_own_channel() -> None:
    image = np.arange(128, dtype=np.uint8).reshape(32, 4)
    first, second, *_ = recorded_words(image, 1, 1, "reordered")
    lane = np.arange(32)
    assert np.array_equal(first[0, 0], BINS * (lane % 4) + image[lane, lane % 4])
    assert np.array_equal(second[0, 0], BINS * ((lane + 1) % 4) + image[lane, (lane + 1) % 4])
    plain = recorded_words(image, 1, 1, "original")
    assert np.array_equal(plain[2][0, 0], 2 * BINS + image[:, 2].astype(int))


@pytest.mark.parametrize("variant", ["original", "reordered"])
def test_a_solid_image_is_as_one_that_is_written_out(small: Gpu, variant: str) -> None:
    for colour in ((128, 128, 128, 128), (9, 200, 41, 255)):
        repeated = solid_image(5003, colour)
        kernels = [
            histogram_of_image(small, image, CountingOptions(threads=64, variant=variant))
            for image in (repeated, np.ascontiguousarray(repeated))
        ]
        assert np.array_equal(*(counts_of(kernel) for kernel in kernels))
        runs = [simulate(kernel, small, keep=Record.ALL) for kernel in kernels]
        assert first_difference(*runs) is None


def test_the_grid_has_no_block_without_a_pixel(small: Gpu) -> None:
    assert histogram(small, pixels=100, threads=64).blocks == 2
    assert histogram(small, pixels=10**5, threads=64).blocks == 3
    assert histogram(small, pixels=10**5, threads=64, blocks_per_sm=2).blocks == 6
    assert histogram(small, pixels=10**6, threads=1024, blocks_per_sm=0).blocks == 6


def test_part_of_the_sms_do_their_part_of_the_image(small: Gpu) -> None:
    whole = histogram(small, pixels=3 * 64 * 40, threads=64)
    part = histogram(small, pixels=3 * 64 * 40, threads=64, sms=1)
    assert part.sms == part.blocks == 1
    assert counts_of(part).sum() * 3 == counts_of(whole).sum()
    shared = share_of(small, 1)
    assert shared.number("dram.bandwidth_bytes_per_s") == pytest.approx(
        small.number("dram.bandwidth_bytes_per_s") / 3
    )


def test_the_dummy_read_makes_warps_wait_for_their_atomics() -> None:
    def reads(gpu: str, op: str) -> bool:
        kernel = histogram(load_gpu(gpu), pixels=64, threads=32, op=op)
        return any(
            i.returns for p in kernel.programs for i, _ in p.instructions() if i.op.startswith("atomic")
        )

    assert reads("a6000", "add")
    assert not reads("a6000", "popc-inc")
    assert not reads("titan-v", "add")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("pixels", 0),
        ("threads", 48),
        ("threads", 2048),
        ("image", "blue"),
        ("variant", "fast"),
        ("op", "cas"),
        ("sms", 4),
        ("sms", "some"),
        ("cache", "hot"),
        ("blocks_per_sm", -1),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(small: Gpu, key: str, value: object) -> None:
    with pytest.raises(SmlabError, match=f"histogram: {key}"):
        histogram(small, **{key: value})  # type: ignore[arg-type]


def test_popc_inc_is_refused_where_the_gpu_has_none(small: Gpu) -> None:
    with pytest.raises(SmlabError, match="no such shared-memory atomic"):
        simulate(histogram(small, pixels=64, op="popc-inc"), small)


def test_a_warm_cache_saves_dram_and_a_cold_one_does_not(small: Gpu) -> None:
    kernel = histogram(small, pixels=4096, threads=64)
    merge = 128  # sectors of the global histogram
    assert simulate(kernel, small).memory.dram_sectors == merge
    cold = dataclasses.replace(kernel, in_l2=(0, 0))
    assert simulate(cold, small).memory.dram_sectors == merge + 4096 * 4 // 32
