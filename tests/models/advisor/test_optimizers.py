"""Each optimizer on a kernel that it must match and on one that it must not."""

from collections.abc import Callable
from typing import Any

import pytest

from smlab.hw_bench.profiles.pc_samples.samples import LaunchFacts
from smlab.models.advisor.advice import OPTIMIZERS, advise, estimate, optimizer_of
from smlab.models.advisor.changes.gpa_optimizers import GPA_OPTIMIZERS

LOOP = """
MOV R1, R2 | line=1
LDG.E R0, [R2] | write=0 line=2
FADD R4, R0, R4 | waits=0 stall=4 line=2
IADD3 R2, R2, 0x4, RZ | line=2
ISETP.NE.AND P0, PT, R2, R9, PT | line=2
@P0 BRA 0x10 | stall=5 line=2
STG.E [R6], R4 | read=1 line=3
EXIT | line=3
"""
PLAIN = "MOV R1, R2\nFADD R3, R1, R1\nEXIT"
LONG = {"selected": 5, "long_scoreboard": 100}
SHORT = {"selected": 5, "short_scoreboard": 100}
SMALL = LaunchFacts(blocks=4, threads_per_block=128, sms=80, warps_per_scheduler=1)
FULL = LaunchFacts(blocks=8000, threads_per_block=128, sms=80, warps_per_scheduler=16)
NARROW = LaunchFacts(blocks=80_000, threads_per_block=32, sms=80, warps_per_scheduler=8)
ATOMIC = LOOP.replace("STG.E [R6], R4 | read=1", "ATOMS.ADD RZ, [R6], R4 | read=1").replace(
    "FADD R4, R0, R4 | waits=0 stall=4 line=2", "ATOMS.ADD R4, [R0], R7 | waits=0 write=1 line=2"
).replace("IADD3 R2, R2, 0x4, RZ |", "IADD3 R2, R2, R4, RZ | waits=1")  # fmt: skip
BY_THREAD = ATOMIC.replace("LDG.E R0, [R2] | write=0", "S2R R0, SR_TID.X | write=0", 1)
COPIES = """
MOV R1, R2 | line=1
NOP
LDGSTS.E.BYPASS.128 [R0], [R2.64] | line=2
LDGDEPBAR | write=0 line=2
DEPBAR.LE SB0, 0x0 | line=3
IADD3 R2, R2, 0x4, RZ | line=4
ISETP.NE.AND P0, PT, R2, R9, PT | line=4
@P0 BRA 0x20 | stall=5 line=4
EXIT
"""

