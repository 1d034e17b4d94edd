"""Hypothesis strategies for GPUs, kernels and runs, so that anybody can put a model of their own to the
test.

from hypothesis import given from smlab.validation.laws.strategies import runs

@given(runs()) def test_my_model(run): assert my_model(run.kernel, run.machine) >= run.result.cycles
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar
from unittest import mock

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.sim.address_patterns import (
    Affine,
    GlobalPattern,
    Grouped,
    RandomBytes,
    RandomWords,
    SharedPattern,
    Strided,
)
from smlab.sim.instructions import ATOMIC_OPERATIONS, CLASSES, QUEUED_UNITS
from smlab.sim.lowering import LoweredKernel, lower
from smlab.sim.machine import CacheShape, Machine, machine_from
from smlab.sim.policies import POLICIES
from smlab.sim.reference import Record
from smlab.sim.simulate import DEFAULT_ENGINE, ENGINES
from smlab.sim.workloads.workload import NO_WARP, Duration, Instruction, Kernel, Loop, Program
from smlab.validation.laws.identities import Run

SHARED_BYTES = 16 * 1024
"""Shared memory of every drawn block; all drawn patterns stay inside it."""

Drawn = TypeVar("Drawn")

NAMES = ("a", "b", "c")

_base = cache(load_gpu)


# Strategies are made once: making and checking one costs more than drawing from it.

_TENTHS = st.integers(10, 60).map(lambda t: t / 10)
_FEW = st.integers(1, 8)
_GPU_VALUES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "sm.schedulers": st.sampled_from([1, 2, 4]),
        "sm.max_blocks": _FEW,
        "sm.block_launch_cycles": st.integers(0, 20),
        "sm.barrier_latency_cycles": _FEW,
        "pipe.int32.interval_cycles": st.integers(1, 4),
        "pipe.int32.latency_cycles": st.integers(4, 12),
        "pipe.fp64.interval_cycles": st.integers(1, 16),
        "pipe.fp64.shared_by": st.sampled_from(["sm", "scheduler"]),
        "sm.barrier_interval_cycles": st.integers(1, 4),
        "mio.queue_entries": _FEW,
        "mio.front_cycles": st.integers(1, 14),
        "mio.address_interval_cycles": st.integers(1, 6),
        "mio.request_interval_cycles": st.integers(1, 4),
        "mio.shuffle_latency_cycles": st.integers(10, 30),
        "shared.load_read_cycles": st.integers(1, 16),
        "shared.store_read_cycles": st.integers(1, 20),
        "l1.load_read_cycles": st.integers(1, 16),
        "constant.latency_cycles": st.integers(10, 40),
        "constant.interval_cycles": st.integers(1, 4),
        "shared.interval_cycles_per_pass": _TENTHS,
        "shared.jobs_at_once": st.sampled_from([1, 1, 2]),
        "shared.queue_entries": st.integers(1, 24),
        "atomic.cas_stage_factor": st.sampled_from([1, 1, 2]),
        "shared.pass_latency_cycles": _TENTHS,
        "shared.load_latency_cycles": st.integers(10, 30),
        "atomic.queue_entries": st.integers(1, 16),
        "atomic.pipes": st.sampled_from([1, 1, 1, 2, 3]),
        "atomic.round_gap_cycles": st.sampled_from([0, 0, 3, 27]),
        "atomic.address_interval_cycles": _TENTHS,
        "atomic.stage_factor": st.sampled_from([1, 1, 0.5, 2]),
        "l2.atomic_sector_factor": st.integers(1, 4),
        "l2.atomic_interval_cycles": _TENTHS,
        "l1.atomics_in_flight": st.integers(1, 8),
        "l1.atomic_bytes_per_cycle": st.integers(4, 64),
        "l1.atomic_packet_cycles": _TENTHS,
        "l1.atomic_return_packet_cycles": _TENTHS,
        "mio.atomic_register_cycles": _TENTHS,
        "l1.interval_cycles_per_line": _TENTHS,
        **{f"atomic.{op}.base_interval_cycles": _TENTHS for op in ATOMIC_OPERATIONS},
        **{
            f"atomic.{op}.pass_interval_cycles": st.integers(0, 30).map(lambda t: t / 10)
            for op in ATOMIC_OPERATIONS
        },
        **{f"atomic.{op}.latency_cycles": st.integers(1, 60) for op in ATOMIC_OPERATIONS},
    }
)
_CACHE_SHAPES = st.builds(CacheShape, sets=st.sampled_from([1, 4, 64]), ways=st.sampled_from([1, 2, 4]))
_POLICIES = st.sampled_from(sorted(POLICIES))
_GLOBAL_PATTERNS = st.one_of(
    st.builds(
        Affine,
        lane_stride_bytes=st.sampled_from([0, 4, 36, 128]),
        warp_stride_bytes=st.sampled_from([0, 128, 4096]),
        iteration_stride_bytes=st.sampled_from([0, 128, 8192]),
    ),
    st.sampled_from([1024, 1 << 20]).map(RandomBytes),
)
_DURATIONS = st.builds(Duration, st.integers(1, 300), st.sampled_from(["fixed", "exponential"]))
_ATOMICS = ("atomic-add", "atomic-cas", "atomic-popc-inc")
_STORES = ("shared-store", "global-store", "global-reduce")
_OTHERS = (
    "int32",
    "fp32",
    "fp32-add",
    "fp64",
    "fp64-mul",
    "fp64-conversion",
    "packed-conversion",
    "sfu",
    "control",
    "think",
    "imad",
    "redux",
    "shared-load",
    "shared-load",
    "global-load",
    "global-load",
    "global-atomic",
    "async-copy",
    "shuffle",
    "constant-load",
)
_WIDE = ("shared-load", "shared-store", "global-load", "global-store", "async-copy")
_WIDTHS = st.sampled_from([32, 32, 32, 64, 128])
_OPS = st.sampled_from([*_OTHERS, *_STORES, *_ATOMICS * 3])
_OPS_AND_BARRIERS = st.sampled_from([*_OTHERS, *_STORES, *_ATOMICS * 3, "barrier"])
_LANES = st.sampled_from([1, 7, 16, 32])
_BOOLEANS = st.booleans()
_INTERVALS = st.none() | _DURATIONS


def policies() -> st.SearchStrategy[str]:
    """The names of the warp scheduler policies."""
    return _POLICIES


@st.composite
def gpus(draw: st.DrawFn, base: str = "a100-40") -> Gpu:
    """A GPU description near ``base`` in what the SM's units do: queues, intervals, latencies, schedulers."""
    return _base(base).with_values(draw(_GPU_VALUES), source="assumed: drawn at random")


