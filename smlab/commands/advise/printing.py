"""Advice in words, and as JSON: where, the chain from stall to cause, what to change, why, how sure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from smlab.commands.advise.kernel_advice import (
    COMBINED,
    RESTRICT,
    SHAPE_KINDS,
    SLOWEST,
    KernelAdvice,
    SimulatedVersion,
)
from smlab.commands.advise.ranking import SIMULATED, RankedAdvice, of_optimizer, ranked, why_bound
from smlab.commands.advise.source_loops import loop_around, loops_of
from smlab.hw_bench.profiles.pc_samples.samples import SELECTED
from smlab.models.advisor.advice import Advice
from smlab.models.advisor.changes.matching import Hotspot
from smlab.models.advisor.code import AdvisedCode, LoopOf
from smlab.models.advisor.stall_causes.blame import Blame
from smlab.models.advisor.track_record import record_of

PLACES = 5
"""Places told for each piece of advice."""
OTHERS = 2
"""Further launches that a piece of advice names."""
NAMED = 3
"""Changes that are named where many were not tried, or gave other results."""
NO_OVERLAP = "where no two arrays overlap"
LINKS = 3
"""Links of a chain from stall to cause."""


def document(kernels: tuple[KernelAdvice, ...]) -> dict[str, Any]:
    """The whole answer as JSON."""
    return {"kernels": [kernel_document(kernel) for kernel in kernels]}


def kernel_document(kernel: KernelAdvice) -> dict[str, Any]:
    """One kernel's part of the answer; ``blame`` and ``unattributed`` add up to ``samples``."""
    blamed = kernel.blamed
    if blamed is None:
        rows = kernel.samples.rows
        lines = [
            {"stalled": r.address, "cause": r.address, "reason": reason, "samples": count, "line": r.line}
            for r in rows
            for reason, count in r.stalled.items()
        ]
        return {**_head(kernel), "unattributed": 0, "advice": [], "blame": lines}
    code = kernel.code
    assert code is not None
    blame = [
        {
            "stalled": code.instructions[b.stalled].address,
            "cause": code.instructions[b.cause].address,
            "reason": b.reason,
            "samples": b.samples,
            "not_issued": b.latency,
            "stalled_line": code.line(b.stalled),
            "cause_line": code.line(b.cause),
        }
        for b in sorted(blamed.blame, key=lambda b: -b.samples)
    ]
    return {
        **_head(kernel),
        "unattributed": blamed.unattributed_samples,
        "advice": [ranked_document(kernel, one) for one in ranked(kernel)],
        "blame": blame,
    }


def _head(kernel: KernelAdvice) -> dict[str, Any]:
    return {
        "kernel": kernel.samples.kernel,
        "gpu": kernel.gpu.name,
        "mode": kernel.blamed.mode if kernel.blamed is not None else "by line",
        "samples": kernel.samples.samples,
        "active": kernel.samples.active,
        "note": kernel.note,
        **({"tried": [asdict(change) for change in kernel.tried]} if kernel.tried else {}),
        **({"trials": asdict(kernel.trials)} if kernel.trials.versions else {}),
    }


def ranked_document(kernel: KernelAdvice, change: RankedAdvice) -> dict[str, Any]:
    """A piece of advice as JSON, with ``how`` its number came."""
    told = change.how != "ranked"
    number = {
        "speedup": change.speedup if told else None,
        "low": change.low if told else None,
        "high": change.high if told else None,
        "how": change.how,
    }
    if change.advice is None:
        versions = [asdict(version) for version in change.tried]
        category = "launch" if change.tried[0].kind in SHAPE_KINDS else "source"
        what = {"category": category, "at": [], "text": tried_text(kernel, change), "tried": versions}
        equal = change.tried[0].results_equal
        return {"optimizer": change.name, **number, "results_equal": equal, "matched_samples": 0, **what}
    doubt = {
        "doubt": "" if change.how == "replayed" else why_bound(change.advice),
        "bound": change.advice.bound,
    }
    return {**_advice_document(kernel, change.advice), **number, **doubt, "results_equal": None}


def launch_text(version: SimulatedVersion) -> str:
    """The launch of a version: ``80 blocks of 256``."""
    return f"{shape_text(version.grid)} blocks of {shape_text(version.block)}"


def shape_text(shape: Sequence[int]) -> str:
    """A grid or a block as people write it: ``8`` or ``8 x 4``."""
    last = max((n for n, size in enumerate(shape) if size > 1), default=0)
    return " x ".join(f"{size:,}" for size in shape[: last + 1])


