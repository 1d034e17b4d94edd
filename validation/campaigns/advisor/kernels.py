"""The kernels that the advisor is judged by, and the changes that a program can make to each.

CUDA C in `cuda/`, all with one signature ``(a, b, c, k, h, n, m)``: two inputs, an output, whole numbers, a
result of atomics, a size and a count. They run on `SMS` SMs of a GPU with their share of L2 and DRAM.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Final

import numpy as np

from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.sass.image import KernelImage
from smlab.hw_bench.sass.nvrtc import compile_cuda
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.workloads.histogram import share_of
from smlab.validation.campaigns.advisor.simulate import SMS

SIZE: Final = 1 << 18
"""Elements of each array."""


@dataclass(frozen=True)
class Change:
    """A change that a program can make, and the optimizer whose advice it follows."""

    optimizer: str
    defines: Mapping[str, str] = field(default_factory=dict)
    blocks: int | None = None
    threads: int | None = None
    m: int | None = None

    @property
    def name(self) -> str:
        told = [f"{key}={value}" if value else key for key, value in self.defines.items()]
        if self.blocks is not None:
            told.append(f"{self.blocks} blocks")
        if self.threads is not None:
            told.append(f"{self.threads} threads")
        return f"{self.optimizer}: {', '.join(told)}"


@dataclass(frozen=True)
class StudyKernel:
    """A kernel with its launch. ``tuned`` says that there is nothing to gain."""

    name: str
    file: str
    m: int
    changes: tuple[Change, ...] = ()
    blocks: int = 16
    threads: int = 256
    n: int = SIZE
    tuned: bool = False
    of: str = ""
    """The kernel in the file, where this is another launch of it."""

    @property
    def source(self) -> str:
        """The CUDA C of its file."""
        return _source(self.file)

    def image(self, architecture: str, change: Change | None = None) -> KernelImage:
        """The machine code, compiled with NVRTC."""
        defines = () if change is None else tuple(sorted(change.defines.items()))
        return _compiled(self.of or self.name, self.file, architecture, defines)

    def launch(self, architecture: str, change: Change | None = None) -> MachineLaunch:
        """A launch with arrays of its own, always the same content."""
        image = self.image(architecture, change)
        random = np.random.default_rng(20240607)
        a, b = (random.random(SIZE + 4096, dtype=np.float32) for _ in range(2))
        k = random.integers(0, SIZE, SIZE + 4096, dtype=np.int32)
        arguments = [a, b, np.zeros_like(a), k, np.zeros(SIZE, dtype=np.int32)]
        blocks = self.blocks if change is None or change.blocks is None else change.blocks
        threads = self.threads if change is None or change.threads is None else change.threads
        m = self.m if change is None or change.m is None else change.m
        constants = {"table": b[:64].copy()} if image.symbols else {}
        return MachineLaunch(
            image,
            (blocks, 1, 1),
            (threads, 1, 1),
            [*arguments, np.int32(self.n), np.int32(m)],
            names=("a", "b", "c", "k", "h", "n", "m"),
            constants=constants,
        )


@functools.cache
def _source(file: str) -> str:
    """The text of a file of kernels behind what all of them begin with; lines are the file's own."""
    folder = resources.files("smlab.validation.campaigns.advisor").joinpath("cuda")
    return f"{source_head()}#line 1\n{folder.joinpath(f'{file}.cu').read_text()}"


def source_head() -> str:
    """What the source of all kernels begins with."""
    return resources.files("smlab.validation.campaigns.advisor").joinpath("cuda", "kernel.cuh").read_text()


@functools.cache
def _compiled(name: str, file: str, architecture: str, defines: tuple[tuple[str, str], ...]) -> KernelImage:
    options = [f"-DK_{name}", *(f"-D{key}={value}" if value else f"-D{key}" for key, value in defines)]
    return from_cubin(compile_cuda(_source(file), architecture, options, f"{file}.cu"), name, f"{file}.cu")


def study_gpu(name: str = "v100") -> Gpu:
    """`SMS` SMs of a GPU, with their share of what all SMs share."""
    return share_of(load_gpu(name), SMS)