@st.composite
def machines(draw: st.DrawFn, base: str = "a100-40") -> Machine:
    """A drawn GPU under a drawn policy, as the engines see it; caches may be so small that lines are
    evicted."""
    machine = machine_from(draw(_gpus(base)), draw(_POLICIES))
    return dataclasses.replace(machine, l1=draw(_CACHE_SHAPES), l2=draw(_CACHE_SHAPES))


@cache
def shared_patterns(lanes: int) -> st.SearchStrategy[SharedPattern]:
    """Any shared-memory pattern that fits `SHARED_BYTES`."""
    divisors = [d for d in range(1, lanes + 1) if lanes % d == 0]

    def groups(same_word: int) -> st.SearchStrategy[SharedPattern]:
        words = lanes // same_word
        return st.sampled_from([d for d in range(1, words + 1) if words % d == 0]).map(
            lambda same_bank: Grouped(same_word, same_bank)
        )

    return st.one_of(
        st.integers(0, 33).map(Strided),
        st.sampled_from(divisors).flatmap(groups),
        st.sampled_from([1, 32, 256, 4096]).map(RandomWords),
    )


_WIDE_PATTERNS: st.SearchStrategy[SharedPattern] = st.one_of(
    st.sampled_from([0, 4, 8, 32]).map(Strided), st.sampled_from([32, 256, 4096]).map(RandomWords)
)


@cache
def _needs(names: tuple[str, ...]) -> st.SearchStrategy[set[str]]:
    return st.sets(st.sampled_from(names), max_size=2)


def _widened(pattern: GlobalPattern, size: int) -> GlobalPattern:
    """A pattern for accesses that must be aligned to ``size`` bytes."""
    if isinstance(pattern, Affine):
        return Affine(
            pattern.lane_stride_bytes // size * size,
            pattern.warp_stride_bytes,
            pattern.iteration_stride_bytes,
        )
    return pattern


