"""``smlab compare`` and ``smlab run --baseline``: what changed, and the exit status."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from smlab.cli.main import run
from smlab.commands.compare.comparison import RunComparison
from smlab.commands.compare.kept_run import KeptRun, kept_run, read_kept_run
from smlab.commands.compare.output import markdown
from smlab.hw_bench.errors import SmlabError


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kept run of the example."""
    import contextlib
    import io

    path = tmp_path_factory.mktemp("kept") / "kept.json"
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert run(["run", "--example", "--json"]) == 0
    path.write_text(printed.getvalue())
    return path


def changed(kept: Path, **keys: object) -> KeptRun:
    return kept_run({**json.loads(kept.read_text()), **keys}, "other", "other")


def test_two_launches_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert run(["compare", "--example", "--json", "--html", str(page)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "faster"
    assert told["faster"] == pytest.approx(told["before"]["seconds"] / told["after"]["seconds"])
    assert told["results_equal"] is True
    grid = next(c for c in told["counters"] if c["counter"] == "launch__grid_size")
    assert (grid["before"], grid["after"]) == (8, 80)
    atomics = next(line for line in told["lines"] if line["line_before"] == 10)
    assert atomics["text"] == "atomicAdd(&local[pixels[i]], 1);"
    assert atomics["after_s"] < atomics["before_s"]
    assert "faster" in page.read_text()


def test_the_answer_fits_twelve_lines_of_80(
    kept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["compare", "--example"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 80
    assert "4.17x faster" in lines[0]


def test_a_run_is_the_same_as_itself(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", str(kept), str(kept), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["verdict"], told["faster"], told["results_equal"]) == ("the same", 1, True)
    assert told["counters"] == told["lines"] == []


def test_two_clocks_are_two_times_with_the_same_results(
    kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example at a lower clock: slower by the ratio of the clocks, status 1, told in all files."""
    junit, table = tmp_path / "junit.xml", tmp_path / "table.md"
    command = ["run", "--example", "--clock", "1000", "--baseline", str(kept), "--json"]
    assert run([*command, "--junit", str(junit), "--markdown", str(table)]) == 1
    told = json.loads(capsys.readouterr().out)["baseline"]
    assert told["faster"] == pytest.approx(1000 / 1380)
    assert (told["ok"], told["results_equal"]) == (False, True)
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failed == ["time"]
    assert "1.38x slower" in table.read_text()
    assert run([*command, "--tolerance", "40%"]) == 0
    capsys.readouterr()


def test_other_results_fall_short_however_fast(kept: Path) -> None:
    """Whole numbers must be equal; of floating point, a digest cannot tell rounding from error."""
    before = read_kept_run(kept)
    (name,) = before.digests
    other = changed(kept, seconds=before.seconds / 2, returned={name: "int32:256:abc"})
    comparison = RunComparison(before, other)
    assert comparison.verdict == "faster"
    assert comparison.results[0] is False
    assert comparison.fell_short()
    floats = [changed(kept, returned={name: f"float32:256:{mark}"}) for mark in "ab"]
    assert RunComparison(*floats).results[0] is None
    assert not RunComparison(*floats).fell_short()
    assert RunComparison(before, changed(kept, returned={})).results[0] is None


@pytest.mark.parametrize(("slower", "verdict"), [(1.0, "the same"), (1.019, "the same"), (1.021, "slower")])
def test_the_tolerance_is_what_it_says(kept: Path, slower: float, verdict: str) -> None:
    before = read_kept_run(kept)
    comparison = RunComparison(before, changed(kept, seconds=slower * before.seconds), 0.02)
    assert comparison.verdict == verdict
    assert comparison.fell_short() == (verdict == "slower")


def test_lines_that_moved_are_paired_by_their_text(kept: Path) -> None:
    """Two lines more above: each line is still compared with itself, and the new ones are new."""
    document = json.loads(kept.read_text())
    moved = [{**i, "line": i["line"] + 2} for i in document["instructions"]]
    source = {str(int(line) + 2): text for line, text in document["source_lines"].items()}
    after = changed(kept, seconds=2 * document["seconds"], instructions=moved, source_lines=source)
    lines = RunComparison(read_kept_run(kept), after).lines
    atomics = next(line for line in lines if line.text.startswith("atomicAdd(&local"))
    assert (atomics.line_before, atomics.line_after) == (10, 12)
    assert atomics.after_s == pytest.approx(2 * atomics.before_s)
    assert "10, now 12" in markdown(RunComparison(read_kept_run(kept), after))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"seconds": None}, "seconds: is missing or no number"),
        ({"seconds": 0}, "no time of a kernel"),
        ({"cycles": "many"}, "cycles: is missing or no number"),
        ({"instructions": {}}, "instructions: is missing or of another kind"),
        ({"instructions": [3]}, "instructions[0]: no instruction"),
        ({"stalls": {"wait": "long"}}, "wait: is missing or no number"),
    ],
)
def test_what_is_no_kept_run_is_said(keys: dict[str, object], said: str, kept: Path) -> None:
    with pytest.raises(SmlabError) as caught:
        changed(kept, **keys)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare"],
        ["compare", "kept.json"],
        ["compare", "kept.json", "none.json"],
        ["compare", "list.json", "kept.json"],
        ["compare", "k.cu", "kept.json"],
        ["compare", "kept.json", "kept.json", "--tolerance", "much"],
        ["compare", "kept.json", "kept.json", "--tolerance=-1%"],
        ["compare", "--example", "kept.json"],
        ["run", "--example", "--junit", "j.xml"],
        ["run", "--example", "--baseline", "list.json"],
        ["run", "--example", "--baseline", "none.json"],
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str],
    kept: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kept.json").write_bytes(kept.read_bytes())
    Path("list.json").write_text("[1, 2]")
    Path("k.cu").write_text("")
    assert run(arguments) == 2
    said = capsys.readouterr().err.strip()
    assert said.startswith("smlab: ")
    assert "\n" not in said


def test_counters_whose_names_differ_at_their_end_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "--example"]) == 0
    rows = [x.split()[0] for x in capsys.readouterr().out.splitlines() if "..." in x and "line" not in x]
    assert len(rows) >= 2
    assert len(set(rows)) == len(rows)