MATCHES: dict[str, tuple[str, dict[int, dict[str, int]], dict[str, Any]]] = {
    "register-reuse": ("LDL R0, [R1] | write=0\nFADD R2, R0, R0 | waits=0\nEXIT", {1: LONG}, {}),
    "strength-reduction": (
        "I2F.RP R0, R1 | write=0\nMUFU.RCP R0, R0 | waits=0 write=0\nFADD R2, R0, R0 | waits=0\nEXIT",
        {1: SHORT, 2: SHORT},
        {},
    ),
    "function-split": (PLAIN, {1: {"selected": 5, "no_instructions": 100}}, {}),
    "fast-math": (
        "FMUL R1, R1, R2\n" * 8 + "MUFU.EX2 R3, R1 | write=0\nFMUL R4, R3, R3 | waits=0\nEXIT",
        {8: {"selected": 5, "wait": 50}, 9: SHORT},
        {},
    ),
    "warp-balance": ("BAR.SYNC 0x0\nEXIT", {0: {"selected": 5, "barrier": 100}}, {}),
    "memory-transaction-reduction": (
        "STG.E [R2], R0\nSTG.E [R4], R0\nEXIT",
        {1: {"selected": 5, "lg_throttle": 100}},
        {},
    ),
    "loop-unrolling": (LOOP, {2: LONG}, {}),
    "code-reordering": (LOOP, {2: LONG, 1: {"selected": 60}}, {}),
    "function-inlining": (
        "MOV R1, R2\nCALL.REL.NOINC `(f)\nEXIT\nFADD R1, R1, R1\nRET.REL.NODEC R20 `(k)",
        {1: {"selected": 50, "wait": 100}},
        {},
    ),
    "block-increase": (PLAIN, {1: {"selected": 50, "wait": 50}}, {"launch": SMALL}),
    "thread-increase": (PLAIN, {1: {"selected": 50, "wait": 50}}, {"launch": NARROW}),
    "warp-aggregation": (ATOMIC, {3: SHORT}, {"passes": {2: 32.0}}),
    "privatisation": (ATOMIC, {3: SHORT}, {"passes": {2: 32.0}}),
    "bank-layout": (BY_THREAD, {3: SHORT}, {"passes": {2: 32.0}}),
    "fewer-conflicts": (ATOMIC, {3: SHORT}, {"passes": {2: 3.5}}),
    "popc-inc": (
        "MOV R7, 0x1\nATOMS.ADD RZ, [R0], R7 | read=1\nMOV R0, R2 | waits=1\nEXIT",
        {2: SHORT},
        {"passes": {1: 32.0}, "architecture": "sm_80"},
    ),
    "block-size": (ATOMIC, {6: LONG}, {"passes": {2: 3.5}}),
    "fp64-constants": (
        "F2F.F64.F32 R2, R0 | write=0\nDMUL R2, R2, R4 | waits=0 write=1\n"
        "F2F.F32.F64 R0, R2 | waits=1 write=0\nFADD R0, R0, R0 | waits=0\nEXIT",
        {1: SHORT, 2: SHORT},
        {},
    ),
    "fp64-precision": ("DFMA R2, R4, R6, R8 | write=0\nDADD R2, R2, R2 | waits=0\nEXIT", {1: SHORT}, {}),
    "conversions": ("I2F R0, R1 | write=0\nFADD R0, R0, R0 | waits=0\nEXIT", {1: SHORT}, {}),
    "divergence": (LOOP, {2: {"selected": 50, "wait": 100}}, {"lanes": {2: 8.0}}),
    "uncoalesced-access": (LOOP, {2: LONG}, {"excess": {"l2": 4.0, "dram": 2.0}}),
    "bank-conflicts": (
        "LDS R0, [R2] | write=0\nFADD R0, R0, R0 | waits=0\nEXIT",
        {1: SHORT},
        {"passes": {0: 32.0}},
    ),
    "copy-overlap": (COPIES, {4: LONG}, {}),
    "more-stages": (
        COPIES.replace("DEPBAR.LE SB0, 0x0", "DEPBAR.LE SB0, 0x1").replace("NOP", "LDGDEPBAR | write=0"),
        {4: LONG},
        {},
    ),
}  # fmt: skip
QUIET: dict[int, dict[str, int]] = {n: {"selected": 100} for n in range(3)}


def test_every_optimizer_has_its_kernel() -> None:
    assert set(MATCHES) == {o.name for o in OPTIMIZERS}
    assert len(GPA_OPTIMIZERS) == 11


@pytest.mark.parametrize("name", MATCHES)
def test_it_matches_where_it_must(name: str, context_of: Callable[..., Any]) -> None:
    listing, stalls, more = MATCHES[name]
    advice = estimate(context_of(listing, stalls, **more), optimizer_of(name))
    assert advice is not None
    assert advice.match.matched > 0
    assert advice.speedup >= 1 - 1e-9
    assert advice.paper >= 1 - 1e-9


@pytest.mark.parametrize("name", MATCHES)
def test_it_does_not_where_it_must_not(name: str, context_of: Callable[..., Any]) -> None:
    context = context_of(PLAIN, QUIET, launch=FULL, busy={"fp32": 0.95})
    assert estimate(context, optimizer_of(name)) is None


TILED = """
S2R R2, SR_TID.X | write=0 line=1
IMAD R2, R2, {distance}, RZ | waits=0 stall=4 line=1
LDG.E R0, [R2] | write=0 line=2
FADD R4, R0, R4 | waits=0 stall=4 line=2
EXIT
"""


