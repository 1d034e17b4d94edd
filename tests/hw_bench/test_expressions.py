"""Expressions in files: what they give, and what they refuse."""

from fractions import Fraction

import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.expressions import MAX_ITEMS, evaluate, names_of

NAMES = {"a": 6, "b": 4, "size": [4096, 128], "flag": True, "text": "row"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a * b + 2 ** 3", 32),
        ("a // b, a % b", [1, 2]),
        ("a / 2", 3),
        ("a / b", Fraction(3, 2)),
        ("ceil(size[0] / (a * 2))", 342),
        ("a <= 6 < b + 3 and not a == b", True),
        ("flag or a", True),
        ("0 or b", 4),
        ("a if b > 4 else -b", -4),
        ("text == 'row' and a in [2, 6]", True),
        ("[1] + [2 * i for i in range(1, 4) if i != 2]", [1, 2, 6]),
        ("max(a) + min(a, b) + sum([1, 2])", 13),
        ("math.floor(log2(64))", 6),
        ("all_of if False else a & b | 1", 5),
    ],
)
def test_values(text: str, value: object) -> None:
    found = evaluate("x", text, NAMES)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "cannot be read"),
        ("a +", "cannot be read"),
        ("a = 3", "cannot be read"),
        ("c + 1", "names something that is not there .got 'c'"),
        ("a // 0", "divides by zero"),
        ("a / (b - 4)", "divides by zero"),
        ("__import__('os')", "cannot be evaluated"),
        ("().__class__", "cannot be evaluated"),
        ("size.append(3)", "cannot be evaluated"),
        ("(lambda: 1)()", "cannot be evaluated"),
        ("'x' * 9", "cannot be evaluated"),
        ("[1] * 9", "cannot be evaluated"),
        ("9 ** 9 ** 9", "too large"),
        ("1 << 4000", "too large"),
        (f"range({MAX_ITEMS + 1})", "too long"),
        ("[j for i in range(9) for j in range(9)]", "cannot be evaluated"),
        ("a[0]", "cannot be evaluated"),
        ("size[7]", "cannot be evaluated"),
        ("f'{a}'", "cannot be evaluated"),
        ("1" * 5000, "too long"),
        ("(" * 300 + "1" + ")" * 300, "cannot be read|nested"),
    ],
)
def test_what_is_no_expression_is_one_line(text: str, says: str) -> None:
    with pytest.raises(SmlabError, match=rf"^file: key: .*({says})") as told:
        evaluate("file: key", text, NAMES)
    assert "\n" not in str(told.value)


def test_names_are_those_that_are_read() -> None:
    assert names_of("x", "ceil(a / b) + sum([i * c for i in range(3)]) + math.sqrt(d)") == {*"abcd"}
