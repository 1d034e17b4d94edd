"""Gains on a real card: the stored rows are all pairs, and the judge is right on gains that are known.

The page and the product tell what the card showed.
"""

from pathlib import Path

import pytest

from smlab.models.advisor.track_record import as_made_by_others, on_a_card, record_of, track_records
from smlab.validation.campaigns.advisor.measured import (
    MeasuredPair,
    PairTimes,
    advised_rows,
    judged,
    measured_pairs,
    simulated_rows,
    stored_card,
    summary,
    time_errors,
    told_pairs,
)
from smlab.validation.campaigns.advisor.pairs import PAIRS, RULES
from smlab.validation.campaigns.advisor.section import ON_A_CARD

PAGE = Path(__file__).parents[3] / "docs" / "findings" / "advisor-speedups.md"
NUMBERS = dict(zip([*PAIRS][:6], map(str, range(10, 16)), strict=True))
"""Rounds that were timed on the card."""


def pair(kernel: str, change: str, gain: float, simulated: float, round_of: str = "10") -> MeasuredPair:
    true, told = PairTimes(10.0 * gain, 10.0), PairTimes(8.0 * simulated, 8.0)
    return MeasuredPair(round_of, kernel, change, true, true, told, told, told, told)


def test_every_pair_was_measured_with_its_own_change() -> None:
    written = {(NUMBERS[name], p.name, p.change) for name in NUMBERS for p in PAIRS[name]}
    assert {(p.round, p.kernel, p.change) for p in measured_pairs()} == written
    assert len(measured_pairs()) == len(written)
    for p in measured_pairs():
        assert min(*p.cold, *p.warm, *p.simulated_cold, *p.simulated_warm) > 0.5
        assert min(*p.again_cold, *p.again_warm) > 0.5
        assert p.how or p.advised is None


def test_an_empty_kernel_is_taken_off() -> None:
    row, (first, *_) = stored_card()["pairs"][0], measured_pairs()
    empty = stored_card()["card"]["empty_us"]
    assert first.cold.before_us == pytest.approx(row["cold_us"][0] - empty["cold"])
    assert first.warm.gain == pytest.approx(
        (row["warm_us"][0] - empty["warm"]) / (row["warm_us"][1] - empty["warm"])
    )


def test_the_judge_is_right_where_the_answer_is_known() -> None:
    changes = list(RULES)[:4]
    exact = [pair(f"k{n}", change, 1.5 + n, 1.5 + n) for n, change in enumerate(changes)]
    found = judged(simulated_rows(exact), ["10", "10", "11", "11"])
    assert found["mape"] == pytest.approx(0, abs=1e-9)
    assert (found["right"], found["sign"], found["signs"], found["spearman"]) == (4, 4, 4, pytest.approx(1))
    assert (found["intervals"]["low"], found["intervals"]["high"]) == pytest.approx((1, 1))
    # One change is told as a gain and costs a half; another is told as a third of what it gains.
    wrong = [*exact[:2], pair("slower", changes[2], 0.5, 1.2), pair("more", changes[3], 3.6, 1.2)]
    found = judged(simulated_rows(wrong), ["10", "10", "11", "11"])
    assert (found["right"], found["sign"]) == (2, 3)
    assert found["intervals"]["low"] == pytest.approx(0.5 / 1.2)
    assert found["intervals"]["high"] == pytest.approx(3.0)


def test_the_product_tells_the_interval_of_the_card() -> None:
    """Never a narrower one than simulated changes of other hands ask for."""
    found, others = summary()["advised"], track_records()["by others"]
    card = on_a_card()
    assert card.n == found["changes"] == len(told_pairs()) == len(advised_rows(told_pairs()))
    assert card.low == pytest.approx(min(found["intervals"]["low"], others.low), rel=1e-3)
    assert card.high == pytest.approx(max(found["intervals"]["high"], others.high), rel=1e-3)
    assert f"between {card.low:.2f} and {card.high:.2f} times as much" in as_made_by_others()
    for name in track_records():
        assert record_of(name).low <= card.low * 1.001
        assert record_of(name).high >= card.high * 0.999


def table_on_a_card() -> list[str]:
    """The page's table of what the card says."""
    rows = []
    for name, s in summary().items():
        n, c, i = s["changes"], s["constant"], s["intervals"]
        rows.append(
            f"| {ON_A_CARD[name]} | {n} | {s['median_ape']:.1f} %, {s['mape']:.1f} % "
            f"| {c['median_ape']:.1f} %, {c['mape']:.1f} % | {s['spearman']:.2f} | {s['right']} of {n} "
            f"| {s['sign']} of {s['signs']} | {i['low']:.2f} to {i['high']:.2f} "
            f"| {i['held']} and {i['held_rounds']} of {i['n']} |"
        )
    return rows


def table_of_gains() -> list[str]:
    """Each kernel by others on the card."""
    rows = []
    for p in measured_pairs():
        gains = (p.cold, p.simulated_cold, p.again_cold, p.warm, p.simulated_warm, p.again_warm)
        told = "" if p.advised is None else f"{p.advised:.2f}, {p.how}"
        cells = (p.round, f"`{p.kernel}`", p.change, f"{p.cold.before_us:.1f}")
        rows.append(f"| {' | '.join((*cells, *(f'{times.gain:.2f}' for times in gains), told))} |")
    return rows


def table_of_times() -> list[str]:
    """How far simulated times are from the card's, by the rules of that day and by later ones."""
    rows = []
    for name, warm in (("cold", False), ("launched again", True)):
        then, now = time_errors(warm, again=False), time_errors(warm, again=True)
        errors = (f"{e['mape']:.1f} % ({e['median_ape']:.1f}); {e['bias']:.2f}" for e in (then, now))
        rows.append(f"| {name} | {' | '.join(errors)} |")
    return rows


def test_the_page_tells_the_card() -> None:
    text = PAGE.read_text()
    assert "\n".join(table_of_times()) in text
    assert "\n".join(table_on_a_card()) in text
    assert "\n".join(table_of_gains()) in text
