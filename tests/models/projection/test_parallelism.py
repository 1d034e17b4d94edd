"""Residency against NVIDIA's occupancy rules on worked numbers; the parallelism ceiling on worked grids,
and its properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.models.projection.parallelism import (
    compute_saturating_warps,
    parallelism,
    resident_blocks,
    warps_of,
)

V100, A100, A6000 = load_gpu("v100"), load_gpu("a100-40"), load_gpu("a6000")


# Worked by hand from the occupancy calculator's rules: GPU, threads, registers, shared bytes, blocks.
@pytest.mark.parametrize(
    ("gpu", "threads", "registers", "shared", "blocks"),
    [
        (V100, 256, 32, 0, 8),  # 64 warps / 8
        (V100, 32, 16, 0, 32),  # the limit of blocks
        (V100, 1024, 0, 0, 2),
        (V100, 256, 128, 0, 2),  # 4,096 registers a warp: 4 warps a quarter, 16 in all
        (V100, 256, 127, 0, 2),  # rounded up to 4,096
        (V100, 96, 168, 0, 4),  # 5,376 a warp: 3 of 16,384 a quarter, 12 warps / 3 (12.2 in the whole file)
        (V100, 64, 255, 0, 4),  # 8,192 a warp (rounded up): 2 a quarter, 8 warps / 2
        (V100, 128, 32, 49152, 2),  # 96 KiB / 48 KiB, nothing reserved
        (A100, 128, 32, 49152, 3),  # 164 KiB / 49 KiB with the system's 1 KiB
        (A100, 128, 32, 166912, 1),  # the largest block
        (A100, 1024, 65, 0, 0),  # 2,304 registers a warp: 28 warps in the file, the block has 32
        (A100, 128, 32, 166913, 0),
        (A6000, 256, 32, 0, 6),  # 48 warps / 8
        (A6000, 32, 16, 0, 16),
        (V100, 1025, 16, 0, 0),
        (V100, 33, 32, 0, 32),  # two warps: 64 / 2
        (V100, 65, 32, 0, 21),  # three warps: 64 // 3
    ],
)
def test_resident_blocks(gpu: Gpu, threads: int, registers: int, shared: int, blocks: int) -> None:
    assert resident_blocks(gpu, threads, registers, shared) == blocks


def test_resident_blocks_of_many_kernels_at_once() -> None:
    got = resident_blocks(V100, [256, 32, 1024], [[32], [128]], 0)
    assert got.tolist() == [[8, 32, 2], [2, 16, 0]]


@given(
    threads=st.integers(1, 1024), registers=st.integers(0, 255), shared=st.integers(0, 49152), more=st.data()
)
def test_a_block_that_asks_for_more_never_fits_more_often(
    threads: int, registers: int, shared: int, more: st.DataObject
) -> None:
    here = resident_blocks(A100, threads, registers, shared)
    bigger = more.draw(st.integers(registers or 1, 255)), more.draw(st.integers(shared, 60000))
    assert resident_blocks(A100, threads, *bigger) <= here
    assert 0 <= here * warps_of(A100, threads) <= 64
    assert here * warps_of(A100, threads) * 32 * registers <= 65536
    assert here * (shared + 1024) <= A100.integer("sm.shared_bytes")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1e300,), "threads_per_block: unusable value (got 1e+300"),
        ((0,), "threads_per_block: unusable value (got 0"),
        (([128, 12.5],), "threads_per_block, kernel 1: unusable value (got 12.5"),
        ((128, -1), "registers_per_thread: unusable value (got -1"),
        ((128, 32, np.nan), "shared_bytes_per_block: unusable value (got nan"),
        ((["a"],), "threads_per_block: not numbers"),
    ],
)
def test_what_no_block_can_have_is_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(SmlabError) as caught:
        resident_blocks(V100, *arguments)  # type: ignore[arg-type]
    assert message in str(caught.value)


# On the V100's 80 SMs, 256 threads (8 warps, exactly what the fp32 pipes need), 8 blocks an SM at once.
@pytest.mark.parametrize(
    ("blocks", "fraction"),
    [
        (640, 1.0),  # one full wave
        (641, 641 / 720),  # one block more: an eighth of a wave more
        (80, 1.0),  # a block on each SM keeps the pipes busy
        (1, 1 / 80),
        (40, 0.5),
        (81, 81 / 160),  # one SM has two
        (64000, 1.0),
    ],
)
def test_worked_grids_where_one_block_saturates_an_sm(blocks: int, fraction: float) -> None:
    assert parallelism(V100, blocks, 256, 8).fraction == pytest.approx(fraction)


@pytest.mark.parametrize(
    ("blocks", "fraction"),
    [
        (640, 1.0),  # 64 warps an SM, as many as needed
        (641, 641 / 1280),  # the second wave takes as long as the first
        (80, 80 / 640),
        (1, 1 / 640),
        (960, 960 / 1280),
    ],
)
def test_worked_grids_where_only_a_full_sm_hides_latency(blocks: int, fraction: float) -> None:
    assert parallelism(V100, blocks, 256, 8, saturating_warps=64).fraction == pytest.approx(fraction)


def test_latency_can_be_left_out() -> None:
    def fraction(blocks: int) -> float:
        return float(parallelism(V100, blocks, 256, 8, saturating_warps=64, latency=False).fraction)

    assert fraction(641) == pytest.approx(641 / 720)
    assert fraction(40) == pytest.approx(0.5)


def test_device_memory_asks_only_for_warps_enough_wherever_they_are() -> None:
    def fraction(blocks: int) -> float:
        return float(parallelism(V100, blocks, 256, 8, saturating_warps=4, shared_by="gpu").fraction)

    assert fraction(40) == pytest.approx(1.0)  # half of the SMs with twice the warps needed
    assert fraction(20) == pytest.approx(0.5)
    assert fraction(641) == pytest.approx(
        (641 / 80) / (8 + 0.5)
    )  # the last block alone: half the load's latency


@given(
    blocks=st.integers(1, 5000),
    threads=st.integers(1, 1024),
    resident=st.integers(1, 32),
    needed=st.floats(0.5, 64),
    shared_by=st.sampled_from(["sm", "gpu"]),
)
def test_properties(blocks: int, threads: int, resident: int, needed: float, shared_by: str) -> None:
    def run(n: int) -> float:
        result = parallelism(
            A100,
            n,
            threads,
            resident,
            saturating_warps=needed,
            shared_by=shared_by,  # type: ignore[arg-type]
        )
        return float(result.fraction)

    here = run(blocks)
    assert 0 < here <= 1
    # time is blocks over fraction: a block more never takes less time
    assert (blocks + 1) / run(blocks + 1) >= blocks / here * (1 - 1e-12)
    full = 108 * resident
    assert run(full) == pytest.approx(min(1.0, resident * float(warps_of(A100, threads)) / needed))


def test_warps_that_hide_latency_follow_littles_law() -> None:
    assert compute_saturating_warps(V100) == 4 * 4 / 2


def test_grids_out_of_range_are_refused() -> None:
    with pytest.raises(SmlabError, match="resident, kernel 1: unusable value"):
        parallelism(V100, [10, 20], 128, [4, 0])
    with pytest.raises(SmlabError, match="blocks: unusable value"):
        parallelism(V100, 0, 128, 4)
    with pytest.raises(SmlabError, match="saturating_warps: unusable value"):
        parallelism(V100, 10, 128, 4, saturating_warps=np.nan)
