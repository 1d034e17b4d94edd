"""Hypothesis strategies for GPUs, kernels and runs, so that anybody can put a model of their own to the test.

from hypothesis import given
from validation.strategies import runs

@given(runs())
def test_my_model(run):
    assert my_model(run.kernel, run.machine) >= run.result.cycles
"""

from __future__ import annotations

import dataclasses
from functools import cache

from hypothesis import strategies as st

from hw_bench.descriptions import Gpu, load_gpu
from sim.lowering import LoweredKernel, lower
from sim.machine import CacheShape, Machine, machine_from
from sim.patterns import Affine, Grouped, RandomBytes, RandomWords, SharedPattern, Strided
from sim.policies import POLICIES
from sim.reference import Record
from sim.simulate import DEFAULT_ENGINE, ENGINES
from sim.workload import NO_WARP, Duration, Instruction, Kernel, Loop, Program
from validation.laws import Run

SHARED_BYTES = 16 * 1024
"""Shared memory of every drawn block; all drawn patterns stay inside it."""

NAMES = ("a", "b", "c")

_base = cache(load_gpu)


@st.composite
def gpus(draw: st.DrawFn, base: str = "a100-40") -> Gpu:
    """A GPU description near ``base`` in what the SM's units do: queues, intervals, latencies, caches, schedulers."""
    small = st.integers(1, 8)
    tenths = st.integers(10, 60).map(lambda t: t / 10)
    values: dict[str, int | float | str] = {
        "sm.schedulers": draw(st.sampled_from([1, 2, 4])),
        "sm.max_blocks": draw(st.integers(1, 8)),
        "sm.block_launch_cycles": draw(st.integers(0, 20)),
        "sm.barrier_latency_cycles": draw(small),
        "pipe.int32.interval_cycles": draw(st.integers(1, 4)),
        "pipe.int32.latency_cycles": draw(st.integers(4, 12)),
        "pipe.fp64.interval_cycles": draw(st.integers(1, 16)),
        "pipe.fp64.shared_by": draw(st.sampled_from(["sm", "scheduler"])),
        "shared.queue_entries": draw(small),
        "shared.interval_cycles_per_pass": draw(tenths),
        "shared.load_latency_cycles": draw(st.integers(10, 30)),
        "atomic.queue_entries": draw(st.integers(1, 16)),
        "lsu.queue_entries": draw(small),
        "l1.interval_cycles_per_line": draw(tenths),
    }
    for op in ("add", "cas", "popc_inc"):
        values[f"atomic.{op}.base_interval_cycles"] = draw(tenths)
        values[f"atomic.{op}.pass_interval_cycles"] = draw(st.integers(0, 30).map(lambda t: t / 10))
        values[f"atomic.{op}.latency_cycles"] = draw(st.integers(1, 60))
    return _base(base).with_values(values, source="assumed: drawn at random")


@st.composite
def machines(draw: st.DrawFn, base: str = "a100-40") -> Machine:
    """A drawn GPU under a drawn policy, as the engines see it; caches may be so small that lines are evicted."""
    machine = machine_from(draw(gpus(base)), draw(policies()))
    shapes = st.builds(CacheShape, sets=st.sampled_from([1, 4, 64]), ways=st.sampled_from([1, 2, 4]))
    return dataclasses.replace(machine, l1=draw(shapes), l2=draw(shapes))


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


def durations() -> st.SearchStrategy[Duration]:
    """Times of 1 to 300 cycles, fixed or exponential."""
    return st.builds(Duration, st.integers(1, 300), st.sampled_from(["fixed", "exponential"]))


@st.composite
def instructions(draw: st.DrawFn, name: str, known: tuple[str, ...], barriers: bool) -> Instruction:
    """One instruction that may need results of the ``known`` ones (and of its own earlier executions)."""
    classes = [
        "int32",
        "fp32",
        "fp64",
        "sfu",
        "control",
        "think",
        "shared-load",
        "shared-store",
        "global-load",
    ]
    atomics = ["atomic-add", "atomic-cas", "atomic-popc-inc"]
    op = draw(st.sampled_from(classes + atomics * 3 + ["global-store"] + ["barrier"] * barriers))
    after = tuple(draw(st.sets(st.sampled_from(known), max_size=2))) if known else ()
    if op in ("think", "barrier"):
        return Instruction(op, after=after, duration=draw(durations()) if op == "think" else None)
    lanes = draw(st.sampled_from([1, 7, 16, 32]))
    affine = st.builds(
        Affine,
        lane_stride_bytes=st.sampled_from([0, 4, 36, 128]),
        warp_stride_bytes=st.sampled_from([0, 128, 4096]),
        iteration_stride_bytes=st.sampled_from([0, 128, 8192]),
    )
    return Instruction(
        op,
        name=name if op not in ("shared-store", "global-store") else "",
        after=tuple(sorted(after)),
        lanes=lanes,
        shared=draw(shared_patterns(lanes)),
        memory=draw(st.one_of(affine, st.sampled_from([1024, 1 << 20]).map(RandomBytes))),
        returns=name in known or op not in atomics or draw(st.booleans()),
        duration=draw(st.none() | durations()) if op in atomics else None,
    )


@st.composite
def programs(draw: st.DrawFn, name: str = "p", barriers: bool = True, max_loop: int = 8) -> Program:
    """A program of a few instructions, in loops up to two deep, with dependences between them."""
    results: list[str] = []

    def one(index: int) -> Instruction:
        label = f"i{index}"
        instruction = draw(instructions(label, tuple(results), barriers))
        if instruction.name and instruction.returns:
            results.append(label)
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
    chosen = tuple(draw(programs(name)) for name in NAMES[: draw(st.integers(1, 2))])
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


def policies() -> st.SearchStrategy[str]:
    return st.sampled_from(sorted(POLICIES))


@st.composite
def lowered_kernels(draw: st.DrawFn) -> LoweredKernel:
    """A drawn kernel lowered for a drawn machine: what an engine is given."""
    return lower(draw(kernels()), draw(machines()), draw(st.integers(0, 2**32 - 1)))


@st.composite
def runs(draw: st.DrawFn, engine: str = DEFAULT_ENGINE) -> Run:
    """A drawn kernel simulated on a drawn machine, with everything recorded."""
    lowered = draw(lowered_kernels())
    return Run(ENGINES[engine](lowered, Record.ALL, None, None), lowered.kernel, lowered.machine)
