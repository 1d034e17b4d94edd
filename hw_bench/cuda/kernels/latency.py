"""Benchmark ``latency``: from an instruction to the next one that needs its result, in cycles of the SM's
clock.

Memory: one thread follows a chain of addresses, each load giving the address of the next, through shared
memory, through L1 (cached loads) or past it (``cg`` loads: L2, or DRAM when the chain is larger than L2 and
new). No address is computed on the way. Arithmetic: one warp computes a chain of one instruction. Either way
the loop's counter hides behind the chain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from smlab.hw_bench.cuda.kernels.assembly import ARITHMETIC, Arithmetic, follow, shared_address
from smlab.hw_bench.cuda.kernels.device import (
    clock,
    clock_after,
    count_down,
    cuda,
    float32,
    int32,
    rolled,
    settle,
    uint32,
)
from smlab.hw_bench.cuda.kernels.spec import Count, KernelSpec, Timed, up_to

BENCHMARK: Final = "latency"
LINKS: Final = 16
"""Links of the chain in the loop's body: chains are counted in links and are a multiple of this."""
SHARED_WORDS: Final = 1024

START, FINISH = range(2)
"""Columns of a sample, in cycles of the SM's clock."""
A, B, X = range(3)
"""Columns of the numbers that the compiler must not know: the constants of the chain, and from the third on
where it begins in each lane."""


def _global_chase(space: str) -> Callable[..., None]:
    load = follow(space, 8)

    def kernel(chain: Any, begin: Any, warm: Any, links: Any, samples: Any, reached: Any) -> None:
        """Follow ``chain`` from the address ``begin``: ``warm`` links untimed, then ``links`` in each
        repetition."""
        address = begin[0]
        left = warm
        while left > 0:
            address = load(chain, address)
            left = count_down(left, int32(1))
        repetition = uint32(0)
        while repetition < uint32(samples.shape[0]):
            settle(int32(address))
            left = links
            cuda.syncthreads()
            start = clock()
            while left > 0:
                rolled()
                address = load(chain, address)
                address = load(chain, address)
                address = load(chain, address)
                address = load(chain, address)
                address = load(chain, address)
                address = load(chain, address)
                address = load(chain, address)
                address = load(chain, address)
                address = load(chain, address)
                address = load(chain, address)
                address = load(chain, address)
                address = load(chain, address)
                address = load(chain, address)
                address = load(chain, address)
                address = load(chain, address)
                address = load(chain, address)
                left = count_down(left, int32(LINKS))
            samples[repetition, FINISH] = clock_after(int32(address))
            samples[repetition, START] = start
            repetition = uint32(repetition + uint32(1))
        reached[0] = address

    return kernel


_load_shared: Final = follow("shared", 4)


def _shared_chase(chain: Any, begin: Any, warm: Any, links: Any, samples: Any, reached: Any) -> None:
    """The same through shared memory; ``chain`` and ``begin`` hold byte offsets, which become addresses
    here."""
    words = cuda.shared.array(SHARED_WORDS, int32)
    base = shared_address(words)
    index = uint32(0)
    while index < uint32(SHARED_WORDS):
        words[index] = int32(base + chain[index])
        index = uint32(index + uint32(1))
    # The stores are done when a load behind them is.
    settle(_load_shared(words, base))
    address = int32(base + begin[0])
    left = warm
    while left > 0:
        address = _load_shared(words, address)
        left = count_down(left, int32(1))
    repetition = uint32(0)
    while repetition < uint32(samples.shape[0]):
        settle(address)
        left = links
        cuda.syncthreads()
        start = clock()
        while left > 0:
            rolled()
            address = _load_shared(words, address)
            address = _load_shared(words, address)
            address = _load_shared(words, address)
            address = _load_shared(words, address)
            address = _load_shared(words, address)
            address = _load_shared(words, address)
            address = _load_shared(words, address)
            address = _load_shared(words, address)
            address = _load_shared(words, address)
            address = _load_shared(words, address)
            address = _load_shared(words, address)
            address = _load_shared(words, address)
            address = _load_shared(words, address)
            address = _load_shared(words, address)
            address = _load_shared(words, address)
            address = _load_shared(words, address)
            left = count_down(left, int32(LINKS))
        samples[repetition, FINISH] = clock_after(address)
        samples[repetition, START] = start
        repetition = uint32(repetition + uint32(1))
    reached[0] = int32(address - base)


