"""What makes kernels on tensor cores wait: copies that nothing overlaps, too few stages, bank conflicts of
loads of matrices, sums that do not fit into registers."""

from __future__ import annotations

from typing import Final

from smlab.hw_bench.sass.effects import access_words
from smlab.models.advisor.changes.matching import Category, Context, Match, Optimizer, matched
from smlab.models.advisor.stall_causes.blame import Blame
from smlab.models.advisor.stall_causes.copy_groups import COPIES, WAITS, groups_left, works_meanwhile


def needed_passes(context: Context, number: int) -> int:
    """The passes over the banks that an access to shared memory makes without conflicts: one for each word
    of a lane, or for each matrix."""
    instruction = context.code.instructions[number]
    if instruction.opcode == "STSM":
        return next((int(m) for m in reversed(instruction.modifiers) if m in ("2", "4")), 1)
    return access_words(instruction)


def spilled_sums(context: Context, local: set[int]) -> bool:
    """Whether what goes to local memory and back are sums of products of matrices."""
    code = context.code
    products = {n for n, kind in enumerate(code.kinds) if kind == "tensor"}
    sums = frozenset().union(*(code.effects[n].writes for n in products)) if products else frozenset()
    return any(sums & (code.effects[n].reads | code.effects[n].writes) for n in local)


def _waits(context: Context, exposed: bool) -> list[Blame]:
    """Blame of copies by those that wait for their group: of waits with nothing computed since it was closed
    and none left on their way, or of the others."""
    code = context.code

    def of_kind(stalled: int) -> bool:
        return (groups_left(code, stalled) == 0 and not works_meanwhile(code, stalled)) == exposed

    return context.edges(
        lambda b: (
            code.instructions[b.stalled].opcode == WAITS
            and code.instructions[b.cause].opcode == COPIES
            and of_kind(b.stalled)
        )
    )


def copy_overlap(context: Context, factor: float) -> Match | None:
    edges = _waits(context, exposed=True)
    return matched(edges, "asynchronous copies are waited for as soon as they are asked for")


def more_stages(context: Context, factor: float) -> Match | None:
    """A stage more gives the copies another round's time: of n stages n - 1 are on their way."""
    edges = _waits(context, exposed=False)
    left = max((groups_left(context.code, b.stalled) or 0 for b in edges), default=0)
    stages = left + 1
    why = f"asynchronous copies take longer than the work on {stages} stage{'s' if stages > 1 else ''} before"
    return matched(edges, why)


_E: Final[Category] = "stall elimination"
MATRIX_OPTIMIZERS: Final[tuple[Optimizer, ...]] = (
    Optimizer(
        "copy-overlap",
        _E,
        "waits for asynchronous copies right behind them",
        "the work of a round takes as long as its copies",
        "ask for the next round's copies before working on this one's: two stages of shared memory",
        copy_overlap,
        1,
    ),
    Optimizer(
        "more-stages",
        _E,
        "waits for asynchronous copies that work overlaps",
        "copies take the same time with more of them on their way",
        "a stage more of shared memory (num_stages), so that copies begin earlier",
        more_stages,
        1,
    ),
)