def _instruction(
    draw: st.DrawFn, name: str, known: tuple[str, ...], read: tuple[str, ...], barriers: bool
) -> Instruction:
    """One instruction that may need results of the ``known`` ones, the reading of others' operands, and both
    of its own earlier executions."""
    op = draw(_OPS_AND_BARRIERS if barriers else _OPS)
    returns = op not in (*_STORES, "barrier") and (op not in _ATOMICS or draw(_BOOLEANS))
    needable = (*known, name) if returns else known
    after = tuple(sorted(draw(_needs(needable)))) if needable else ()
    overwrites = bool(read) and draw(_BOOLEANS)
    after_read = tuple(sorted(draw(_needs(read)))) if overwrites else ()
    if op in ("think", "barrier"):
        thinks = op == "think"
        return Instruction(op, name if thinks else "", after, duration=draw(_DURATIONS) if thinks else None)
    lanes = draw(_LANES)
    width = draw(_WIDTHS) if op in _WIDE else 32
    shared = draw(shared_patterns(lanes))
    if width != 32:
        shared = draw(_WIDE_PATTERNS)
    return Instruction(
        op,
        name=name,
        after=after,
        lanes=lanes,
        shared=shared,
        memory=_widened(draw(_GLOBAL_PATTERNS), width // 8) if width != 32 else draw(_GLOBAL_PATTERNS),
        returns=returns or op not in _ATOMICS,
        duration=draw(_INTERVALS) if op in _ATOMICS else None,
        width=width,
        uniform=CLASSES[op].unit in QUEUED_UNITS and bool(draw(_BOOLEANS)),
        after_read=after_read,
    )


@st.composite
def programs(draw: st.DrawFn, name: str = "p", barriers: bool = True, max_loop: int = 8) -> Program:
    """A program of a few instructions, in loops up to two deep, with dependences between them."""
    results: list[str] = []
    read: list[str] = []

    def one(index: int) -> Instruction:
        label = f"i{index}"
        instruction = _instruction(draw, label, tuple(results), tuple(read), barriers)
        if instruction.name and instruction.returns and instruction.op not in _STORES:
            results.append(label)
        if instruction.name and instruction.cls.unit in QUEUED_UNITS:
            read.append(label)
        return instruction

    counter = iter(range(1000))
    body: list[Instruction | Loop] = []
    for _ in range(draw(st.integers(1, 3))):
        inner = tuple(one(next(counter)) for _ in range(draw(st.integers(1, 3))))
        shape = draw(st.sampled_from(["plain", "loop", "nested"]))
        if shape == "plain":
            body.extend(inner)
        elif shape == "loop":
            body.append(Loop(draw(st.integers(1, max_loop)), inner))
        else:
            extra = one(next(counter))
            body.append(Loop(draw(st.integers(1, 3)), (Loop(draw(st.integers(1, max_loop)), inner), extra)))
    return Program(name, tuple(body))


@st.composite
def kernels(draw: st.DrawFn, max_warps: int = 12, max_blocks: int = 4, max_sms: int = 2) -> Kernel:
    """A kernel of one or two programs; warps of a block may differ and places may be empty."""
    chosen = tuple(draw(_programs(name)) for name in NAMES[: draw(st.integers(1, 2))])
    warps = draw(st.integers(1, max_warps))
    row = draw(
        st.lists(
            st.sampled_from([*range(len(chosen)), *range(len(chosen)), NO_WARP]),
            min_size=warps,
            max_size=warps,
        )
    )
    if all(role == NO_WARP for role in row):
        row[0] = 0
    return Kernel(
        name="drawn",
        programs=chosen,
        roles=(tuple(row),),
        blocks=draw(st.integers(1, max_blocks)),
        shared_bytes_per_block=SHARED_BYTES,
        sms=draw(st.integers(1, max_sms)),
    )


_gpus, _machines, _kernels, _programs = cache(gpus), cache(machines), cache(kernels), cache(programs)
_SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def lowered_kernels(draw: st.DrawFn) -> LoweredKernel:
    """A drawn kernel lowered for a drawn machine: what an engine is given."""
    return lower(draw(_kernels()), draw(_machines()), draw(_SEEDS))


_LOWERED = lowered_kernels()


@st.composite
def runs(draw: st.DrawFn, engine: str = DEFAULT_ENGINE) -> Run:
    """A drawn kernel simulated on a drawn machine, with everything recorded."""
    lowered = draw(_LOWERED)
    return Run(ENGINES[engine](lowered, Record.ALL, None, None), lowered.kernel, lowered.machine)


def for_each_drawn(
    strategy: st.SearchStrategy[Drawn], count: int, stream: int, each: Callable[[Drawn], None]
) -> None:
    """Call ``each`` with ``count`` drawn examples: the same ones for the same ``stream``; nothing is shrunk
    or stored.

    For campaigns that count what they find. A test that shall stop at the first failure and shrink it uses
    ``hypothesis.given`` itself.
    """
    seen = 0

    @seed(stream)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def draw(example: Drawn) -> None:
        nonlocal seen
        if seen < count:  # hypothesis may try a few more than it was asked for
            seen += 1
            each(example)

    with _no_constants_of_modules():
        draw()


@contextmanager
def _no_constants_of_modules() -> Iterator[None]:
    """Hypothesis also draws constants that stand in the modules that are loaded, so that what a seed draws
    would depend on what the process did before: a campaign would not be the same twice."""
    providers = importlib.import_module("hypothesis.internal.conjecture.providers")
    with mock.patch.object(providers, "_get_local_constants", providers.Constants):
        providers.CONSTANTS_CACHE.cache.clear()
        try:
            yield
        finally:
            providers.CONSTANTS_CACHE.cache.clear()
