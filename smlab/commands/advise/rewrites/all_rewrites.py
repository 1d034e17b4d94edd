"""All changes that are made on a kernel's syntax tree, and the optimizers that advise them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from smlab.commands.advise.rewrites.arithmetic import (
    cheaper_functions,
    cheaper_integers,
    divisors,
    hoisted,
    shorter_integers,
)
from smlab.commands.advise.rewrites.atomics import own_tables, warp_aggregated
from smlab.commands.advise.rewrites.layouts import transposed_arrays
from smlab.commands.advise.rewrites.memory import constant_tables, vector_accesses
from smlab.commands.advise.rewrites.parsed import ParsedKernel, SourceRewrite
from smlab.commands.advise.rewrites.pipelines import buffers_in_turn, prefetched_tiles
from smlab.commands.advise.rewrites.precision import single_precision
from smlab.commands.advise.rewrites.shared import (
    inlined,
    narrower_shared,
    other_block_bounds,
    own_counters,
    padded_rows,
    trees,
    without_barriers,
)
from smlab.commands.advise.rewrites.split import lanes_along_rows, split_loops
from smlab.commands.advise.rewrites.sums import split_sums, sums_by_a_warp, sums_in_registers
from smlab.commands.advise.rewrites.threads import more_work, turned_axes, warps_for_rows
from smlab.commands.advise.rewrites.tiles import shared_tiles
from smlab.commands.advise.rewrites.windows import shared_windows
from smlab.sim.isa.launch.launch_file import LaunchFile

ADVISED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "padded-rows": ("bank-conflicts", "bank-layout"),
    "own-counters": ("privatisation",),
    "transposed-array": ("uncoalesced-access",),
    "interleaved": ("uncoalesced-access",),
    "lanes-along-rows": ("uncoalesced-access",),
    "constant-table": ("memory-transaction-reduction",),
    "vector-loads": ("memory-transaction-reduction",),
    "shared-tiles": ("memory-transaction-reduction", "uncoalesced-access"),
    "trees": ("warp-balance",),
    "barrier": ("warp-balance",),
    "functions": ("fast-math",),
    "integers": ("strength-reduction",),
    "more-registers": ("register-reuse",),
    "split-loop": ("block-increase",),
    "hoisted": (),
    "inlined": ("function-inlining",),
    "loads-ahead": ("code-reordering",),
    "less-shared": ("block-increase",),
    "more-work": (),
    "register-sum": (),
    "single-precision": ("fp64-constants", "fp64-precision", "conversions"),
    "split-sums": (),
    "warp-aggregation": ("warp-aggregation",),
}
"""By kind."""


def rewrites_of(text: str, name: str, launch: LaunchFile) -> tuple[SourceRewrite, ...]:
    """Every change of the kernel of a ``name`` in a text; none where the text has no such kernel."""
    try:
        parsed = ParsedKernel(text, name, launch)
    except ValueError:
        return ()
    return (
        *padded_rows(parsed),
        *own_counters(parsed, launch),
        *own_tables(parsed, launch),
        *warp_aggregated(parsed),
        *single_precision(parsed),
        *transposed_arrays(parsed, launch),
        *turned_axes(parsed, launch),
        *lanes_along_rows(parsed, launch),
        *warps_for_rows(parsed, launch),
        *prefetched_tiles(parsed),
        *more_work(parsed, launch),
        *split_sums(parsed),
        *sums_in_registers(parsed),
        *constant_tables(parsed, launch),
        *vector_accesses(parsed, launch),
        *shared_tiles(parsed, launch),
        *shared_windows(parsed, launch),
        *trees(parsed),
        *sums_by_a_warp(parsed, launch),
        *buffers_in_turn(parsed),
        *without_barriers(parsed),
        *cheaper_functions(parsed),
        *cheaper_integers(parsed),
        *shorter_integers(parsed, launch),
        *divisors(parsed, launch),
        *other_block_bounds(parsed),
        *narrower_shared(parsed),
        *inlined(parsed),
        *split_loops(parsed, launch),
        *hoisted(parsed),
    )
