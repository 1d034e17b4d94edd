"""The part of the report: how often the advisor is right, by simulated truth, from `results.json`."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from smlab.hw_bench.inputs import load_json
from smlab.validation.campaigns.advisor import measured
from smlab.validation.campaigns.advisor.blame import OTHER_LATENCIES, OTHER_POLICY, SEEDS
from smlab.validation.campaigns.advisor.pairs import DEVELOPED, PAIRS
from smlab.validation.campaigns.advisor.producer_gains import ALL_POLICIES, ONE_POLICY, ONE_RUN
from smlab.validation.campaigns.advisor.producer_gains import TRUTHS as GAIN_TRUTHS
from smlab.validation.campaigns.advisor.simulate import POLICIES
from smlab.validation.checks import Plan, Results, Task
from smlab.validation.figure_style import columns_of, look, new_figure, styled
from smlab.validation.method.baseline import Baseline, compare_with_baseline
from smlab.validation.report import Column, Report, Section
from smlab.validation.report.content import Finding

ASKED: Final = 0.85
"""The share of stall cycles to be blamed rightly, at the least."""
READINGS: Final = ("last", "shared")

NAME = "advisor"
JUDGE: Final = "ninth_round"
"""The last round of unseen kernels of ours."""
JUDGING: Final = tuple(name for name in PAIRS if name not in DEVELOPED)
"""Rounds by others that were opened when the method was frozen."""


def tasks(plan: Plan) -> list[Task[str]]:
    return []


def report(page: Report, plan: Plan, results: Results) -> None:
    found = stored_results()
    blame, gains = found["blame"]["summary"], found["producer-gains"]["summary"]
    section = page.section(
        NAME,
        "The advisor, against simulated truth",
        f"`smlab advise` on {blame['kernels']} kernels of ours, executed on {found['gpu']}: blame in "
        f"{blame['runs']} runs ({len(POLICIES)} policies, {len(SEEDS)} sets of latencies), gains by making "
        "one producer free, speedups by changing the kernel. Truth and advisor share the rules of "
        "scoreboards and issue: this "
        f"tests the advisor, not hardware. The study is of {found['made_on']} (`{MADE_BY}`).",
    )
    new = first_runs()
    rounds = {"shaped on them": (found["speedups"], None)} | {
        f"{name.replace('_', ' unseen ')}{'' if name == JUDGE else ', mended since'}": (part, new[name])
        for name, part in found["held-out"].items()
    }
    _blame(section, blame)
    _by_set(section, found)
    _limits(section, found["limits"])
    _producer_gains(section, gains, found["held-out-producer-gains"]["summary"])
    _by_samples(section, found["samples"]["by_samples"])
    _estimates(section, rounds)
    _by_others(section, found["pairs"])
    _on_a_card(section, measured.summary())
    told = [row for name in JUDGING for row in found["pairs"][name]["rows"] if not row["doubt"]]
    true = np.array([r["true"] for r in told])
    constant = found["pairs"]["summary"]["numbers"]["constant"]["value"]
    baselines = [
        Baseline("the best constant", 100 * np.abs(constant / true - 1), fitted=True),
    ]
    errors = 100 * np.abs(np.array([r["estimated"] for r in told]) / true - 1)
    page.finding(
        Finding(
            "Speedup of a change to a kernel",
            "smlab advise",
            compare_with_baseline(errors, baselines, groups=[r["kernel"] for r in told]),
            unit="%",
            evidence="simulated",
            group="kernels",
            section=NAME,
        )
    )


def _blame(section: Section, blame: dict[str, Any]) -> None:
    readings = {"as-published": "as-published", "as-coded": "as-coded"}
    readings |= {"smlab": "smlab", "smlab (shared)": "smlab, shared reading"}
    readings |= {name: name for name in (OTHER_LATENCIES, OTHER_POLICY)}
    section.fold("Blame and gains by mode, accuracy against the number of samples, and speedups")
    section.table(
        "advisor-blame",
        [
            Column("blamed by"),
            Column("last finisher, mean", unit="%", digits=1),
            Column("worst run", unit="%", digits=1, key="last_worst"),
            Column("shared, mean", unit="%", digits=1),
            Column("worst run", unit="%", digits=1, key="shared_worst"),
            Column("worst kernel", key="kernel"),
        ],
        [
            [
                name,
                *(100 * blame["last"][key][how] if key in blame["last"] else None for how in ("mean", "min")),
                100 * blame["shared"][key]["mean"],
                100 * blame["shared"][key]["min"],
                blame["last" if key in blame["last"] else "shared"][key]["worst"],
            ]
            for key, name in readings.items()
            if key in blame["shared"]
        ],
        "Shares of scoreboard-stall cycles blamed on the producer that the warp waited for. Asked: 95 and "
        "85 % of both truths, and half the error of as-published. "
        "How a stall is divided hangs on the order of warps: the last two rows "
        "divide each instruction's stalls as they truly were in another run of the same kernel.",
    )


def _by_set(section: Section, found: dict[str, Any]) -> None:
    chance = found["generated"]
    parts = {
        "written, shaped on them": found["blame"],
        "written, held out": found["held-out-blame"],
        "made by chance, rules chosen on them": chance["shaped"],
        "made by chance, held out": chance["judged"],
    }
    readings = (("last", "as-published"), ("last", "smlab"), ("shared", "smlab (shared)"))
    section.table(
        "advisor-blame-by-set",
        [
            Column("kernels"),
            Column("number", digits=0),
            Column("last finisher, as-published", unit="%", digits=1, key="published"),
            Column("worst run", unit="%", digits=1, key="published_worst"),
            Column("last finisher, smlab", unit="%", digits=1, key="last"),
            Column("worst run", unit="%", digits=1, key="last_worst"),
            Column("shared, smlab", unit="%", digits=1, key="shared"),
            Column("worst run", unit="%", digits=1, key="shared_worst"),
        ],
        [
            [
                name,
                part["summary"]["kernels"],
                *(100 * part["summary"][t][mode][how] for t, mode in readings for how in ("mean", "min")),
            ]
            for name, part in parts.items()
        ],
        "Kernels that somebody wrote mostly wait for one producer at a time. Those made by chance "
        "(nine families, numbers drawn) put more loads behind one scoreboard, and there blame is far from "
        "what was asked.",
    )


def _limits(section: Section, limits: dict[str, Any]) -> None:
    told, short = limits["summary"], []
    for row in limits["rows"]:
        for truth in READINGS:
            if (r := row[truth])["ours"] < ASKED:
                shares = (r[key] for key in ("ours", "bound", "apart", "seeds", "drawn", "nearest"))
                short.append([row["kernel"], truth, " / ".join(r["policies"]), *(100 * x for x in shares)])
    section.table(
        "advisor-limits",
        [
            Column("kernel"),
            Column("truth"),
            Column("policies"),
            Column("blame, worst run", unit="%", digits=1, key="ours"),
            Column("bound where they look alike", unit="%", digits=1, key="bound"),
            Column("samples apart", unit="%", digits=1, key="apart"),
            Column("by latencies", unit="%", digits=1, key="seeds"),
            Column("by sampling", unit="%", digits=1, key="drawn"),
            Column("nearest run's division", unit="%", digits=1, key="nearest"),
        ],
        short,
        "Each kernel, held out or not, whose worst run is below 85 %. Did two policies give equal samples, "
        "then none who reads samples could get more on the worse of the two than half of 1 plus what their "
        "truths have in common: the bound. Samples are apart (total variation by instruction and reason) as "
        f"little as those of two sets of latencies under one policy in {told['policies_as_near_as_seeds']} "
        f"of these {told['short']}; elsewhere the bound holds only for those who do not look. Who divides "
        "stalls as they were in that other run, of any policy and with other latencies, whose samples are "
        f"the nearest, stays below 85 % in {told['below_by_nearest']}. No limit of samples is shown, then: "
        "what is missing here is in our rules.",
    )


def _producer_gains(section: Section, gains: dict[str, Any], held_out: dict[str, Any]) -> None:
    readings = {
        "kernel replayed without the producer": "spearman",
        "published equation": "spearman_published",
        "blame": "spearman_blame",
        "an independent mean of the same size": "ceiling",
    }
    parts = ((gains, ""), (held_out, ", unseen"))
    names = {ALL_POLICIES: "policies", ONE_POLICY: "latencies", ONE_RUN: "one run"}
    section.table(
        "advisor-producer-gains",
        [
            Column("ranked by"),
            *(
                Column(f"{names[truth]}{which}", digits=3, key=f"{names[truth]}{which}")
                for truth in GAIN_TRUTHS
                for _, which in parts
            ),
        ],
        [
            [name, *(part[truth][key] for truth in GAIN_TRUTHS for part, _ in parts)]
            for name, key in readings.items()
        ],
        "Median Spearman between the true gains of the ten most blamed producers of each kernel and a "
        "ranking of them, over kernels with five worth more than 1 % "
        f"({gains[ALL_POLICIES]['judged']}, of unseen ones {held_out[ALL_POLICIES]['judged']}). Asked: 0.8. "
        "The truth is the mean gain over four policies with three sets of latencies each: an advisor knows "
        "neither, and one run tells a gain of a per cent by chance. Beside it five sets of latencies under "
        "one policy, and one run as it is, with which another policy's run agrees by "
        f"{gains[ONE_RUN][OTHER_POLICY]:.2f} and {held_out[ONE_RUN][OTHER_POLICY]:.2f}. Latencies do not "
        "shake kernels that hardly go to memory: there the last row says more for the truth than is due.",
    )


def _by_samples(section: Section, rows: list[dict[str, Any]]) -> None:
    data = {name: [row[name] for row in rows] for name in ("samples", "mean", "min")}
    section.figure(
        "advisor-samples",
        agreement_by_samples(*data.values()),
        data,
        "Stall cycles blamed on the last finisher, from so many samples of a kernel: mean and worst kernel.",
        f"Two rising lines: the mean from {data['mean'][0]:.2f} at {data['samples'][0]} samples to "
        f"{data['mean'][-1]:.3f} at {data['samples'][-1]:,}, the worst kernel from {data['min'][0]:.2f} to "
        f"{data['min'][-1]:.2f}.",
    )


def _estimates(section: Section, rounds: dict[str, tuple[dict[str, Any], dict[str, Any] | None]]) -> None:
    rows = []
    for name, (part, new) in rounds.items():
        s = part["summary"]
        first = s["first_advice"]
        rows.append(
            [
                name,
                s["changes"],
                None if new is None else new["smlab"]["mape"],
                s["smlab"]["mape"],
                s["smlab"]["median_ape"],
                s["constant"]["mape"],
                s["published_equations"]["mape"],
                s["smlab"]["median_error_of_gain"],
                s["numbers"]["changes"],
                s["numbers"]["mape"],
                100 * s["numbers"]["held"]["share"],
                f"{first['right']} of {first['kernels']}",
                max(s["nothing_to_gain"].values()),
            ]
        )
    section.table(
        "advisor-speedups",
        [
            Column("changes to kernels"),
            Column("n", digits=0),
            Column("MAPE when new", unit="%", digits=1, key="new"),
            Column("MAPE", unit="%", digits=1),
            Column("median", unit="%", digits=1),
            Column("best constant", unit="%", digits=1),
            Column("published equations", unit="%", digits=1),
            Column("median error of the gain", unit="%", digits=1, key="gain"),
            Column("told as numbers", digits=0, key="numbers"),
            Column("their MAPE", unit="%", digits=1, key="numbers_mape"),
            Column("their interval holds", unit="%", digits=0, key="held"),
            Column("best among the first two", key="first"),
            Column("most promised where nothing is to gain", unit="×", digits=3, key="nothing"),
        ],
        rows,
        "Speedups simulated before and after each change. When new: each unseen round as it was run for the "
        "first time, with the estimates frozen before. Where the replay of the kernel as it is misses its "
        "time, or samples are few, only a bound is told. Intervals come from changes of other kinds. Asked: "
        "MAPE at most 10 % and half of the best constant's, gains within 20 % in the median, 90 % in the "
        "interval.",
    )


def _by_others(section: Section, pairs: dict[str, Any]) -> None:
    parts = {f"{name.replace('_', ' ')}, made on it": pairs[name]["summary"] for name in DEVELOPED}
    parts |= {name.replace("_", " "): pairs[name]["summary"] for name in JUDGING}
    parts["the rounds that judge"] = pairs["summary"]
    section.table(
        "advisor-pairs",
        [
            Column("kernels by others"),
            Column("n", digits=0),
            Column("told as numbers", digits=0, key="numbers"),
            Column("simulated", digits=0, key="simulated"),
            Column("MAPE", unit="%", digits=1),
            Column("best constant", unit="%", digits=1),
            Column("rank correlation", digits=2, key="spearman"),
            Column("median error of the gain", unit="%", digits=1, key="gain"),
            Column("interval holds", unit="%", digits=0, key="held"),
            Column("above twice the truth", digits=0, key="above"),
            Column("bounds hold", key="bounds"),
            Column("first advice", key="first"),
            Column("among the first five", key="five"),
        ],
        [
            [
                name,
                s["pairs"],
                (n := s["numbers"])["changes"],
                s["simulated"]["changes"],
                n["mape"],
                n["constant"]["mape"],
                n["spearman"],
                n["median_error_of_gain"],
                100 * n["held"]["share"],
                len(n["above_twice"]),
                f"{s['bounds']['hold']} of {s['bounds']['n']}",
                f"{s['among_the_first']['1']} of {s['pairs']}",
                f"{s['among_the_first']['5']} of {s['pairs']}",
            ]
            for name, s in parts.items()
        ],
        "People who had seen no rule wrote fifteen kernels a round, each with one change. The advice is that "
        "of `smlab advise` as it is called without options. Rounds 10 and 11 were seen when the method was "
        "made; the others were opened when it was frozen, and asked once. A simulated number is that of the "
        "change as smlab makes it, the truth that of the change as the author made it. Its interval is where "
        "the truths of all other kinds of changes lay.",
    )


ON_A_CARD: Final = {
    "cold": "the same change, simulated; L2 emptied before",
    "warm": "the same change, simulated; launched again",
    "cold_again": "the first by later rules, some of them made in view of these kernels",
    "warm_again": "the second by these rules",
    "cold_without_atomics": "the first without copies of counters",
    "warm_without_atomics": "the second without these",
    "advised": "the number that was told of the author's change",
    "versions": "what smlab made by itself, as it was told",
}
"""What is judged by the card, in words."""


def _on_a_card(section: Section, found: dict[str, Any]) -> None:
    card = measured.stored_card()["card"]
    section.table(
        "advisor-measured",
        [
            Column("measured gain, judged by it"),
            Column("n", digits=0),
            Column("MAPE", unit="%", digits=1),
            Column("median", unit="%", digits=1),
            Column("best constant", unit="%", digits=1),
            Column("rank correlation", digits=2, key="spearman"),
            Column("within 10 %", digits=0, key="right"),
            Column("right sign", key="sign"),
            Column("interval asked for", key="interval"),
        ],
        [
            [
                ON_A_CARD[name],
                s["changes"],
                s["mape"],
                s["median_ape"],
                s["constant"]["mape"],
                s["spearman"],
                s["right"],
                f"{s['sign']} of {s['signs']}",
                f"{s['intervals']['low']:.2f} to {s['intervals']['high']:.2f}",
            ]
            for name, s in found.items()
        ],
        f"The changes of the six rounds by others on an {card['gpu']}, timed before and after on "
        f"{card['made_on']}. Simulated times and advice were made before by frozen code (rules of version "
        f"{card['rules']}); the two lines that say so are of rules {card['again']['rules']}. "
        "The interval is what nine in ten measured gains were of the number.",
    )


RESULTS: Final = Path(__file__).with_name("results.json")
MADE_BY: Final = "python -m smlab.validation.campaigns.advisor"
DIGITS: Final = 5


@functools.cache
def stored_results() -> dict[str, Any]:
    """All parts by name, with ``made_on`` and ``gpu``.

    Raises:
        SmlabError: the file is missing or is no JSON.
    """
    found: dict[str, Any] = load_json(RESULTS, "the results of the advisor's study")
    return found


@functools.cache
def first_runs() -> dict[str, Any]:
    """What each round of unseen kernels found when it was new, by name."""
    found: dict[str, Any] = json.loads(RESULTS.with_name("first_runs.json").read_text())
    return found


def rounded(value: Any) -> Any:
    """Numbers to `DIGITS` digits, so that the file is short and its changes can be read."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: rounded(x) for key, x in value.items()}
    return [rounded(x) for x in value] if isinstance(value, list | tuple) else value


@styled
def agreement_by_samples(samples: ArrayLike, mean: ArrayLike, worst: ArrayLike) -> Figure:
    """Shares of stall cycles blamed rightly over the number of samples, for the mean and the worst kernel."""
    x, middle, least = columns_of("agreement", samples, mean, worst)
    fig = new_figure(4.8, 3.2)
    ax = fig.subplots()
    for i, (y, label) in enumerate(((middle, "mean"), (least, "worst kernel"))):
        ax.plot(x, 100 * y, color=look(i).colour, marker=look(i).marker, label=label)
    ax.set_xscale("log")
    ax.set_ylim(top=100)
    ax.set_xlabel("Samples of a kernel")
    ax.set_ylabel("Blamed rightly (% of stall cycles)")
    ax.legend(loc="lower right")
    return fig
