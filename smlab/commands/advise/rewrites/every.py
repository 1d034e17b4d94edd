"""All changes that are made on a kernel's syntax tree, and the optimizers that advise them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from smlab.commands.advise.rewrites.arithmetic import (
    cheaper_functions,
    cheaper_integers,
    hoisted,
    shorter_integers,
)
from smlab.commands.advise.rewrites.memory import constant_tables, transposed_arrays, vector_accesses
from smlab.commands.advise.rewrites.parsed import ParsedKernel, SourceRewrite
from smlab.commands.advise.rewrites.shared import (
    own_counters,
    padded_rows,
    trees,
    without_barriers,
    without_block_bound,
)
from smlab.commands.advise.rewrites.split import lanes_along_rows, split_loops
from smlab.commands.advise.rewrites.tiles import shared_tiles
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
}
"""By kind."""


def rewrites_of(text: str, name: str, launch: LaunchFile) -> tuple[SourceRewrite, ...]:
    """Every change of the kernel of a ``name`` in a text; none where the text has no such kernel."""
    try:
        parsed = ParsedKernel(text, name)
    except ValueError:
        return ()
    return (
        *padded_rows(parsed),
        *own_counters(parsed, launch),
        *transposed_arrays(parsed, launch),
        *lanes_along_rows(parsed, launch),
        *constant_tables(parsed, launch),
        *vector_accesses(parsed, launch),
        *shared_tiles(parsed, launch),
        *trees(parsed),
        *without_barriers(parsed),
        *cheaper_functions(parsed),
        *cheaper_integers(parsed),
        *shorter_integers(parsed, launch),
        *without_block_bound(parsed),
        *split_loops(parsed, launch),
        *hoisted(parsed),
    )
