"""What V100 code gains from the A100's and the H100's SM, one constant at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smlab.validation.campaigns.studies.answer import Answer, StudyEstimate, exact, scaled
from smlab.validation.campaigns.studies.figures import dots
from smlab.validation.campaigns.studies.points import Points
from smlab.validation.experiments.effects.results import LevelEffect
from smlab.validation.method.statistics import Interval
from smlab.validation.report import Section

KERNELS = {
    "histogram": "histogram, uniform image",
    "gather": "scattered dependent reads",
    "tile": "tiles in shared memory",
    "stream": "stream",
}
FILES = tuple(f"study-{kernel}.toml" for kernel in KERNELS)
GPUS = ("A100", "H100")
MATTERS = 0.005
"""Changes of less than half a per cent are in the table of the study and not in the answer."""


def gains(points: Points) -> dict[str, dict[str, Interval]]:
    """Speedup over the V100 by constant and by GPU, where the constant of that GPU is another one.

    The levels of a factor stand in the order A100, H100; a constant with one level has it from the A100 alone
    or, being the FP32 pipe's, from the H100 alone. One that is the same on all three, as the atomic base
    interval is under some alternative, has no level.
    """
    found: dict[str, dict[str, Interval]] = {}
    for factor in points.study.factors:
        levels = [level for level in factor.levels if level != factor.base]
        names = GPUS if len(levels) == 2 else GPUS[1:] if "fp32" in factor.name else GPUS[:1]
        effects = {e.level: e for e in points.effects["speedup"].of(factor.name)}
        found[factor.name] = {
            n: _speedup(effects, v) for n, v in zip(names, levels, strict=False) if v in effects
        }
    return found


def _speedup(effects: Mapping[Any, LevelEffect], level: Any) -> Interval:
    mean = effects[level].mean
    return mean if mean.count > 1 else exact(mean.estimate)


def answer(by_file: Mapping[str, Points]) -> Answer:
    findings, sentences = [], []
    for kernel, title in KERNELS.items():
        all_gains = gains(by_file[f"study-{kernel}.toml"])
        changes = [
            (constant, gpu, value)
            for constant, by_gpu in all_gains.items()
            for gpu, value in by_gpu.items()
            if abs(value.estimate - 1) >= MATTERS
        ]
        said: dict[tuple[str, str], str] = {}
        for constant, gpu, value in changes:
            what = f"{title}: {short(constant)} of the {gpu}"
            finding = StudyEstimate(f"{kernel}-{gpu}-{constant}", what, value, "× speed", 3)
            findings.append(finding)
            said[gpu, constant] = finding.words()
        parts = []
        for gpu in GPUS:
            own = sorted((c for c in changes if c[1] == gpu), key=lambda c: c[2].estimate)
            most = [own[-1]] if own and own[-1][2].estimate > 1 else []
            least = [own[0]] if own and own[0][2].estimate < 1 else []
            told = ", ".join(f"{short(c)} {said[gpu, c]}" for c, _, _ in (*most, *least))
            parts.append(f"{gpu}: {told or 'nothing'}")
        sentences.append(f"{title[0].upper()}{title[1:]} ({'; '.join(parts)})")
    text = (
        "It depends on what the code is bound by, and no constant helps all. Largest gain and loss by "
        "kernel: "
        + ". ".join(sentences)
        + ". What helps is more of something: clock, FP32 lanes, DRAM bandwidth. What is longer on newer "
        "SMs, the latencies of L2 and DRAM and the atomic unit's interval, costs V100 code time wherever it "
        "is bound by it. The clock's gains are an upper bound: latencies are in cycles here, so a faster "
        "clock shortens DRAM's as well."
    )
    return Answer(text, tuple(findings))


def short(constant: str) -> str:
    """A constant in words."""
    return {
        "gpu.clock.sm_hz": "SM clock",
        "gpu.pipe.fp32.interval_cycles": "FP32 lanes",
        "gpu.shared.load_latency_cycles": "shared-memory latency",
        "gpu.l1.bytes": "L1 size",
        "gpu.l1.latency_cycles": "L1 latency",
        "gpu.l2.bytes": "L2 size",
        "gpu.l2.latency_cycles": "L2 latency",
        "gpu.l2.bandwidth_bytes_per_s": "L2 bandwidth",
        "gpu.dram.sustained_bandwidth_bytes_per_s": "DRAM bandwidth",
        "gpu.dram.latency_cycles": "DRAM latency",
        "gpu.atomic.add.base_interval_cycles": "atomic base interval",
        "gpu.atomic.add.pass_interval_cycles": "atomic interval a pass",
    }.get(constant, constant)


def draw(section: Section, by_file: Mapping[str, Points]) -> None:
    found = {kernel: gains(by_file[f"study-{kernel}.toml"]) for kernel in KERNELS}
    constants = list(dict.fromkeys(c for by_constant in found.values() for c in by_constant))
    for gpu in GPUS:
        changed = {
            c: max(abs(found[k][c][gpu].estimate - 1) for k in KERNELS)
            for c in constants
            if all(gpu in found[k].get(c, {}) for k in KERNELS)
        }
        rows = [c for c in constants if changed.get(c, 0.0) >= MATTERS]
        idle = [short(c) for c in constants if changed.get(c, 1.0) < MATTERS]
        series = {
            title: [_percent(found[k].get(c, {}).get(gpu)) for c in rows] for k, title in KERNELS.items()
        }
        data: list[tuple[str, str, Interval]] = [
            (short(c), title, value)
            for title, values in series.items()
            for c, value in zip(rows, values, strict=True)
            if value is not None
        ]
        section.figure(
            f"study-newer-sm-{gpu.lower()}",
            dots(
                [short(c) for c in rows],
                series,
                f"Change in speed with this constant from the {gpu} (%)",
                neutral=0.0,
            ),
            {
                "constant": [row[0] for row in data],
                "kernel": [row[1] for row in data],
                "percent": [row[2].estimate for row in data],
                "low": [row[2].low for row in data],
                "high": [row[2].high for row in data],
            },
            f"V100 code on a V100 in which one constant is the {gpu}'s: change in speed by kernel, with 95 "
            "% intervals where the kernel has anything random. Not drawn, since they change no kernel by "
            f"half a per cent: {', '.join(idle) or 'none'}.",
            f"Rows of constants, dots for {len(KERNELS)} kernels: most at 0, a few far to the right, "
            f"latencies to the left.",
        )


def _percent(value: Interval | None) -> Interval | None:
    if value is None:
        return None
    return scaled(value, 100, -100)