def tried_text(kernel: KernelAdvice, change: RankedAdvice) -> str:
    """Which change was tried, and what others of its kind gained."""
    best, *others = change.tried
    told = made_text(kernel, best)
    if best.kind not in SHAPE_KINDS:
        for version in [v for v in others if best.what not in v.what][:OTHERS]:
            told += f"; {version.what}: {version.speedup:.2f}x"
        return told + (f" ({NO_OVERLAP})" if RESTRICT in best.what else "")
    for version in sorted(others, key=lambda v: (v.kind, v.grid))[:OTHERS]:
        told += f"; {launch_text(version)}: {version.speedup:.2f}x"
    return told


def made_text(kernel: KernelAdvice, version: SimulatedVersion) -> str:
    """What is changed in a version, and what a programmer has to do beside."""
    if version.kind not in SHAPE_KINDS:
        return version.what + (f"; {version.stands_in}" if version.stands_in else "")
    launch = kernel.samples.launch
    now = f"{launch.blocks:,} of {launch.threads_per_block:,}" if launch.blocks else "those of the launch"
    return f"launch {launch_text(version)} in place of {now}"


def _advice_document(kernel: KernelAdvice, advice: Advice) -> dict[str, Any]:
    record = record_of(advice.optimizer.name)
    return {
        "optimizer": advice.optimizer.name,
        "also": list(advice.also),
        "category": advice.optimizer.category,
        "speedup_published": advice.paper,
        "matched_samples": advice.match.matched,
        "matched_latency_samples": advice.match.latency,
        "at": [place(kernel, spot) for spot in advice.match.hotspots[:PLACES]],
        "text": text(kernel, advice),
        "rule": advice.optimizer.rule,
        "assumes": advice.optimizer.assumes,
        "record": {"n": record.n, "mape": record.mape},
    }


def place(kernel: KernelAdvice, spot: Hotspot) -> dict[str, Any]:
    """A hotspot: the cause's address, line, loop and instruction, its share of all samples, the chain."""
    code = kernel.code
    assert code is not None
    loop = code.innermost_loop(spot.cause)
    return {
        "address": code.instructions[spot.cause].address,
        "line": code.line(spot.cause),
        "share": spot.samples / kernel.samples.samples,
        "instruction": str(code.instructions[spot.cause]),
        "loop_line": None if loop is None else loop_line(kernel, loop),
        "function": code.function_of(spot.cause) or code.function.name,
        "chain": chain(kernel, spot),
    }


def loop_line(kernel: KernelAdvice, loop: LoopOf) -> int | None:
    """The line that a loop of the code begins at in the source, where that is there: that which most of its
    own instructions stand in. Else the line of its first instruction."""
    code, source = kernel.code, kernel.samples.source
    assert code is not None
    first = code.instructions[loop.header].source
    if first is None or not source:
        return code.line(loop.header)
    loops = loops_of("\n".join(source.get(n, "") for n in range(1, max(source) + 1)))
    file = Path(first.outermost.file).name
    mine = [n for n in sorted(loop.members) if code.innermost_loop(n) is loop]
    around = [loop_around(loops, code.instructions[n].source, file) for n in mine]
    (found, _), *_ = Counter(around).most_common()
    return first.outermost.line if found is None else found.line


def where_text(code: AdvisedCode, number: int) -> str:
    """Where an instruction comes from: ``line 12``, and of an inlined function also the line within that."""
    line, inside = code.line(number), code.instructions[number].source
    if line is None or inside is None:
        return f"{code.instructions[number].address:#x}"
    if inside.inlined_at is None:
        return f"line {line}"
    return f"line {line}, inlined {Path(inside.file).name}:{inside.line}"


def chain(kernel: KernelAdvice, spot: Hotspot) -> list[str]:
    """From the stalled instruction to its cause, and on to what the cause itself waited for most."""
    code, blamed = kernel.code, kernel.blamed
    assert code is not None
    assert blamed is not None
    told = [_instruction(code, spot.stalled)]
    at, seen = spot.cause, {spot.stalled}
    while at not in seen and len(told) <= LINKS:
        told.append(_instruction(code, at))
        seen.add(at)
        onward = [b for b in blamed.blame if b.stalled == at and b.reason != SELECTED and b.cause != at]
        if not onward:
            break
        at = max(onward, key=_samples).cause
    return told


def _samples(b: Blame) -> float:
    return b.samples


def _instruction(code: AdvisedCode, number: int) -> str:
    instruction = code.instructions[number]
    where = "" if code.line(number) is None else f" ({where_text(code, number)})"
    return f"{instruction.address:#06x} {instruction}{where}"


def what_text(advice: Advice) -> str:
    """What to change, and how."""
    return ", ".join(filter(None, (advice.optimizer.what, advice.match.how)))


