"""Planted faults that have the right instructions in the right number: what the contract sees in registers
and scoreboards, and the sums by word in the words."""

from collections.abc import Callable
from typing import Any

import pytest

from smlab.hw_bench.cuda import registry, toolkit
from smlab.hw_bench.cuda.kernels.spec import ARCHITECTURES, KernelSpec, Timed, exactly, up_to
from smlab.hw_bench.errors import SmlabError

if not toolkit.has_compiler():
    pytest.skip("machine code not checked: the extra cuda12 is not installed", allow_module_level=True)

from smlab.hw_bench.cuda.contract.check import check
from smlab.hw_bench.cuda.contract.compiler import compile_kernel, find_disassembler
from smlab.hw_bench.cuda.contract.regions import timed_regions
from smlab.hw_bench.cuda.kernels import atomic_cores
from smlab.hw_bench.cuda.kernels.device import (
    clock,
    clock_after,
    count_down,
    cuda,
    int32,
    rolled,
    settle,
    uint32,
)
from smlab.hw_bench.cuda.kernels.points import INLINED, AtomicPoint, Pattern
from smlab.hw_bench.cuda.kernels.shared_atomics import BENCHMARK, point_kernel, point_signature
from smlab.hw_bench.cuda.measuring import driver
from smlab.hw_bench.cuda.measuring.benchmarks import atomic_points
from smlab.hw_bench.sass import ControlFlow
from smlab.hw_bench.sass.image import KernelImage, read_image
from smlab.sim.execution import functional as untimed
from smlab.sim.execution.device import SimulatedDevice

try:
    for _architecture in ARCHITECTURES:
        find_disassembler(_architecture)
except SmlabError as error:
    pytest.skip(f"machine code not checked: {error}", allow_module_level=True)


@cuda.jit(**INLINED)
def _unchained(words: Any, word: Any, one: Any, zero: Any, iterations: Any) -> Any:
    left = iterations
    result = one
    start = clock()
    while left > 0:
        rolled()
        cuda.atomic.add(words, word, one)
        cuda.atomic.add(words, word, one)
        cuda.atomic.add(words, word, one)
        cuda.atomic.add(words, word, one)
        cuda.atomic.add(words, word, one)
        cuda.atomic.add(words, word, one)
        cuda.atomic.add(words, word, one)
        result = cuda.atomic.add(words, word, one)
        left = count_down(left, int32(8))
    return start, clock_after(result)


@cuda.jit(**INLINED)
def _steps_of_four(words: Any, word: Any, one: Any, zero: Any, iterations: Any) -> Any:
    left = iterations
    result = one
    start = clock()
    while left > 0:
        rolled()
        result = cuda.atomic.add(words, word, atomic_cores.link(result, one, zero))
        result = cuda.atomic.add(words, word, atomic_cores.link(result, one, zero))
        result = cuda.atomic.add(words, word, atomic_cores.link(result, one, zero))
        result = cuda.atomic.add(words, word, atomic_cores.link(result, one, zero))
        result = cuda.atomic.add(words, word, atomic_cores.link(result, one, zero))
        result = cuda.atomic.add(words, word, atomic_cores.link(result, one, zero))
        result = cuda.atomic.add(words, word, atomic_cores.link(result, one, zero))
        result = cuda.atomic.add(words, word, atomic_cores.link(result, one, zero))
        left = count_down(left, int32(4))
    return start, clock_after(result)


@cuda.jit(**INLINED)
def _constant_address(words: Any, word: Any, one: Any, zero: Any, iterations: Any) -> Any:
    start = clock()
    result = cuda.atomic.exch(words, 5, one)
    return start, clock_after(result)


@cuda.jit(**INLINED)
def _halved(words: Any, word: Any, one: Any, zero: Any, iterations: Any) -> Any:
    start = clock()
    result = cuda.atomic.add(words, word >> 1, one)
    return start, clock_after(result)


@cuda.jit(**INLINED)
def _waiting_burst(words: Any, word: Any, one: Any, zero: Any, iterations: Any) -> Any:
    left = iterations
    start = clock()
    while left > 0:
        rolled()
        cuda.atomic.add(words, word, one)
        left = count_down(left, int32(1))
    return start, clock()


@cuda.jit(**INLINED)
def _left_queued(words: Any, word: Any, one: Any, zero: Any, iterations: Any) -> Any:
    start = clock()
    cuda.atomic.add(words, word, one)
    return start, clock_after(words[word])