def _arithmetic_chain(link: Arithmetic) -> Callable[..., None]:
    operate = link.device_function()
    wide = link.mnemonic.startswith("D")

    def kernel(numbers: Any, links: Any, samples: Any, reached: Any) -> None:
        """Compute a chain of ``links`` links from ``numbers`` in each repetition; the last value is
        ``reached``."""
        a, b, x = numbers[A], numbers[B], numbers[uint32(X) + uint32(cuda.threadIdx.x)]
        repetition = uint32(0)
        while repetition < uint32(samples.shape[0]):
            settle(int32(a))
            settle(int32(b))
            settle(int32(x))
            left = links
            cuda.syncthreads()
            start = clock()
            while left > 0:
                rolled()
                x = operate(x, a, b)
                x = operate(x, a, b)
                x = operate(x, a, b)
                x = operate(x, a, b)
                x = operate(x, a, b)
                x = operate(x, a, b)
                x = operate(x, a, b)
                x = operate(x, a, b)
                x = operate(x, a, b)
                x = operate(x, a, b)
                x = operate(x, a, b)
                x = operate(x, a, b)
                x = operate(x, a, b)
                x = operate(x, a, b)
                x = operate(x, a, b)
                x = operate(x, a, b)
                left = count_down(left, int32(LINKS))
            if wide:
                finish = clock_after(float32(x))
            else:
                finish = clock_after(x)
            if cuda.threadIdx.x == 0:
                samples[repetition, FINISH] = finish
                samples[repetition, START] = start
            repetition = uint32(repetition + uint32(1))
        if cuda.threadIdx.x == 0:
            reached[0] = x

    return kernel


def _expect(instruction: str) -> Callable[[int], tuple[Timed, ...]]:
    """In the loop, the links of the chain and the counter (which may be another ``IADD3``)."""

    def expect(architecture: int) -> tuple[Timed, ...]:
        extras = {"VOTE": up_to(2), "VOTEU": up_to(1)} if architecture < 80 else {}
        others = 4 + (5 if architecture < 80 else 0)
        counter = architecture < 90 and instruction == "IADD3"
        counts = {instruction: Count(LINKS, LINKS + counter)} | extras
        # What has no fixed latency must be waited for; Hopper's double precision has one.
        variable = ("LD", "MUFU", "POPC") if architecture >= 90 else ("LD", "MUFU", "POPC", "D")
        waits_for = instruction if instruction.startswith(variable) else None
        return (Timed("chain", "loop", counts, others, waits_for, chained=waits_for, step=LINKS),)

    return expect


def _specs() -> tuple[KernelSpec, ...]:
    chase = "void({0}[::1], {0}[::1], int32, int32, int64[:,::1], {0}[::1])"
    specs = [
        KernelSpec(BENCHMARK, "shared", _shared_chase, chase.format("int32"), _expect("LDS")),
        KernelSpec(BENCHMARK, "cached", _global_chase("global"), chase.format("uint64"), _expect("LDG.E.64")),
        KernelSpec(
            BENCHMARK, "uncached", _global_chase("global.cg"), chase.format("uint64"), _expect("LDG.E.64")
        ),
    ]
    for link in ARITHMETIC:
        specs.append(
            KernelSpec(
                BENCHMARK,
                link.name,
                _arithmetic_chain(link),
                f"void({link.number}[::1], int32, int64[:,::1], {link.number}[::1])",
                _expect(link.mnemonic),
            )
        )
    return tuple(specs)


KERNELS: Final = _specs()
