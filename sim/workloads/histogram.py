"""Built-in workload `histogram`: the image histogram of Dong & Pai, Section 4, with the addresses of real
image bytes.

Source: R. Dong and S. Pai, "Modeling Utilization to Identify Shared-memory Atomic Bottlenecks", Listings 1
and 2, Figure 2. An image is a row of pixels of four bytes (R, G, B, A). Each block counts its pixels in
shared memory, 256 bins a channel, and adds its counts to the global histogram. A thread takes pixel i, i +
nt, i + 2 nt, ... of the image, nt being the threads of the grid, and does one atomic for each channel of it:
in the order R, G, B, A (Listing 1, ``original``), or beginning with channel (thread mod 4) (Listing 2,
``reordered``).

What the paper leaves open is assumed here, each by name:

- *grid*: ``blocks_per_sm`` blocks for each SM, 1 by default, and no more than the image has pixels for. The
  paper says that n depends on the block size and calls 1,024 threads a low number that cannot hide latency:
  both fit one block an SM.
- *code*: the instructions of `smlab.sim.workloads.histogram_code`, from compiling the listings; ``channels``
is
  ``constant`` where the compiler knows that there are four, ``variable`` where it does not.
- *dummy read*: from compute capability 8.0, ``add`` uses each atomic's result (the paper: "a dummy read on
  the result"); before, it does not.
- *cache*: ``warm`` L2 has seen the image just before the launch (by the copy to the GPU, or by the profiler's
  pass before), ``cold`` nothing. The paper explains its drop near 2^20 pixels by misses that become many
  there, so smaller images hit.
- *solid*: all pixels are (128, 128, 128, 128), so the four bins are on one bank (256 is a multiple of the 32
  banks).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.random import SeedSequence, default_rng
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim.address_patterns import Affine, RecordedBytes, RecordedWords
from smlab.sim.machine import machine_from
from smlab.sim.options import by_keywords
from smlab.sim.workloads.histogram_code import CHANNELS, PixelCode, merge_code, start_code
from smlab.sim.workloads.workload import Instruction, Kernel, Loop, Program
from smlab.sim.workloads.workload import blocks_per_sm as fitting_blocks

BINS = 256
COUNTERS = CHANNELS * BINS
LANES = 32
SHARED_BYTES = 4 * COUNTERS
HISTOGRAM_AT = 1 << 40
"""Byte address of the global histogram, far from the image, which begins at 0."""

GREY = (128, 128, 128, 128)
IMAGES = ("solid", "uniform")
VARIANTS = ("original", "reordered")
OPERATIONS = {"add": "atomic-add", "popc-inc": "atomic-popc-inc"}
CACHES = ("warm", "cold")
CODES = ("constant", "variable")
MAX_PIXELS = 2**24

Bytes = NDArray[np.uint8]


def solid_image(pixels: int, colour: tuple[int, int, int, int] = GREY) -> Bytes:
    """An image of one colour, shape ``(pixels, 4)``."""
    return np.broadcast_to(np.array(colour, dtype=np.uint8), (pixels, CHANNELS))


def uniform_image(pixels: int, seed: int = 0) -> Bytes:
    """Independent uniformly random values in all four channels, shape ``(pixels, 4)``."""
    return default_rng(SeedSequence(seed)).integers(0, BINS, (pixels, CHANNELS), dtype=np.uint8)


@dataclass(frozen=True, kw_only=True)
class CountingOptions:
    """The options of `histogram_of_image`, and of the same kernel compiled."""

    threads: int = 256
    variant: str = "original"
    op: str = "add"
    blocks_per_sm: int = 1
    cache: str = "warm"
    channels: str = "constant"


@dataclass(frozen=True, kw_only=True)
class HistogramOptions(CountingOptions):
    """The options of `histogram`."""

    pixels: int = 1 << 20
    image: str = "solid"
    sms: int | str = "all"


@by_keywords(HistogramOptions)
def histogram(gpu: Gpu, options: HistogramOptions) -> Kernel:
    """The histogram of a ``solid`` or ``uniform`` image of ``pixels`` pixels, by blocks of ``threads``
    threads on ``gpu``.

    ``op`` is ``add`` or ``popc-inc``. ``sms`` says how many of the GPU's SMs to simulate: ``all``, or a
    number, for which L2 and DRAM should be scaled by `share_of`. ``blocks_per_sm`` is the grid's blocks for
    each SM of the GPU, 0 for as many as fit. ``cache`` is ``warm`` or ``cold``, ``channels`` ``constant`` or
    ``variable``.

    Raises:
        SmlabError: for a value that cannot be, naming the key.
    """
    return histogram_of_image(gpu, image_named(options.image, options.pixels), options, options.sms)


def image_named(image: str, pixels: int) -> Bytes:
    """The ``solid`` or ``uniform`` image of so many pixels; `SmlabError` for others."""
    if not 1 <= pixels <= MAX_PIXELS:
        raise SmlabError.at("histogram: pixels", "out of range", pixels, f"1 to {MAX_PIXELS}")
    if image not in IMAGES:
        raise SmlabError.at("histogram: image", "unknown", image, "one of " + ", ".join(IMAGES))
    return solid_image(pixels) if image == "solid" else uniform_image(pixels)


def histogram_of_image(gpu: Gpu, image: Bytes, options: CountingOptions, sms: int | str = "all") -> Kernel:
    """The kernel that counts ``image``, bytes of shape ``(pixels, 4)``; the other arguments as in
    `histogram`.

    Only the blocks of the simulated SMs are in it. Of k of the GPU's N SMs these are the first k / N of the
    grid, and they do what they would do in the whole launch.
    """
    check_histogram(image, options)
    threads, variant = options.threads, options.variant
    simulated, whole = _sms(gpu, sms), gpu.integer("gpu.sms")
    resident = resident_blocks(gpu, threads, options.blocks_per_sm)
    pixels = len(image)
    grid = min(whole * resident, -(-pixels // threads))
    blocks = max(1, min(grid, simulated * resident))
    places = threads // LANES
    stride = grid * places  # warps of the grid, over the whole GPU
    words = recorded_words(image, stride, blocks * places, variant)
    full, tail_lanes = divmod(pixels, LANES)

    def shape(warp: int) -> tuple[int, int]:
        """How many whole groups of 32 pixels a warp takes, and how many pixels of the last, cut group."""
        return len(range(warp, full, stride)), tail_lanes if warp == full % stride else 0

    shapes = [shape(warp) for warp in range(blocks * places)]
    kinds = list(dict.fromkeys(shapes))
    code = _Code(
        threads=threads,
        stride=stride,
        words=words,
        operation=OPERATIONS[options.op],
        reordered=variant == "reordered",
        volta=before_ampere(gpu),
        variable=options.channels == "variable",
    )
    return Kernel(
        name="histogram",
        programs=tuple(code.program(times, lanes) for times, lanes in kinds),
        roles=tuple(
            tuple(kinds.index(s) for s in shapes[b * places : (b + 1) * places]) for b in range(blocks)
        ),
        blocks=blocks,
        shared_bytes_per_block=SHARED_BYTES,
        sms=simulated,
        in_l2=(0, CHANNELS * pixels) if options.cache == "warm" else (0, 0),
    )


def share_of(gpu: Gpu, sms: int | str) -> Gpu:
    """``gpu`` with the part of L2's and DRAM's bandwidth, and of the dispatcher's rate, that falls to
    ``sms`` of its SMs when all of them run."""
    return part_of(gpu, Fraction(_sms(gpu, sms), gpu.integer("gpu.sms")))


def part_of(gpu: Gpu, share: Fraction) -> Gpu:
    """``gpu`` with a ``share`` of what its SMs have in common."""
    if share == 1:
        return gpu
    named = ("l2.bandwidth_bytes_per_s", "dram.bandwidth_bytes_per_s", "dram.sustained_bandwidth_bytes_per_s")
    keys = [key for key in named if gpu.has(key)]
    values = {key: gpu.number(key) * float(share) for key in keys}
    intervals = [f"gpu.{what}_{when}_cycles" for what in ("block", "warp") for when in ("dispatch", "refill")]
    values |= {key: gpu.number(key) / float(share) for key in intervals if gpu.has(key)}
    return gpu.with_values(values, source="assumed: the share of the simulated SMs")


def recorded_words(image: Bytes, stride: int, warps: int, variant: str) -> list[NDArray[np.int16]]:
    """Which counter each lane adds to, for each of the four atomics: tables ``(warps, groups of a warp,
    32)``.

    Group g of 32 pixels belongs to warp g mod ``stride``; the tables hold the first ``warps`` warps. Lanes
    beyond the image's end are 0 and never active.
    """
    groups = -(-len(image) // LANES)
    rounds = -(-groups // stride)
    lane = np.arange(LANES)
    tables = []
    alike = image.strides[0] == 0 and len(image) > 1  # one pixel, repeated: so are its words
    for step in range(CHANNELS):
        channel = (step + lane % CHANNELS) % CHANNELS if variant == "reordered" else np.full(LANES, step)
        if alike:
            row = (BINS * channel + image[0, channel]).astype(np.int16)
            tables.append(np.broadcast_to(row, (warps, rounds, LANES)))
            continue
        flat = np.zeros(rounds * stride * LANES, dtype=np.int16)
        chosen = np.tile(channel, groups)[: len(image)]
        flat[: len(image)] = BINS * chosen + image[np.arange(len(image)), chosen]
        by_round = flat.reshape(rounds, stride, LANES)[:, :warps]
        tables.append(np.ascontiguousarray(by_round.transpose(1, 0, 2)))
    return tables


def counts_of(kernel: Kernel) -> NDArray[np.int64]:
    """The histogram that a kernel's atomics count, shape ``(1024,)``: what the addresses add up to, lane
    by lane."""
    counts = np.zeros(COUNTERS, dtype=np.int64)
    flat = [role for row in kernel.roles for role in row]
    for index, program in enumerate(kernel.programs):
        warps = np.flatnonzero(np.array(flat) == index)
        for instruction, times in program.instructions():
            if instruction.op in OPERATIONS.values() and isinstance(instruction.shared, RecordedWords):
                words = instruction.shared.words_of(warps, times, instruction.lanes, kernel.name)
                counts += np.bincount(words.ravel(), minlength=COUNTERS)
    return counts


@dataclass(frozen=True)
class _Code:
    """Puts the program of a warp together: start, pixels, merge."""

    threads: int
    stride: int
    words: list[NDArray[np.int16]]
    operation: str
    reordered: bool
    volta: bool
    variable: bool

    @property
    def rounds(self) -> int:
        """How often a block's threads go through the counters at its start and its end."""
        return -(-COUNTERS // self.threads)

    def program(self, times: int, tail_lanes: int) -> Program:
        """Of a warp with ``times`` whole groups of pixels and ``tail_lanes`` pixels of a cut one."""
        body: list[Instruction | Loop] = [*start_code(self.rounds, self.reordered, self.volta)]
        if times:
            body.append(Loop(times, self._pixels("", 0, times, LANES)))
        if tail_lanes:
            body.extend(self._pixels("tail ", times, 1, tail_lanes))
        body.append(Instruction("barrier"))
        body.append(Loop(self.rounds, merge_code(self._merge_addresses(), self.volta)))
        return Program(f"{times} groups" + (f" and {tail_lanes} pixels" if tail_lanes else ""), tuple(body))

    def _pixels(self, prefix: str, first: int, times: int, lanes: int) -> tuple[Instruction, ...]:
        image = [
            Affine(
                lane_stride_bytes=CHANNELS,
                warp_stride_bytes=CHANNELS * LANES,
                iteration_stride_bytes=CHANNELS * LANES * self.stride,
                base_bytes=channel + first * CHANNELS * LANES * self.stride,
            )
            for channel in range(CHANNELS)
        ]
        counters = [RecordedWords(table[:, first : first + times]) for table in self.words]
        return PixelCode(
            prefix,
            image,
            counters,
            lanes,
            self.operation,
            reordered=self.reordered,
            reads=self.operation == "atomic-add" and not self.volta,
            volta=self.volta,
            variable=self.variable,
        ).body()

    def _merge_addresses(self) -> RecordedBytes:
        """All blocks add to the same 1,024 words, each warp to its own part of them, round by round."""
        warps = len(self.words[0])
        thread = (LANES * np.arange(warps)[:, None] + np.arange(LANES)) % self.threads
        counter = self.threads * np.arange(self.rounds)[:, None] + thread[:, None, :]
        return RecordedBytes(HISTOGRAM_AT + 4 * np.minimum(counter, COUNTERS - 1))


def check_histogram(image: Bytes, options: CountingOptions) -> None:
    """`SmlabError`, naming the key, for a value that no histogram has."""
    if image.ndim != 2 or image.shape[1] != CHANNELS or image.dtype != np.uint8 or not len(image):
        found = f"{image.dtype} of shape {image.shape}"
        raise SmlabError.at("histogram: image", "not rows of pixels", found, "uint8 of shape (pixels, 4)")
    threads = options.threads
    if threads % LANES or not LANES <= threads <= 1024 or COUNTERS % threads:
        raise SmlabError.at("histogram: threads", "unusable", threads, "32, 64, 128, 256, 512 or 1024")
    for key, value, known in (
        ("variant", options.variant, VARIANTS),
        ("op", options.op, OPERATIONS),
        ("cache", options.cache, CACHES),
        ("channels", options.channels, CODES),
    ):
        if value not in known:
            raise SmlabError.at(f"histogram: {key}", "unknown", value, "one of " + ", ".join(known))


def _sms(gpu: Gpu, sms: int | str) -> int:
    whole = gpu.integer("gpu.sms")
    if sms == "all":
        return whole
    if isinstance(sms, bool) or not isinstance(sms, int) or not 1 <= sms <= whole:
        raise SmlabError.at("histogram: sms", "out of range", sms, f"1 to {whole}, or all")
    return sms


def resident_blocks(gpu: Gpu, threads: int, blocks_per_sm: int) -> int:
    """The blocks of the grid for each SM; for 0, as many as an SM holds."""
    if not 0 <= blocks_per_sm <= 1024:
        raise SmlabError.at("histogram: blocks_per_sm", "out of range", blocks_per_sm, "0 (fill) to 1024")
    if blocks_per_sm:
        return blocks_per_sm
    probe = Kernel(
        "histogram",
        (Program("", (Instruction("barrier"),)),),
        ((0,) * (threads // LANES),),
        shared_bytes_per_block=SHARED_BYTES,
    )
    return fitting_blocks(probe, machine_from(gpu))


def before_ampere(gpu: Gpu) -> bool:
    """Whether the compiler makes an addition of every shared atomic that adds 1."""
    return tuple(int(part) for part in gpu.compute_capability.split(".")) < (8, 0)