def _behind_stores(patterns: Any, out: Any) -> None:
    """One atomic four times, each behind stores that clear its words. The load by which they should be waited
    for is missing, is one whose value the compiler knows, is done by some threads only, and is as it should
    be."""
    words = cuda.shared.array(1024, int32)
    thread = uint32(cuda.threadIdx.x)
    word = uint32(patterns[thread])
    settle(int32(word))
    words[thread] = int32(0)
    cuda.syncthreads()
    start = clock()
    out[thread] = clock_after(cuda.atomic.add(words, word, int32(1))) - start
    cuda.syncthreads()
    words[thread] = int32(0)
    settle(words[thread])
    cuda.syncthreads()
    start = clock()
    out[thread] += clock_after(cuda.atomic.add(words, word, int32(1))) - start
    cuda.syncthreads()
    words[thread] = int32(0)
    cuda.syncthreads()
    if thread < word:
        settle(words[thread])
    cuda.syncthreads()
    start = clock()
    out[thread] += clock_after(cuda.atomic.add(words, word, int32(1))) - start
    cuda.syncthreads()
    words[thread] = int32(0)
    cuda.syncthreads()
    settle(words[thread])
    cuda.syncthreads()
    start = clock()
    out[thread] += clock_after(cuda.atomic.add(words, word, int32(1))) - start


def _planted(core: Any, expect: Callable[[int], tuple[Timed, ...]]) -> KernelSpec:
    return KernelSpec(
        BENCHMARK, "planted", point_kernel(core, int32), point_signature("int32"), expect, (1024, 2)
    )


def _only(name: str) -> Callable[[int], tuple[Timed, ...]]:
    """What the kernel of this name promises for its first operation."""
    spec = registry.kernel(BENCHMARK, name)
    return lambda architecture: spec.expect(architecture)[:1]


def _burst_round_robin(architecture: int) -> tuple[Timed, ...]:
    extras = {"VOTE": up_to(2), "VOTEU": up_to(1)}
    return (Timed("burst", "loop", {"ATOMS.ADD": exactly(1), **extras}, others=16, unhindered="ATOMS.ADD"),)


_CHAIN = _only("add-result/dependent")
FAULTS = {
    "no chain": (_planted(_unchained, _CHAIN), "do not wait for the one before"),
    "step of 4": (_planted(_steps_of_four, _CHAIN), "the loop counts by 4 where 8 expected"),
    "constant address": (
        _planted(_constant_address, _only("exchange/batch")),
        "an address that is known beforehand",
    ),
    "waits in a turn": (_planted(_waiting_burst, _burst_round_robin), "waits for an ATOMS.ADD"),
    "left queued": (_planted(_left_queued, _only("add/batch")), "may not be done when the clock starts"),
}
"""Kernels with their faults: each is made once, so that its architectures share the compiler's work."""
_ONE = _only("add-result/batch")
_CLEARED = KernelSpec(
    BENCHMARK,
    "behind stores",
    _behind_stores,
    "void(int32[::1], int64[::1])",
    lambda architecture: _ONE(architecture) * 4,
)
_RIGHT, _WRONG = (
    _planted(core, _only("add-result/batch"))
    for core in (atomic_cores.batch_core(atomic_cores.add, True), _halved)
)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_stores_under_way_when_the_clock_starts_are_caught(architecture: str) -> None:
    """In three regions of four."""
    compiled = compile_kernel(_CLEARED, architecture)
    *early, _ = timed_regions(ControlFlow(compiled.function))
    faults = [f for f in check(_CLEARED, compiled).message.split("; ") if "may not be done" in f]
    assert [f.split()[-1] for f in faults] == [f"{region.start.address:#x}" for region in early]
    assert len(early) == 3


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault: str, architecture: str) -> None:
    spec, message = FAULTS[fault]
    assert message in check(spec, compile_kernel(spec, architecture)).message


def _image(architecture: str) -> Callable[[KernelSpec], KernelImage]:
    def image(spec: KernelSpec) -> KernelImage:
        compiled = compile_kernel(spec, architecture)
        return read_image(compiled.cubin, compiled.function)

    return image


@pytest.mark.parametrize(("spec", "wrong"), [(_RIGHT, False), (_WRONG, True)], ids=["right", "halved"])
def test_a_halved_index_is_seen_in_the_words(spec: KernelSpec, wrong: bool) -> None:
    """No instruction tells it: the machine code is run, and the words are not those of the pattern."""
    for architecture in ARCHITECTURES:
        device = SimulatedDevice(_image(architecture), lambda launch: untimed.run(launch).wall_s)
        with driver.using(device):
            times = atomic_points.measure(spec, [AtomicPoint(2, Pattern(8, 1))], repetitions=1, iterations=1)
        found = atomic_points.wrong_sums("add-result", times, 1)
        assert len(found) == wrong, architecture
        assert all("counted in other words" in line for line in found)