def short_text(kernel: KernelAdvice, advice: Advice) -> str:
    """What to change and where, in one sentence."""
    told = what_text(advice)
    if advice.match.hotspots:
        assert kernel.code is not None
        told += f", at {where_text(kernel.code, advice.match.hotspots[0].cause)}"
    return told


def text(kernel: KernelAdvice, advice: Advice) -> str:
    """Advice in a few sentences."""
    one = of_optimizer(advice)
    record = record_of(advice.optimizer.name)
    share = 100 * min(advice.match.matched / kernel.samples.samples, 1.0)
    parts = [
        f"{what_text(advice)}: {advice.match.why}.",
        f"{share:.1f} % of the samples match; {gain_text(one)}, if {advice.optimizer.assumes}.",
    ]
    if advice.also:
        parts.append(f"The same change is what {', '.join(advice.also)} would advise.")
    if advice.match.hotspots:
        spot = place(kernel, advice.match.hotspots[0])
        assert kernel.code is not None
        where = where_text(kernel.code, advice.match.hotspots[0].cause)
        inside = f" in the loop at line {spot['loop_line']}" if spot["loop_line"] is not None else ""
        parts.append(f"First at {where}{inside}: {' <- '.join(spot['chain'])}.")
    if record.n and one.how == "replayed":
        parts.append(f"{record.text}.")
    return " ".join(parts)


def gain_text(change: RankedAdvice) -> str:
    """What a change gains, as a part of a sentence."""
    if change.how == "ranked" and change.advice is not None:
        return f"worth trying, and no number is sure: {why_bound(change.advice)}"
    if change.how == "bound" and change.advice is not None:
        return f"it gains at most {change.speedup:.2f}x, and no number is sure: {why_bound(change.advice)}"
    return f"expected speedup {change.speedup:.2f} ({change.low:.2f} to {change.high:.2f})"


def how_text(change: RankedAdvice) -> str:
    """How the number of a simulated change came, in words, and what another hand's change gains on a card."""
    return f"by another hand on a card {change.low:.2f} to {change.high:.2f}; {results_text(change.tried[0])}"


def results_text(version: SimulatedVersion) -> str:
    """Whether a version computes the same, and how nearly."""
    if version.stands_in:
        return "simulated without its results"
    if version.results_equal is None:
        return f"results not compared: {version.note}"
    return version.note or "results the same bit for bit"


def answer_text(kernel: KernelAdvice, changes: Sequence[RankedAdvice]) -> str:
    """The answer in one sentence: what gains most, alone and with others, or what to try first."""
    if not changes:
        return "no change that smlab knows gains anything"
    sure = [one for one in changes if one.how in SIMULATED or one.low > 1]
    if not sure:
        first = next((one for one in changes if one.how == "replayed"), changes[0])
        return f"no change is sure to help, try first {first.name}: {_what(kernel, first)}"
    best = sure[0]
    alone = f"{best.name}, {best.speedup:.2f}x"
    told_of = f" ({how_text(best)})" if best.advice is None else ""
    combined = next((one for one in sure if one.name == COMBINED and one.speedup > best.speedup), None)
    if combined is None:
        return f"most promising: {alone}{told_of}: {_what(kernel, best)}"
    what = combined.tried[0].what
    all_changes = f"several changes together, {combined.speedup:.2f}x ({how_text(combined)})"
    return f"most promising: {all_changes}: {what}; alone {alone}"


def _what(kernel: KernelAdvice, one: RankedAdvice) -> str:
    """What a piece of advice changes."""
    return made_text(kernel, one.tried[0]) if one.advice is None else what_text(one.advice)


def trials_text(kernel: KernelAdvice) -> str:
    """How many changes the advisor tried, what came of them, and how long it took."""
    trials = kernel.trials
    own = [v for v in trials.versions if not v.stands_in]
    wrong = [v.what for v in own if v.results_equal is False]
    unknown = [v.what for v in own if v.results_equal is None]
    shapes = sum(v.kind in SHAPE_KINDS for v in trials.versions)
    counts = [(shapes, "launch shapes"), (len(trials.versions) - shapes, "versions of the source")]
    told = " and ".join(f"{count} {what}" for count, what in counts if count) or "nothing"
    parts = [f"{told} tried in {trials.cpu_s:.1f} s of CPU time"]
    for names, what in (
        (wrong, "These altered the results"),
        (unknown, "These could not be compared"),
        (trials.refused, f"These took over {SLOWEST} times as long, or could not be run"),
        (trials.late, "For these there was no time (--try-seconds gives more)"),
    ):
        if names:
            more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            parts.append(f"{what}: {'; '.join(names[:NAMED])}{more}")
    return ". ".join([*parts, *([trials.note] if trials.note else [])])
