"""The counter table: columns, look-up, and the round trip through a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.profiles.counter_table import COLUMNS, WHOLE_GPU, CounterRow, CounterTable

ROWS = [
    CounterRow("hist", 0, WHOLE_GPU, "cycles", 1000.0, "cycles"),
    CounterRow("hist", 0, 0, "atomics", 12.0, "inst"),
    CounterRow("hist", 0, 3, "atomics", 0.1 + 0.2, "inst"),
    CounterRow("hist", 1, 0, "atomics", 7.0, "inst"),
    CounterRow('a, "b"\nc', 0, 0, "atomics", 5.0, "inst"),
]


@pytest.fixture
def table() -> CounterTable:
    return CounterTable.from_rows(ROWS)


def test_rows_come_back(table: CounterTable) -> None:
    assert len(table) == 5
    assert list(table.rows()) == ROWS
    assert table.value.dtype == np.float64
    assert table.sm.dtype == np.int64


def test_values_are_chosen_by_kernel_and_launch(table: CounterTable) -> None:
    assert table.values("atomics", kernel="hist") == {0: 12.0, 3: 0.1 + 0.2}
    assert table.values("atomics", kernel="hist", launch=1) == {0: 7.0}
    assert table.values("nothing") == {}


def test_one_value(table: CounterTable) -> None:
    assert table.value_of("cycles") == 1000.0
    assert table.value_of("atomics", sm=3, kernel="hist") == 0.1 + 0.2


def test_a_missing_counter_is_named(table: CounterTable) -> None:
    with pytest.raises(SmlabError, match="'waits' is missing for the whole GPU"):
        table.value_of("waits")
    with pytest.raises(SmlabError, match=r"'atomics' is missing for SM 5 \(launch 0\)"):
        table.value_of("atomics", sm=5)


def test_round_trip(table: CounterTable, tmp_path: Path) -> None:
    path = tmp_path / "counters.csv"
    table.write_csv(path)
    assert list(CounterTable.read_csv(path).rows()) == ROWS


def test_an_empty_table_makes_the_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "counters.csv"
    CounterTable.from_rows([]).write_csv(path)
    assert len(CounterTable.read_csv(path)) == 0


@given(st.lists(st.floats(allow_nan=False)))
def test_values_survive_to_the_last_bit(
    tmp_path_factory: pytest.TempPathFactory, values: list[float]
) -> None:
    path = tmp_path_factory.mktemp("counters") / "counters.csv"
    CounterTable.from_rows([CounterRow("k", 0, i, "c", v, "u") for i, v in enumerate(values)]).write_csv(path)
    assert CounterTable.read_csv(path).value.tolist() == values


HEADER = ",".join(COLUMNS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a counter table"),
        ("kernel,value\n", "not a counter table .*'kernel', 'value'.*" + HEADER),
        (HEADER + "\nk,0,0,c,1.0,u\nk,0,0,c,1.0\n", "row 3: "),
        (HEADER + "\nk,0,0,c,many,u\n", "row 2: .*many"),
        (HEADER + "\nk,first,0,c,1.0,u\n", "row 2: .*first"),
        (HEADER + "\nk,0,0.5,c,1.0,u\n", "row 2: .*0.5"),
    ],
)
def test_what_is_no_counter_table_is_refused_with_its_row(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(SmlabError, match=message) as caught:
        CounterTable.read_csv(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_no_file_and_no_text(tmp_path: Path) -> None:
    with pytest.raises(SmlabError, match=r"gone.csv: there is no such file \(expected a counter table\)"):
        CounterTable.read_csv(tmp_path / "gone.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(SmlabError, match="cannot be read as a counter table"):
        CounterTable.read_csv(tmp_path / "binary.csv")