@pytest.mark.parametrize(("distance", "tiled"), [("0xc", False), ("c[0x0][0x180]", True)])
def test_rows_become_columns_in_a_tile_whose_padding_counts(
    context_of: Callable[..., Any], distance: str, tiled: bool
) -> None:
    """Words of a record move together by another layout of the data; a transposition needs shared memory."""
    context = context_of(TILED.format(distance=distance), {3: LONG}, passes={2: 32.0}, excess={"l2": 4.0})
    wanted = optimizer_of("uncoalesced-access")
    padded, bare = (wanted.match(context, factor) for factor in (1, 0))
    assert padded is not None
    assert bare is not None
    assert [m.rewrites[0].edits[2].tiled for m in (padded, bare)] == ([1.0, 32.0] if tiled else [0.0, 0.0])
    assert ("padded" in padded.how) is tiled


def test_copies_of_a_table_part_lanes_only_by_lane(context_of: Callable[..., Any]) -> None:
    listing, stalls, more = MATCHES["privatisation"]
    match = optimizer_of("privatisation").match(context_of(listing, stalls, **more), 8)
    assert match is not None
    (by_lane,) = match.rewrites
    assert {edit.passes for edit in by_lane.edits.values()} == {4.0}
    assert "by lane" in match.how


CONSTANTS = """
MOV R2, {begin} | line=1 stall=4
LDG.E R0, [R2] | write=0 line=2
LDG.E R1, [R2+0x4] | write=0 line=2
FADD R4, R0, R1 | waits=0 stall=4 line=2
IADD3 R2, R2, {step}, RZ | line=2 stall=4
ISETP.NE.AND P0, PT, R2, R9, PT | line=2 stall=12
@P0 BRA 0x10 | stall=5 line=2
EXIT
"""


@pytest.mark.parametrize(("step", "paired"), [("0x8", True), ("0x4", False)])
def test_constants_come_in_pairs_where_all_rounds_begin_at_one(
    context_of: Callable[..., Any], step: str, paired: bool
) -> None:
    listing = CONSTANTS.format(begin="c[0x0][0x160]", step=step)
    context = context_of(listing, {3: LONG})
    match = optimizer_of("memory-transaction-reduction").match(context, 4)
    assert match is not None
    (rewrite,) = match.rewrites
    assert sorted(rewrite.edits) == ([1] if paired else [1, 2])
    assert rewrite.removed == ({2} if paired else set())


def test_a_popc_inc_is_not_there_before_ampere(context_of: Callable[..., Any]) -> None:
    listing, stalls, more = MATCHES["popc-inc"]
    context = context_of(listing, stalls, **{**more, "architecture": "sm_75"})
    assert estimate(context, optimizer_of("popc-inc")) is None


def test_a_chain_through_memory_does_not_overlap_when_unrolled(context_of: Callable[..., Any]) -> None:
    chase = LOOP.replace("LDG.E R0, [R2]", "LDG.E R2, [R2]").replace("FADD R4, R0, R4", "FADD R4, R2, R4")
    free, tied = (
        estimate(context_of(code, {2: LONG}), optimizer_of("loop-unrolling")) for code in (LOOP, chase)
    )
    assert free is not None
    assert tied is not None
    assert free.speedup > 1.2 > tied.speedup


def test_a_saturated_kernel_is_promised_nothing(context_of: Callable[..., Any]) -> None:
    for advice in advise(context_of(LOOP, {2: LONG}, busy={"dram": 0.98})):
        assert advice.doubt  # the profile does not tell the kernel's time
        edits = () if advice.rewrite is None else advice.rewrite.edits.values()
        assert advice.bound < 1.05 or any(edit.constant for edit in edits)  # no load is left


def test_advice_is_ranked(context_of: Callable[..., Any]) -> None:
    speedups = [a.speedup for a in advise(context_of(LOOP, {2: LONG}))]
    assert speedups == sorted(speedups, reverse=True)
    assert len(speedups) > 1
