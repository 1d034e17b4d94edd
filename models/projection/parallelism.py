"""How much of a GPU a grid can use: residency, waves, the tail, SMs left idle, and grids too small to hide
latency.

A roofline takes it that the whole GPU works all the time. A grid of few blocks leaves SMs idle. So does the
last wave, if a grid is not a whole number of waves. Few resident warps cannot keep a pipe or the memory busy
(Little's law). Here the three are one factor, `Parallelism.fraction`: the throughput that the grid can reach,
over that of the GPU with every SM full all the time. It multiplies a roof, which makes a *parallelism
ceiling*.

Residency follows the rules of the CUDA occupancy calculator (NVIDIA, ``cuda_occupancy.h`` of the CUDA
toolkit: functions ``cudaOccMaxBlocksPerSM...Limit``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Parallelism:
    """What of the GPU each grid can use; all arrays of one shape.

    ``fraction`` is the reachable throughput over that of the GPU with all its SMs full, above 0 and at most
    1. ``waves`` is the number of blocks over those resident at once on the whole GPU. ``resident_warps`` are
    those of one SM in a full wave (fewer where the grid is smaller), and ``busy_sms`` the share of the SMs
    that have a block at the start.
    """

    fraction: Floats
    waves: Floats
    resident_warps: Floats
    busy_sms: Floats


def resident_blocks(
    gpu: Gpu,
    threads_per_block: ArrayLike,
    registers_per_thread: ArrayLike = 0,
    shared_bytes_per_block: ArrayLike = 0,
) -> Ints:
    """Blocks that one SM holds at once: the least that warps, blocks, registers and shared memory allow.

    All arguments are broadcast against each other. A warp gets registers in units of
    `sm.register_unit_per_warp`, out of the quarter of the register file that belongs to its scheduler. A
    block gets shared memory in units of `sm.shared_unit_bytes`, what the system takes of each block included.
    0 registers or bytes: no limit from them (but the system's share counts). The result is 0 for a block that
    this GPU cannot run.

    Raises:
        SmlabError: a value that no block can have (a number that is not whole or is negative, no thread).
    """
    threads = _whole("threads_per_block", threads_per_block, 1)
    registers = _whole("registers_per_thread", registers_per_thread, 0)
    shared = _whole("shared_bytes_per_block", shared_bytes_per_block, 0)
    warps = warps_of(gpu, threads)
    limit = np.minimum(gpu.integer("sm.max_blocks"), gpu.integer("sm.max_warps") // warps)

    registers_of_a_warp = _round_up(
        registers * gpu.integer("sm.warp_lanes"), gpu.integer("sm.register_unit_per_warp")
    )
    schedulers = gpu.integer("sm.schedulers")
    share = gpu.integer("sm.registers") // schedulers
    warps_by_registers = share // np.maximum(registers_of_a_warp, 1) * schedulers
    limit = np.minimum(limit, np.where(registers > 0, warps_by_registers // warps, limit))

    reserved = gpu.integer("sm.shared_reserved_bytes_per_block")
    shared_of_a_block = _round_up(shared + reserved, gpu.integer("sm.shared_unit_bytes"))
    by_shared = gpu.integer("sm.shared_bytes") // np.maximum(shared_of_a_block, 1)
    limit = np.minimum(limit, np.where(shared_of_a_block > 0, by_shared, limit))

    impossible = (
        (threads > gpu.integer("sm.max_threads_per_block"))
        | (registers > gpu.integer("sm.max_registers_per_thread"))
        | (shared > gpu.integer("sm.shared_bytes_per_block"))
    )
    return np.asarray(np.where(impossible, 0, limit), dtype=np.int64)


def parallelism(
    gpu: Gpu,
    blocks: ArrayLike,
    threads_per_block: ArrayLike,
    resident: ArrayLike,
    *,
    saturating_warps: ArrayLike | None = None,
    shared_by: Literal["sm", "gpu"] = "sm",
    latency: bool = True,
) -> Parallelism:
    """The share of the GPU's throughput that each grid can use.

    An SM with r resident warps works at ``min(1, r / saturating_warps)`` of its throughput. The grid is
    executed as floor(waves) full waves and one last wave whose blocks are spread over the SMs; the SM with
    the most blocks ends last. If the resource is of the whole GPU (``shared_by="gpu"``: L2, device memory),
    only the number of warps counts, not where they are. Idle SMs cost nothing while the others have enough
    warps. Blocks of one duration that start together are the pessimistic case; where durations vary, waves
    overlap and less is lost.

    Args: arrays broadcast against each other. blocks: blocks of the grid, at least 1. threads_per_block:
        threads of a block, at least 1. resident: blocks that one SM holds at once, at least 1
        (`resident_blocks`). saturating_warps: warps an SM needs to reach its throughput; without it
        `compute_saturating_warps`.
        shared_by: who shares the resource that limits the kernel, the warps of one SM or of the whole GPU.
        latency: count resident warps too few to hide latency.

    Raises:
        SmlabError: a value out of range, with the first place that has it.
    """
    grid = _whole("blocks", blocks, 1).astype(np.float64)
    held = _whole("resident", resident, 1).astype(np.float64)
    warps = warps_of(gpu, _whole("threads_per_block", threads_per_block, 1)).astype(np.float64)
    needed = np.asarray(
        saturating_warps if saturating_warps is not None else compute_saturating_warps(gpu), dtype=np.float64
    )
    _refuse("saturating_warps", needed, np.isfinite(needed) & (needed > 0), "a number above 0")
    grid, held, warps, needed = np.broadcast_arrays(grid, held, warps, needed)
    sms = gpu.integer("gpu.sms")

    def speed(blocks_on_an_sm: Floats) -> Floats:
        """Share of its throughput that an SM (or its part of a shared resource) reaches with so many
        blocks."""
        if not latency:
            return np.ones_like(blocks_on_an_sm)
        return np.minimum(1.0, blocks_on_an_sm * warps / needed)

    full_waves = np.floor(grid / (sms * held))
    left = grid - full_waves * sms * held
    load = left / sms if shared_by == "gpu" else np.ceil(left / sms)  # of the last wave, on its fullest SM
    last = np.divide(load, speed(load), out=np.zeros_like(load), where=left > 0)
    time = full_waves * held / speed(held) + last
    return Parallelism(
        fraction=np.minimum(1.0, grid / sms / time),  # 1 but for the rounding of floats
        waves=grid / (sms * held),
        resident_warps=warps * np.minimum(held, np.ceil(grid / sms)),
        busy_sms=np.minimum(1.0, grid / sms),
    )


def warps_of(gpu: Gpu, threads: ArrayLike) -> Ints:
    """Warps of a block of so many threads; a warp that is not full counts whole."""
    return np.asarray(-(-np.asarray(threads, dtype=np.int64) // gpu.integer("sm.warp_lanes")), dtype=np.int64)


MOST: Final = 2**62
"""No launch has so many; a whole number of 64 bits holds them."""


def compute_saturating_warps(gpu: Gpu) -> Floats:
    """Warps that an SM needs to keep its FP32 pipes busy if each has one instruction under way: latency over
    interval (Little's law), a pipe for each scheduler or one."""
    pipes = gpu.integer("sm.schedulers") if gpu.text("pipe.fp32.shared_by") == "scheduler" else 1
    under_way = gpu.number("pipe.fp32.latency_cycles") / gpu.number("pipe.fp32.interval_cycles")
    return np.asarray(pipes * under_way)


def _whole(name: str, values: ArrayLike, least: int) -> Ints:
    x = np.asarray(values)
    if x.dtype.kind not in "iuf":
        raise SmlabError.at(name, "not numbers", str(x.dtype), f"whole numbers of at least {least}")
    good = np.isfinite(x) & (x >= least) & (x == np.floor(x)) & (x < MOST)
    _refuse(name, x, good, f"a whole number of at least {least}, below 2^62")
    return x.astype(np.int64)


def _refuse(name: str, x: NDArray[np.generic], good: NDArray[np.bool_], expected: str) -> None:
    if not np.all(good):
        first = int(np.flatnonzero(~np.ravel(good))[0])
        where = f"{name}, kernel {first}" if np.ndim(x) else name
        raise SmlabError.at(where, "unusable value", np.ravel(x)[first].item(), expected)


def _round_up(x: Ints, unit: int) -> Ints:
    return -(-x // unit) * unit
