"""Kernels held out, in two rounds: written when the estimators were finished, and judged once.

The first round was run with the estimators frozen, and found rules that did not match where they should;
these were mended, so the round is seen since. The second was written and run after that. What it finds is
told beside the figures of `kernels`, on which the estimators were shaped. Whoever changes an estimator after
looking at it has to write a third.
"""

from __future__ import annotations

from typing import Final

from smlab.validation.advisor.kernels import Change, StudyKernel, one, unrolled

_FILE: Final = "unseen"
FIRST_ROUND: Final[tuple[StudyKernel, ...]] = (
    StudyKernel("triad", _FILE, 24, unrolled(2, 4), blocks=4, threads=128),
    StudyKernel("row_sums", _FILE, 48, (one("uncoalesced-access", "COLUMNS"), *unrolled(4))),
    StudyKernel("nearest_centre", _FILE, 4, (one("memory-transaction-reduction", "CONSTANT"), *unrolled(4))),
    StudyKernel(
        "few_bins",
        _FILE,
        32,
        (
            one("privatisation", "COPIES", "4"),
            one("privatisation", "COPIES", "16"),
            one("warp-aggregation", "AGGREGATE"),
        ),
    ),
    StudyKernel("lane_counters", _FILE, 48, (one("bank-layout", "STRIDE", "33"),)),
    StudyKernel("tile_columns", _FILE, 64, (one("bank-conflicts", "PAD", "1"), *unrolled(4))),
    StudyKernel("gaussian", _FILE, 12, (one("fast-math", "FAST"),)),
    StudyKernel("ring_index", _FILE, 32, (one("strength-reduction", "MASK"),), n=4096),
    StudyKernel("damped", _FILE, 24, (one("fp64-constants", "SINGLE"),)),
    StudyKernel("filter_step", _FILE, 32, (one("function-inlining", "INLINE"),), blocks=8),
    StudyKernel("triangle", _FILE, 6, (one("warp-balance", "EVEN"),)),
    StudyKernel("vote_counts", _FILE, 24, (one("privatisation", "PRIVATE"),)),
    StudyKernel("small_stack", _FILE, 32, (one("register-reuse", "REGISTERS"),)),
    StudyKernel(
        "two_hops",
        _FILE,
        24,
        (*unrolled(2, 4), one("code-reordering", "AHEAD")),
        blocks=4,
        threads=96,
    ),
    StudyKernel("two_ways", _FILE, 16, (one("divergence", "GROUPED"),)),
    StudyKernel(
        "recurrence",
        _FILE,
        512,
        (Change("code-reordering", {"CHAINS": "2"}), Change("code-reordering", {"CHAINS": "4"})),
        blocks=8,
        threads=128,
    ),
    StudyKernel("tuned_scale", _FILE, 8, threads=256, tuned=True),
    StudyKernel("tuned_polynomial", _FILE, 24, tuned=True, blocks=32),
)
SECOND_ROUND: Final[tuple[StudyKernel, ...]] = (
    StudyKernel("axpy_chain", _FILE, 32, unrolled(2, 8), blocks=4, threads=128),
    StudyKernel("fields", _FILE, 6, (one("uncoalesced-access", "SOA"),)),
    StudyKernel("weights", _FILE, 6, (one("memory-transaction-reduction", "CONSTANT"),)),
    StudyKernel(
        "geometric_bins",
        _FILE,
        32,
        (one("privatisation", "COPIES", "8"), one("warp-aggregation", "AGGREGATE")),
    ),
    StudyKernel("slot_maxima", _FILE, 48, (one("bank-layout", "STRIDE", "17"),)),
    StudyKernel("matrix_rows", _FILE, 64, (one("bank-conflicts", "PAD", "1"), *unrolled(2))),
    StudyKernel("tone_map", _FILE, 12, (one("fast-math", "FAST"),)),
    StudyKernel("digits", _FILE, 24, (one("strength-reduction", "SHIFT"),), n=16),
    StudyKernel("orbit", _FILE, 24, (one("fp64-constants", "SINGLE"),)),
    StudyKernel("clamp_calls", _FILE, 24, (one("function-inlining", "INLINE"),)),
    StudyKernel("ragged", _FILE, 16, (one("warp-balance", "EVEN"),)),
    StudyKernel("pair_counts", _FILE, 24, (one("privatisation", "PRIVATE"),)),
    StudyKernel("window", _FILE, 32, (one("register-reuse", "REGISTERS"),)),
    StudyKernel("index_sums", _FILE, 32, unrolled(2, 4), blocks=4, threads=128),
    StudyKernel("lane_roles", _FILE, 12, (one("divergence", "GROUPED"),)),
    StudyKernel("series", _FILE, 48, (Change("code-reordering", {"CHAINS": "2"}),), blocks=8, threads=64),
    StudyKernel("tuned_add", _FILE, 4, blocks=16, threads=512, tuned=True),
)