def unrolled(*counts: int, optimizer: str = "loop-unrolling") -> tuple[Change, ...]:
    return tuple(Change(optimizer, {"UNROLL": str(n)}) for n in counts)


def one(optimizer: str, name: str, value: str = "") -> Change:
    return Change(optimizer, {name: value})


KERNELS: Final[tuple[StudyKernel, ...]] = (
    # Global memory
    StudyKernel("sum_stream", "memory", 32, unrolled(2, 4, 8)),
    StudyKernel("dot_stream", "memory", 32, unrolled(2, 4, 8)),
    StudyKernel(
        "scale_stream",
        "memory",
        32,
        (*unrolled(4), one("memory-transaction-reduction", "WIDE")),
        n=16 * 256 * 32,
    ),
    StudyKernel("tuned_copy", "memory", 4, blocks=16, threads=512, tuned=True),
    StudyKernel("gather", "memory", 32, (*unrolled(2, 4), one("code-reordering", "AHEAD"))),
    StudyKernel("strided", "memory", 12, (one("uncoalesced-access", "SOA"),)),
    StudyKernel(
        "transpose",
        "memory",
        256,
        (one("uncoalesced-access", "TILE"), Change("uncoalesced-access", {"TILE": "", "PAD": "1"})),
        blocks=64,
    ),
    StudyKernel("chase", "memory", 24, blocks=16),
    StudyKernel("spmv", "memory", 32, unrolled(2, 4, 8)),
    StudyKernel("stencil", "memory", 8, (one("memory-transaction-reduction", "SHARED"),)),
    StudyKernel("table_lookup", "memory", 4, (one("memory-transaction-reduction", "CONSTANT"),)),
    StudyKernel("spilled", "memory", 24, (one("register-reuse", "REGISTERS"),)),
    StudyKernel(
        "few_blocks",
        "memory",
        1,
        (Change("block-increase", blocks=4, threads=256), Change("block-increase", blocks=8, threads=128)),
        blocks=2,
        threads=512,
        n=1 << 16,
    ),
    StudyKernel(
        "small_blocks",
        "memory",
        1,
        (
            Change("thread-increase", blocks=256, threads=64),
            Change("thread-increase", blocks=128, threads=128),
        ),
        blocks=512,
        threads=32,
        n=SIZE,
    ),
    StudyKernel("rows_softmax", "memory", 512, unrolled(2, 4)),
    StudyKernel("histogram_global", "memory", 24, (one("privatisation", "PRIVATE"),)),
    StudyKernel("hot_words", "memory", 24, (one("privatisation", "PRIVATE"),)),
    StudyKernel("hot_tickets", "memory", 12, (one("privatisation", "PRIVATE"),)),
    # The same with few warps: waiting, not bandwidth, is what they do
    StudyKernel("sum_few", "memory", 32, unrolled(2, 4, 8), blocks=4, threads=64, of="sum_stream"),
    StudyKernel("dot_few", "memory", 32, unrolled(2, 4, 8), blocks=4, threads=64, of="dot_stream"),
    StudyKernel("scale_few", "memory", 32, unrolled(4), blocks=4, threads=128, of="scale_stream"),
    StudyKernel(
        "gather_few",
        "memory",
        32,
        (*unrolled(2, 4), one("code-reordering", "AHEAD")),
        blocks=4,
        threads=64,
        of="gather",
    ),
    StudyKernel("spmv_few", "memory", 32, unrolled(2, 4), blocks=4, threads=64, of="spmv"),
    StudyKernel("histogram_few", "shared", 32, unrolled(4, 8), blocks=4, threads=64, of="histogram_shared"),
    # Shared memory
    StudyKernel(
        "histogram_shared",
        "shared",
        32,
        (*unrolled(4, 8), one("privatisation", "COPIES", "8"), Change("block-size", blocks=8, threads=512)),
    ),
    StudyKernel(
        "histogram_skewed",
        "shared",
        32,
        (
            one("warp-aggregation", "AGGREGATE"),
            one("privatisation", "COPIES", "8"),
            one("privatisation", "COPIES", "32"),
        ),
    ),
    StudyKernel("histogram_strided", "shared", 64, (one("bank-layout", "STRIDE", "65"),)),
    StudyKernel("counter_total", "shared", 48, (one("warp-aggregation", "TREE"),), n=0),
    StudyKernel("ticket", "shared", 48),
    StudyKernel("hash_insert", "shared", 8),
    StudyKernel("reduce_tree", "shared", 12),
    StudyKernel("scan_block", "shared", 4),
    StudyKernel("bank_columns", "shared", 64, (one("bank-conflicts", "PAD", "1"), *unrolled(4))),
    StudyKernel("matmul_naive", "shared", 64, (one("memory-transaction-reduction", "TILE"), *unrolled(4, 8))),
    StudyKernel("warp_imbalance", "shared", 12, (one("warp-balance", "EVEN"),)),
    StudyKernel("alignment", "shared", 48),
    StudyKernel("convolve_shared", "shared", 8, unrolled(4, 8)),
    StudyKernel("sort_bitonic", "shared", 1),
    # Arithmetic
    StudyKernel("fma_bound", "compute", 24, tuned=True, blocks=32),
    StudyKernel(
        "horner",
        "compute",
        24,
        (Change("code-reordering", {"CHAINS": "2"}), Change("code-reordering", {"CHAINS": "4"})),
        blocks=8,
        threads=64,
    ),
    StudyKernel("double_constant", "compute", 24, (one("fp64-constants", "SINGLE"),)),
    StudyKernel("divide_runtime", "compute", 24, (one("strength-reduction", "SHIFT"),), n=32),
    StudyKernel("exact_functions", "compute", 12, (one("fast-math", "FAST"),)),
    StudyKernel("exact_division", "compute", 24, (one("fast-math", "FAST"),)),
    StudyKernel("called_function", "compute", 32, (one("function-inlining", "INLINE"),)),
    StudyKernel("many_cases", "compute", 48, (one("function-split", "ROLLED"),), blocks=8, threads=128),
    StudyKernel("divergent", "compute", 12, (one("divergence", "GROUPED"),)),
    StudyKernel("mandelbrot", "compute", 48),
    StudyKernel("collatz", "compute", 96),
    StudyKernel("bodies", "compute", 96, unrolled(2, 4)),
    StudyKernel("black_scholes", "compute", 12),
    StudyKernel("random_pi", "compute", 48),
    StudyKernel("double_loop", "compute", 48),
    StudyKernel("bits", "compute", 48),
    StudyKernel("shuffle_sum", "compute", 12),
    StudyKernel("crc", "compute", 16),
    # Classes of change that the others lack
    StudyKernel("float_bins", "classes", 12, (one("privatisation", "PRIVATE"),)),
    StudyKernel("float_totals", "classes", 8, (one("privatisation", "PRIVATE"),), blocks=8),
    StudyKernel("tree_maximum", "classes", 8, (one("warp-balance", "EVEN"),)),
    StudyKernel("leader_total", "classes", 4, (one("warp-balance", "EVEN"),)),
    StudyKernel("two_barriers", "classes", 48, (one("warp-balance", "FEWER"),)),
    StudyKernel(
        "table_walk",
        "classes",
        16,
        (
            Change("thread-increase", blocks=96, threads=64),
            Change("thread-increase", blocks=48, threads=128),
        ),
        blocks=192,
        threads=32,
        n=192 * 32,
    ),
    StudyKernel(
        "three_hops",
        "classes",
        16,
        (Change("code-reordering", {"CHAINS": "2"}), Change("code-reordering", {"CHAINS": "4"})),
        blocks=4,
        threads=128,
    ),
    StudyKernel("normalised", "classes", 32, (one("strength-reduction", "RECIPROCAL"),)),
    StudyKernel("three_kinds", "classes", 12, (one("divergence", "GROUPED"),)),
    StudyKernel("until_small", "classes", 4, (one("divergence", "GROUPED"),)),
    StudyKernel("short_words", "classes", 48, (one("memory-transaction-reduction", "WIDE"),)),
)


def kernel_of(name: str) -> StudyKernel:
    return next(kernel for kernel in KERNELS if kernel.name == name)
