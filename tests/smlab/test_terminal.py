"""What people read: tables at any width with no number cut, text from files without what a terminal obeys."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import smlab
from smlab.cli.main import run
from smlab.cli.tables import Listing, spread
from smlab.cli.terminal import MIN_COLUMNS, Terminal, out, shown
from smlab.cli.text import one_line, visible
from smlab.hw_bench.csv_cells import guarded, unguarded
from smlab.hw_bench.profiles.counter_table import CounterTable
from smlab.sim import counter_table

WIDTHS = (40, 60, 80, 120, 200)


def printed(listing: Listing, width: int, capsys: pytest.CaptureFixture[str]) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        Terminal().print(listing)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("columns", [1, 3, 8, 20])
def test_no_number_is_cut_at_any_width(width: int, columns: int, capsys: pytest.CaptureFixture[str]) -> None:
    listing = Listing()
    listing.add_column("kernel", fold=True, max_width=40)
    for i in range(columns):
        listing.add_column(f"quantity {i} of it", justify="right", drop=i % 3)
    numbers = [[f"{(k + 1) * 10**i:,}.{i}" for i in range(columns)] for k in range(3)]
    for row in numbers:
        listing.add_row("a_kernel_with_a_name_that_is_longer_than_any_column", *row)
    lines = printed(listing, width, capsys)
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)
    text = " ".join(lines)
    left_out = re.search(r"left out at this width: (.*?)\(--json", " ".join(text.split()))
    for i in range(columns):
        shown_whole = all(re.search(rf"(?<![\d,.]){re.escape(row[i])}(?![\d,])", text) for row in numbers)
        named = left_out is not None and f"quantity {i} of it" in left_out[1]
        assert shown_whole != named, (i, lines)
        assert shown_whole or i % 3


def test_columns_go_in_their_order_and_stacking_keeps_all(capsys: pytest.CaptureFixture[str]) -> None:
    listing = Listing()
    for name, drop in (("always", 0), ("last to go", 1), ("first to go", 2)):
        listing.add_column(name, justify="right", drop=drop)
    listing.add_row("1" * 20, "2" * 12, "3" * 12)
    assert "left out at this width: first to go " in " ".join(printed(listing, 44, capsys))
    wide = Listing()
    for name, drop in (("always", 0), ("last to go", 1), ("never", 0)):
        wide.add_column(name, justify="right", drop=drop)
    wide.add_row("1" * 20, "2" * 12, "3" * 20)
    stacked = " ".join(printed(wide, 40, capsys))
    assert all(number in stacked for number in ("1" * 20, "2" * 12, "3" * 20))
    assert "left out" not in stacked


def test_widths_are_shared_out_and_add_up() -> None:
    assert spread([(5, 5), (4, 10), (3, 30)], 100) == [5, 10, 30]
    for room in range(12, 46):
        widths = spread([(5, 5), (4, 10), (3, 30)], room)
        assert sum(widths) == min(room, 45)
        assert all(w >= least for w, least in zip(widths, (5, 4, 3), strict=True))


COMMANDS = (
    ("gpus",),
    ("gpus", "v100"),
    ("simulate", "atomics", "--set", "iterations=3000"),
    ("utilization", "--example"),
    ("utilization", "--how"),
    ("roofline", "--example"),
    ("project", "--example"),
    ("claims", "--only", "dp-spread"),
    ("bench", "list"),
    ("bench", "plan"),
    ("run", "--example"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_fits_and_cuts_no_number(
    command: tuple[str, ...], recorded: Callable[[], AbstractContextManager[Any]]
) -> None:
    """The commands that take longer are looked at by their own tests."""
    with recorded() as prints:
        assert run(list(command)) == 0
    prints.check_every_width()


def test_a_command_is_as_wide_as_columns_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    widths = []
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        assert run(["gpus", "v100", "--details"]) == 0
        widths.append(max(map(len, capsys.readouterr().out.splitlines())))
    assert all(seen <= width for seen, width in zip(widths, WIDTHS, strict=True))
    assert widths == sorted(set(widths))


def test_columns_is_obeyed_when_piped_and_no_narrower_than_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, width in (("77", 77), ("9", MIN_COLUMNS), ("0", 160), ("x", 160), ("", 160)):
        monkeypatch.setenv("COLUMNS", text)
        assert out.width == width


EVIL = "k\x1b[2J\x1b]0;owned\x07\x9b31m\r\b\u202egnp.\udc80[red]x[/red]:smile:"


def test_control_characters_are_written_out(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal().print(f"[bold]{shown(EVIL)}[/bold]")
    Terminal().print(EVIL, markup=False)
    text = capsys.readouterr().out
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\udc80]", text)
    assert "\\x1b[2J" in text
    assert "[red]x[/red]:smile:" in text
    assert visible("a\tb\nc") == "a\tb\nc"
    assert one_line("a\n b") == "a b"
    assert one_line("x" * 5000).endswith("(5000 characters)")


@pytest.mark.parametrize("command", ["utilization", "roofline", "project"])
def test_a_kernel_with_control_characters_is_shown_harmless(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = smlab.simulate("atomics", "v100", settings={"iterations": 200})
    evil = EVIL.replace("\udc80", "").replace("\r", "")
    rows = [replace(row, kernel=evil) for row in counter_table(result).rows()]
    path = tmp_path / "p.csv"
    CounterTable.from_rows(rows, result.launch.gpu).write_csv(path)
    assert run([command, str(path), *(("--to", "a100-40") if command == "project" else ())]) == 0
    printed = capsys.readouterr()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", printed.out + printed.err)
    assert "\\x1b" in printed.out


def test_counter_tables_name_their_gpu_and_old_ones_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, old = tmp_path / "new.csv", tmp_path / "old.csv"
    counters = ["simulate", "atomics", "--gpu", "a100-80", "--set", "iterations=200", "--counters", str(path)]
    assert run(counters) == 0
    assert path.read_text().splitlines()[1].endswith("NVIDIA A100 PCIe 80 GB,8.0")
    assert smlab.roofline(path).gpu.name == "a100-80"
    with pytest.raises(smlab.SmlabError, match="of another GPU"):
        smlab.roofline(path, gpu="v100")
    lines = [line.rsplit(",", 2)[0] for line in path.read_text().splitlines()]
    old.write_text("\n".join(lines) + "\n")
    with pytest.raises(smlab.SmlabError, match="does not name its GPU"):
        smlab.roofline(old)
    new, again = smlab.roofline(path).to_dataframe(), smlab.roofline(old, gpu="a100-80").to_dataframe()
    assert new.drop(columns="flags").equals(again.drop(columns="flags"))
    mixed = path.read_text().replace("80 GB,8.0", "40 GB,8.0", 1)
    path.write_text(mixed)
    with pytest.raises(smlab.SmlabError, match="mixed GPUs"):
        smlab.roofline(path)
    capsys.readouterr()


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "'=x", "'x", "k", "", "''@", "\t=x", "-"]
)
def test_a_formula_is_guarded_and_comes_back(text: str) -> None:
    assert unguarded(str(guarded(text))) == text
    assert str(guarded(text))[:1] not in tuple("=+-@\t\r")
    assert guarded("-1.5e-3") == "-1.5e-3"
    assert guarded(-2) == -2


@pytest.mark.parametrize("group", [(), ("case",), ("bench",)], ids=" ".join)
def test_no_line_of_a_list_of_commands_is_cut(
    group: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*group, "--help"]) == 0
    listed = [line for line in capsys.readouterr().out.splitlines() if re.match("  [a-z]", line)]
    assert listed
    assert [line for line in listed if line.rstrip().endswith("...")] == []
