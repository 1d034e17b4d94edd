"""Built-in workloads: `atomics`, the microbenchmark of the shared-memory atomic unit;
`smlab.sim.workloads.histogram` has the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from smlab.hw_bench.errors import SmlabError
from smlab.sim.address_patterns import Grouped
from smlab.sim.options import by_keywords
from smlab.sim.workloads.histogram import histogram
from smlab.sim.workloads.workload import MAX_WARPS, NO_WARP, Instruction, Kernel, Loop, Program

OPERATIONS = {"add": "atomic-add", "cas": "atomic-cas", "popc-inc": "atomic-popc-inc"}

MAX_WARPS_PER_BLOCK = 1024
"""More than any GPU allows; what the one at hand allows is checked when the kernel is lowered to it."""

WARM_UP_ROUNDS, MEASURED_ROUNDS = 4, 8
"""Of looped microbenchmarks: rounds of n completions that are thrown away, and rounds that are timed."""


@dataclass(frozen=True, kw_only=True)
class AtomicsOptions:
    """The options of `atomics`."""

    warps: int = 8
    blocks: int = 1
    op: str = "add"
    cas_warps: int = 0
    lanes: int = 32
    same_word: int | None = None
    same_bank: int = 1
    iterations: int = 1
    returns: bool = False


@by_keywords(AtomicsOptions)
def atomics(options: AtomicsOptions) -> Kernel:
    """``warps`` warps in each of ``blocks`` blocks on one SM, each doing ``iterations`` shared-memory
    atomics.

    ``cas_warps`` of all the warps do compare-and-swap instead of ``op``, the first ones of the grid.
    ``lanes`` lanes are active, ``same_word`` of them on each word, ``same_bank`` distinct words on each bank.
    ``iterations=1`` is the all-at-once microbenchmark of Dong & Pai, Section 3.2. With more, the atomics of
    one warp follow each other as fast as the queue takes them. With ``returns`` each waits for the result of
    the one before: the looped microbenchmark, in which as many jobs circulate as there are warps.

    Raises:
        SmlabError: for what cannot be laid out, naming the key.
    """
    warps, blocks, op, lanes = options.warps, options.blocks, options.op, options.lanes
    cas_warps, iterations, returns = options.cas_warps, options.iterations, options.returns
    same_word = lanes if options.same_word is None else options.same_word
    if not 1 <= warps <= MAX_WARPS_PER_BLOCK:
        raise SmlabError.at("atomics: warps", "out of range", warps, f"1 to {MAX_WARPS_PER_BLOCK}")
    if not 1 <= blocks * warps <= MAX_WARPS:
        most = MAX_WARPS // warps
        raise SmlabError.at("atomics: blocks", "out of range", blocks, f"1 to {most} of {warps} warps")
    if iterations < 1:
        raise SmlabError.at("atomics: iterations", "out of range", iterations, "at least 1")
    if op not in OPERATIONS:
        raise SmlabError.at("atomics: op", "unknown operation", op, "one of " + ", ".join(OPERATIONS))
    if not 0 <= cas_warps <= warps * blocks:
        raise SmlabError.at("atomics: cas_warps", "out of range", cas_warps, f"0 to {warps * blocks}")
    if not 1 <= lanes <= 32:
        raise SmlabError.at("atomics: lanes", "out of range", lanes, "1 to 32")
    pattern = Grouped(same_word, options.same_bank)
    words = pattern.words(lanes, banks=32)

    def program(name: str, operation: str) -> Program:
        again = ("previous",) if returns else ()
        instruction = Instruction(
            OPERATIONS[operation], name="previous", after=again, lanes=lanes, shared=pattern, returns=returns
        )
        return Program(name, (instruction,) if iterations == 1 else (Loop(iterations, (instruction,)),))

    roles = tuple(
        tuple(1 if block * warps + warp < cas_warps else 0 for warp in range(warps))
        for block in range(blocks)
    )
    return Kernel(
        name="atomics",
        programs=(program(op, op), program("cas", "cas")),
        roles=roles,
        blocks=blocks,
        shared_bytes_per_block=4 * (int(words.max()) + 1),
    )


@lru_cache(maxsize=8192)
def simultaneous_atomics(
    jobs: int, op: str, lanes_on_word: int, cas_jobs: int = 0, iterations: int = 1
) -> Kernel:
    """The microbenchmark behind T(n, e, c): n = ``jobs`` warps, e = ``lanes_on_word`` active lanes on one
    word.

    More than 32 warps come as two blocks, as they must on hardware; an odd number leaves one place empty.
    With more than one iteration, each warp waits for its result before the next atomic, so that n jobs
    circulate.
    """
    blocks = 1 if jobs <= 32 else 2
    warps = -(-jobs // blocks)
    kernel = atomics(
        warps=warps,
        blocks=blocks,
        op=op,
        cas_warps=cas_jobs,
        lanes=lanes_on_word,
        iterations=iterations,
        returns=iterations > 1,
    )
    if blocks * warps == jobs:
        return kernel
    roles = (*kernel.roles[:-1], (*kernel.roles[-1][:-1], NO_WARP))
    return Kernel(kernel.name, kernel.programs, roles, blocks, kernel.shared_bytes_per_block)


BUILT_IN: Mapping[str, object] = {"atomics": atomics, "histogram": histogram}
"""Functions of keyword arguments that give a kernel. One with a parameter ``gpu`` is given the description
as well."""
