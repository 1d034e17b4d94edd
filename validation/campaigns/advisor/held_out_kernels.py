"""Kernels held out, in nine rounds, one set: each round was written when the estimators were finished, and
run once.

All are of 22 November 2026 (`WRITTEN`). `first_runs.json` keeps what each round found when it was new;
what a round found was mended after it. Whoever changes an estimator after looking at the last has to
write another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from smlab.validation.campaigns.advisor.kernels import SIZE, Change, StudyKernel, one, unrolled

_FILE: Final = "held_out_1_2"
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
_THIRD: Final = "held_out_3"
THIRD_ROUND: Final[tuple[StudyKernel, ...]] = (
    StudyKernel("scatter_values", _THIRD, 16, unrolled(4), blocks=4, threads=128),
    StudyKernel(
        "grey_levels", _THIRD, 4, (one("uncoalesced-access", "PLANES"), *unrolled(2)), blocks=16, n=SIZE
    ),
    StudyKernel("class_tally", _THIRD, 24, (one("privatisation", "PRIVATE"),)),
    StudyKernel(
        "group_sums",
        _THIRD,
        32,
        (one("privatisation", "COPIES", "4"), one("privatisation", "COPIES", "32")),
    ),
    StudyKernel("row_counters", _THIRD, 48, (one("bank-layout", "STRIDE", "9"),)),
    StudyKernel("one_does_more", _THIRD, 64, (one("warp-balance", "EVEN"),)),
    StudyKernel("squares", _THIRD, 2, (one("warp-balance", "EVEN"),)),
    StudyKernel("lane_lengths", _THIRD, 12, (one("divergence", "GROUPED"),)),
    StudyKernel("lengths_of_vectors", _THIRD, 12, (one("fast-math", "FAST"),)),
    StudyKernel("waves", _THIRD, 24, (one("fast-math", "FAST"),)),
    StudyKernel("hash_places", _THIRD, 24, (one("strength-reduction", "MASK"),), n=4096),
    StudyKernel("smoothed", _THIRD, 32, (one("fp64-constants", "SINGLE"),)),
    StudyKernel("box_filter", _THIRD, 16, (one("memory-transaction-reduction", "TILE"),)),
    StudyKernel("polynomials", _THIRD, 6, (one("memory-transaction-reduction", "CONSTANT"),)),
    StudyKernel(
        "two_big_blocks",
        _THIRD,
        48,
        (Change("block-increase", blocks=8, threads=256), Change("block-increase", blocks=16, threads=128)),
        blocks=2,
        threads=1024,
        n=1 << 15,
    ),
    StudyKernel("column_means", _THIRD, 48, (one("bank-conflicts", "PAD", "1"), *unrolled(4))),
    StudyKernel("mixed_calls", _THIRD, 24, (one("function-inlining", "INLINE"),)),
    StudyKernel("recent_values", _THIRD, 24, (one("register-reuse", "REGISTERS"),)),
    StudyKernel(
        "load_then_work",
        _THIRD,
        32,
        (*unrolled(2, 4), one("code-reordering", "AHEAD")),
        blocks=4,
        threads=128,
    ),
    StudyKernel("masked_sum", _THIRD, 32, unrolled(2, 4), blocks=4, threads=96),
    StudyKernel(
        "warp_scans",
        _THIRD,
        48,
        (Change("code-reordering", {"CHAINS": "2"}), Change("code-reordering", {"CHAINS": "4"})),
        blocks=8,
        threads=64,
    ),
    StudyKernel("tuned_blend", _THIRD, 3, blocks=16, threads=512, tuned=True),
    StudyKernel("tuned_squares", _THIRD, 32, tuned=True, blocks=32),
)
_FOURTH: Final = "held_out_4"
FOURTH_ROUND: Final[tuple[StudyKernel, ...]] = (
    StudyKernel("where_odd", _FOURTH, 24, unrolled(2, 4), blocks=4, threads=128),
    StudyKernel("complex_product", _FOURTH, 16, (one("uncoalesced-access", "PLANES"),)),
    StudyKernel("word_counts", _FOURTH, 24, (one("privatisation", "PRIVATE"),)),
    StudyKernel(
        "block_maximum",
        _FOURTH,
        48,
        (one("privatisation", "COPIES", "4"), one("privatisation", "COPIES", "32")),
    ),
    StudyKernel("pair_rows", _FOURTH, 48, (one("bank-layout", "STRIDE", "25"),)),
    StudyKernel("late_half", _FOURTH, 32, (one("warp-balance", "EVEN"), *unrolled(4))),
    StudyKernel("lane_quarters", _FOURTH, 12, (one("divergence", "GROUPED"),)),
    StudyKernel("soft_plus", _FOURTH, 16, (one("fast-math", "FAST"),)),
    StudyKernel("squash", _FOURTH, 24, (one("fast-math", "FAST"),)),
    StudyKernel("calendar", _FOURTH, 24, (one("strength-reduction", "SHIFT"),), n=8),
    StudyKernel("leaky", _FOURTH, 24, (one("fp64-constants", "SINGLE"),)),
    StudyKernel("five_taps", _FOURTH, 12, (one("memory-transaction-reduction", "TILE"),)),
    StudyKernel("gains", _FOURTH, 16, (one("memory-transaction-reduction", "CONSTANT"),)),
    StudyKernel(
        "one_block",
        _FOURTH,
        1,
        (Change("block-increase", blocks=2, threads=256), Change("block-increase", blocks=4, threads=128)),
        blocks=1,
        threads=512,
        n=1 << 15,
    ),
    StudyKernel("turned_tile", _FOURTH, 64, (one("bank-conflicts", "PAD", "1"), *unrolled(4))),
    StudyKernel("stepper", _FOURTH, 24, (one("function-inlining", "INLINE"),)),
    StudyKernel(
        "two_arrays",
        _FOURTH,
        24,
        (*unrolled(2), one("code-reordering", "AHEAD")),
        blocks=4,
        threads=64,
    ),
    StudyKernel(
        "mixed_hash",
        _FOURTH,
        48,
        (Change("code-reordering", {"CHAINS": "2"}), Change("code-reordering", {"CHAINS": "4"})),
        blocks=8,
        threads=64,
    ),
    StudyKernel("tuned_gather", _FOURTH, 4, blocks=16, threads=512, tuned=True),
)
_FIFTH: Final = "held_out_5"
FIFTH_ROUND: Final[tuple[StudyKernel, ...]] = (
    StudyKernel("layer_sums", _FIFTH, 8, (one("divergence", "GROUPED"),)),
    StudyKernel("frontier", _FIFTH, 24, unrolled(2, 4), blocks=4, threads=128),
    StudyKernel(
        "tree_search",
        _FIFTH,
        16,
        (Change("code-reordering", {"CHAINS": "2"}), Change("code-reordering", {"CHAINS": "4"})),
        blocks=8,
        threads=128,
    ),
    StudyKernel("fluxes", _FIFTH, 16, (one("fast-math", "FAST"),)),
    StudyKernel(
        "pivot_rows",
        _FIFTH,
        12,
        (
            Change("thread-increase", blocks=128, threads=64),
            Change("thread-increase", blocks=64, threads=128),
        ),
        blocks=256,
        threads=32,
        n=256 * 32,
    ),
    StudyKernel("template_match", _FIFTH, 8, unrolled(2, 8)),
    StudyKernel("heat_step", _FIFTH, 24, (one("strength-reduction", "RECIPROCAL"),)),
    StudyKernel("code_offsets", _FIFTH, 4, (one("warp-balance", "EVEN"),)),
    StudyKernel("assign_points", _FIFTH, 16, (one("uncoalesced-access", "PLANES"), *unrolled(4))),
    StudyKernel("box_forces", _FIFTH, 96, (one("fast-math", "FAST"), *unrolled(2)), threads=128),
    StudyKernel("lower_rows", _FIFTH, 32, unrolled(4), blocks=8),
    StudyKernel("species", _FIFTH, 8, (one("function-split", "ROLLED"),), blocks=8),
    StudyKernel("alignments", _FIFTH, 96, (one("warp-balance", "FEWER"),), threads=128),
    StudyKernel(
        "particle_weights",
        _FIFTH,
        48,
        (Change("block-increase", blocks=4, threads=256), Change("block-increase", blocks=8, threads=128)),
        blocks=1,
        threads=1024,
        n=1 << 13,
    ),
    StudyKernel("diffusion", _FIFTH, 12, (one("warp-balance", "EVEN"),)),
    StudyKernel("cheapest_paths", _FIFTH, 32, (one("code-reordering", "AHEAD"),), blocks=8),
    StudyKernel("collisions", _FIFTH, 32, (one("function-inlining", "INLINE"),)),
    StudyKernel("many_live", _FIFTH, 24, (one("register-reuse", "REGISTERS"),)),
    StudyKernel("tensor_places", _FIFTH, 24, (one("strength-reduction", "MAGIC"),), n=24),
    StudyKernel("star_stencil", _FIFTH, 12, (one("memory-transaction-reduction", "CONSTANT"),)),
    StudyKernel("byte_sums", _FIFTH, 32, (one("memory-transaction-reduction", "WIDE"),)),
    StudyKernel("energy_totals", _FIFTH, 12, (one("privatisation", "PRIVATE"),)),
    StudyKernel("dense_rows", _FIFTH, 2, (one("uncoalesced-access", "ROWS"),), blocks=8),
    StudyKernel("turned_pairs", _FIFTH, 12, (one("bank-conflicts", "SWIZZLE"),)),
    StudyKernel("moments", _FIFTH, 32, (one("fp64-precision", "SINGLE"),)),
    StudyKernel("ramps", _FIFTH, 48, (one("conversions", "COUNTED"),)),
    StudyKernel("warp_tables", _FIFTH, 32, (one("privatisation", "COPIES", "8"),)),
    StudyKernel("tuned_dot", _FIFTH, 4, blocks=16, threads=512, tuned=True),
    StudyKernel("tuned_matrix", _FIFTH, 12, blocks=32, tuned=True),
)
_SIXTH: Final = "held_out_6"
SIXTH_ROUND: Final[tuple[StudyKernel, ...]] = (
    StudyKernel("bias_relu", _SIXTH, 24, unrolled(2, 4), blocks=4, threads=128),
    StudyKernel("row_variance", _SIXTH, 512, unrolled(4), blocks=8),
    StudyKernel("particles", _SIXTH, 7, (one("uncoalesced-access", "SOA"),)),
    StudyKernel("word_table", _SIXTH, 24, (one("privatisation", "PRIVATE"),)),
    StudyKernel("gamma_curve", _SIXTH, 16, (one("fast-math", "FAST"),)),
    StudyKernel("gates", _SIXTH, 24, (one("fast-math", "FAST"),)),
    StudyKernel("rotations", _SIXTH, 16, (one("fast-math", "FAST"),)),
    StudyKernel("two_dimensions", _SIXTH, 24, (one("strength-reduction", "SHIFT"),), n=64),
    StudyKernel("blended", _SIXTH, 24, (one("fp64-constants", "SINGLE"),)),
    StudyKernel("sparse_work", _SIXTH, 12, (one("divergence", "GROUPED"),)),
    StudyKernel("wedge", _SIXTH, 12, (one("warp-balance", "EVEN"),)),
    StudyKernel("sixteen_sums", _SIXTH, 24, (one("privatisation", "PRIVATE"),)),
    StudyKernel("tile_sums", _SIXTH, 64, (one("bank-conflicts", "PAD", "1"), *unrolled(4))),
    StudyKernel("filter_bank", _SIXTH, 12, (one("memory-transaction-reduction", "CONSTANT"), *unrolled(2))),
    StudyKernel(
        "root_chains",
        _SIXTH,
        32,
        (Change("code-reordering", {"CHAINS": "2"}), Change("code-reordering", {"CHAINS": "4"})),
        blocks=8,
        threads=64,
    ),
    StudyKernel(
        "two_of_four",
        _SIXTH,
        24,
        (Change("block-increase", blocks=4, threads=256), Change("block-increase", blocks=16, threads=64)),
        blocks=2,
        threads=512,
        n=1 << 14,
    ),
    StudyKernel("ring_buffer", _SIXTH, 24, (one("register-reuse", "REGISTERS"),)),
    StudyKernel("material", _SIXTH, 24, (one("function-inlining", "INLINE"),)),
    StudyKernel("linked_rows", _SIXTH, 24, unrolled(2, 4), blocks=4, threads=128),
    StudyKernel("tuned_sums", _SIXTH, 8, blocks=16, threads=256, tuned=True),
)
_SEVENTH: Final = "held_out_7"
SEVENTH_ROUND: Final[tuple[StudyKernel, ...]] = (
    StudyKernel("exchanged", _SEVENTH, 16, (one("uncoalesced-access", "LOOPS"), *unrolled(4)), blocks=8),
    StudyKernel(
        "carried_window", _SEVENTH, 14, (one("memory-transaction-reduction", "CARRIED"), *unrolled(2))
    ),
    StudyKernel(
        "over_threshold",
        _SEVENTH,
        32,
        (one("warp-aggregation", "VOTED"), one("privatisation", "COUNTED")),
    ),
    StudyKernel("running_variance", _SEVENTH, 24, (one("fp64-precision", "SINGLE"),)),
    StudyKernel("directions", _SEVENTH, 24, (one("fast-math", "FAST"),)),
    StudyKernel("round_robin", _SEVENTH, 48, (one("strength-reduction", "RUNNING"),), n=37),
    StudyKernel(
        "logistic_maps",
        _SEVENTH,
        64,
        (Change("code-reordering", {"CHAINS": "2"}), Change("code-reordering", {"CHAINS": "4"})),
        blocks=8,
        threads=64,
    ),
    StudyKernel(
        "pairs_of_columns", _SEVENTH, 12, (one("bank-conflicts", "PAD", "1"), *unrolled(4)), blocks=8
    ),
    StudyKernel("early_out", _SEVENTH, 4, (one("divergence", "DEALT"),)),
    StudyKernel("first_warp_sums", _SEVENTH, 16, (one("warp-balance", "SHARED_OUT"),)),
    StudyKernel(
        "followed_pairs",
        _SEVENTH,
        16,
        (*unrolled(2, 4), one("code-reordering", "AHEAD")),
        blocks=4,
        threads=128,
    ),
    StudyKernel(
        "spread_out",
        _SEVENTH,
        1,
        (Change("block-increase", blocks=4, threads=256), Change("block-increase", blocks=16, threads=64)),
        blocks=1,
        threads=1024,
        n=1 << 14,
    ),
    StudyKernel(
        "weighted_lags",
        _SEVENTH,
        64,
        (one("memory-transaction-reduction", "CONSTANT"), *unrolled(2, 4)),
        blocks=8,
    ),
    StudyKernel("lane_slots", _SEVENTH, 32, (one("bank-layout", "STRIDE", "33"),)),
    StudyKernel("tuned_axpy", _SEVENTH, 4, blocks=8, threads=512, tuned=True),
)
_EIGHTH: Final = "held_out_8"
EIGHTH_ROUND: Final[tuple[StudyKernel, ...]] = (
    StudyKernel(
        "sparse_rows",
        _EIGHTH,
        24,
        (one("uncoalesced-access", "WARPS"), *unrolled(4)),
        blocks=8,
    ),
    StudyKernel("outer_products", _EIGHTH, 12, (one("bank-conflicts", "PAD", "1"), *unrolled(2, 4))),
    StudyKernel("odd_lengths", _EIGHTH, 29, unrolled(2, 8), blocks=8, threads=128),
    StudyKernel(
        "horner_sets",
        _EIGHTH,
        48,
        (Change("code-reordering", {"CHAINS": "2"}), Change("code-reordering", {"CHAINS": "8"})),
        blocks=8,
        threads=128,
    ),
    StudyKernel("next_tile", _EIGHTH, 24, (one("code-reordering", "AHEAD"),), blocks=8),
    StudyKernel("neighbour_sums", _EIGHTH, 24, (one("warp-balance", "SHUFFLED"),)),
    StudyKernel("kept_places", _EIGHTH, 16, (one("privatisation", "AGGREGATED"),)),
    StudyKernel("path_lengths", _EIGHTH, 12, (one("divergence", "SORTED"),)),
    StudyKernel("power_laws", _EIGHTH, 16, (one("fast-math", "FAST"),)),
    StudyKernel("decays", _EIGHTH, 48, (one("fast-math", "FAST"), *unrolled(2))),
    StudyKernel("cell_indices", _EIGHTH, 16, (one("strength-reduction", "RECIPROCAL"), *unrolled(4))),
    StudyKernel("picked_values", _EIGHTH, 24, (one("register-reuse", "SELECTED"),)),
    StudyKernel(
        "level_counts",
        _EIGHTH,
        24,
        (one("privatisation", "COPIES", "4"), one("privatisation", "COPIES", "16")),
    ),
    StudyKernel("tuned_triad", _EIGHTH, 4, blocks=8, threads=512, tuned=True),
)
_NINTH: Final = "held_out_9"
NINTH_ROUND: Final[tuple[StudyKernel, ...]] = (
    StudyKernel(
        "trapezoids",
        _NINTH,
        24,
        (Change("code-reordering", {"CHAINS": "2"}), *unrolled(2, 4)),
        blocks=8,
        threads=128,
    ),
    StudyKernel("key_lookups", _NINTH, 24, unrolled(2, 4), blocks=8, threads=128),
    StudyKernel("colour_planes", _NINTH, 24, (one("uncoalesced-access", "PLANES"), *unrolled(4))),
    StudyKernel("cosine_rows", _NINTH, 24, (one("fast-math", "FAST"),)),
    StudyKernel("logistic_scores", _NINTH, 24, (one("fast-math", "FAST"),)),
    StudyKernel("date_fields", _NINTH, 24, (one("strength-reduction", "SHIFT"),), n=32),
    StudyKernel("ray_steps", _NINTH, 12, (one("divergence", "SORTED"),)),
    StudyKernel("channel_mix", _NINTH, 24, (one("bank-conflicts", "PAD", "1"), *unrolled(2, 4))),
    StudyKernel("vote_table", _NINTH, 24, (one("privatisation", "PRIVATE"),)),
    StudyKernel("mean_field", _NINTH, 24, (one("fp64-constants", "SINGLE"),)),
    StudyKernel("tuned_sum_of_four", _NINTH, 4, blocks=16, threads=256, tuned=True),
)
ROUNDS: Final[Mapping[str, tuple[StudyKernel, ...]]] = {
    "first_round": FIRST_ROUND,
    "second_round": SECOND_ROUND,
    "third_round": THIRD_ROUND,
    "fourth_round": FOURTH_ROUND,
    "fifth_round": FIFTH_ROUND,
    "sixth_round": SIXTH_ROUND,
    "seventh_round": SEVENTH_ROUND,
    "eighth_round": EIGHTH_ROUND,
    "ninth_round": NINTH_ROUND,
}
WRITTEN: Final[Mapping[str, str]] = dict.fromkeys(ROUNDS, "2026-11-22")
"""The day on which each round was written and frozen."""
LATER_ROUNDS: Final = (
    *THIRD_ROUND,
    *FOURTH_ROUND,
    *FIFTH_ROUND,
    *SIXTH_ROUND,
    *SEVENTH_ROUND,
    *EIGHTH_ROUND,
    *NINTH_ROUND,
)
"""Those on which blame is judged too. Rounds 3 to 6 were in view when it learnt what L1 has; the later ones
were written after that."""
