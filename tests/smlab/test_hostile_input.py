"""Input that would grow without bound, hang or end in a traceback: one line, status 2, in time and memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from smlab.cli.main import run
from smlab.examples import KERNEL, KERNEL_LAUNCH, PROFILE

GB = 10**9
MAX_S, MAX_BYTES = 60, 1 * GB  # wall clock on a busy machine; each takes a few seconds of processor time


BOUNDLESS = {
    "warps=1000000000": "atomics: warps: out of range",
    "blocks=1000000000": "atomics: blocks: out of range",
    "iterations=1000000000000000000000000000000": "not a usable count",
    "lanes=99999999999": "1 to 32",
    "gpu.atomic.queue_entries=1000000000000": "from 1 to 1,048,576 warp-instructions",
    "gpu.l2.bytes=4000000000000": "out of range",
    "gpu.gpu.sms=100000000": "out of range",
}


def test_a_setting_without_measure_is_refused(smlab_commands) -> None:
    commands = [("simulate", "atomics", "--set", setting) for setting in BOUNDLESS]
    told = smlab_commands(commands, timeout_s=2 * MAX_S)
    for ended, (setting, said) in zip(told, BOUNDLESS.items(), strict=True):
        assert said in ended.refused(), setting
        assert ended.peak_bytes < MAX_BYTES


@pytest.mark.parametrize(
    "value",
    [
        "1\niterations = 2",
        "9" * 5000,
        "[" * 3000,
        '"x',
        "nan",
        "1.5",
        "{a = 1}",
        "1979-05-27",
        "1 # x\n\n[t]",
    ],
)
def test_a_setting_is_one_value(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "atomics", "--set", f"warps={value}"]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    "arguments", ["gpus v100", "gpus nothing", "simulate atomics --set iterations=2 --trace t"]
)
def test_closed_streams_lead_nowhere(closed: str, arguments: str, tmp_path: Path) -> None:
    """A file that is opened must not become standard output."""
    command = f"exec {sys.executable} -m smlab.cli {arguments} {closed}"
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=MAX_S * 4, check=False
    )
    assert done.returncode == (2 if "nothing" in arguments else 0), done
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    if "--trace" in arguments:
        json.loads((tmp_path / "t").read_text())


def nested(path: Path) -> Path:
    path.write_text('title = "x"\nx = ' + "[" * 5000 + "]" * 5000 + "\n")
    return path


READERS = (
    ("simulate",),
    ("simulate", "atomics", "--gpu"),
    ("whatif",),
    ("tune",),
    ("utilization",),
    ("roofline",),
    ("project", "--from", "v100", "--to", "v100"),
)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "nested", "digits", "long", "none"])
def test_what_is_no_file_of_this_kind_is_refused(kind: str, tmp_path: Path, smlab_commands) -> None:
    path = tmp_path / f"{kind}.toml"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "nested":
        nested(path)
    elif kind == "digits":
        path.write_text("x = " + "9" * 5000)
    elif kind == "long":
        path = Path("a" * 5000 + ".toml")
    for ended in smlab_commands([(*command, str(path)) for command in READERS], timeout_s=2 * MAX_S):
        assert len(ended.refused()) < 1500
        assert ended.peak_bytes < MAX_BYTES


@pytest.mark.parametrize(
    "arguments",
    [
        ("simulate", "atomics"),
        ("simulate", "atomics", "--json"),
        ("gpus",),
        ("gpus", "--json"),
        ("whatif", "--example"),
        ("bench", "list"),
        ("--help",),
    ],
    ids=" ".join,
)
def test_a_full_disk_behind_standard_output_is_one_line(arguments: tuple[str, ...], smlab_command) -> None:
    ended = smlab_command(*arguments, stdout="/dev/full")
    assert ended.status == 2
    assert ended.err == "smlab: standard output: No space left on device\n"


@pytest.mark.parametrize("option", ["--trace", "--counters"])
def test_a_full_disk_behind_a_file_names_it(option: str, smlab_command) -> None:
    ended = smlab_command("simulate", "atomics", option, "/dev/full")
    assert "/dev/full: " in ended.refused()
    assert "No space left on device" in ended.err


@pytest.mark.parametrize(
    "environment",
    [{"PYTHONIOENCODING": "ascii"}, {"LANG": "C", "LC_ALL": "C"}, {"PYTHONIOENCODING": "latin-1"}],
)
def test_a_terminal_that_knows_only_ascii_is_served(environment: dict[str, str], smlab_commands) -> None:
    commands = [("simulate", "atomics"), ("gpus", "v100"), ("claims", "--only", "dp-spread"), ("nö",)]
    told = smlab_commands(commands, env={**environment, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"})
    for arguments, ended in zip(commands, told, strict=True):
        assert ended.status == (2 if arguments == ("nö",) else 0), ended
        assert "Traceback" not in ended.err
        assert "UnicodeEncodeError" not in ended.err


def test_a_number_of_cycles_beyond_64_bits_is_refused(smlab_command) -> None:
    ended = smlab_command("simulate", "atomics", "--max-cycles", "9" * 26)
    assert "max_cycles: out of range" in ended.refused()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        *((name, "--help") for name in ("gpus", "simulate", "table", "validate", "utilization", "roofline")),
        *((name, "--help") for name in ("project", "whatif", "tune", "claims", "case", "bench")),
        ("bench", "calibrate", "--help"),
        ("nothing",),
        ("utilization",),
        ("roofline", "none.csv"),
        ("project", "none.csv", "--to", "v100"),
        ("simulate", "none"),
        ("simulate", "atomics", "--gpu", "none"),
        ("simulate", "atomics", "--engine", "none"),
        ("whatif", "none.toml"),
        ("tune", "none.toml"),
        ("table", "--out", "none/table.csv"),
    ],
    ids=" ".join,
)
def test_help_and_refusals_import_nothing_heavy(arguments: tuple[str, ...], smlab_command) -> None:
    """What takes the time is named, since a clock on a busy machine is no test."""
    ended = smlab_command(*arguments, env={"PYTHONPROFILEIMPORTTIME": "1"})
    heavy = ("numpy", "pandas", "scipy", "numba", "xarray", "matplotlib", "simpy", "pyarrow", "smlab.sim")
    imported = {line.rpartition("|")[2].strip() for line in ended.err.splitlines() if "import time:" in line}
    assert "smlab.cli.main" in imported
    assert not imported & set(heavy)
    assert ended.status == (0 if arguments[-1].startswith("--") else 2)


NO_PATHS = {
    "round": "loop",
    "through round": "loop/x.toml",
    "long": "a" * 300,
    "deep": "b/" * 3000 + "c",
    "NUL": "a\0b",
    "through a file": "file/x",
    "folder": "folder",
    "none": "none.toml",
    "escape": "\x1b[2Jx",
    "not UTF-8": "\udcff",
}
KERNEL_OF = ("run", str(KERNEL), "--launch", str(KERNEL_LAUNCH))
READING: tuple[tuple[str, ...], ...] = (
    ("gpus", "X/"),
    ("simulate", "X"),
    ("simulate", "atomics", "--gpu", "X/y"),
    ("simulate", "atomics", "--gpu", "X.toml"),
    ("whatif", "X"),
    ("tune", "X"),
    ("utilization", "X"),
    ("roofline", "X"),
    ("project", "X", "--to", "v100"),
    ("project", str(PROFILE), "--to", "h100-pcie", "--truth", "X"),
    ("project", str(PROFILE), "--to", "h100-pcie", "--cubin", "X"),
    ("port", "v100=X", "t4=X"),
    ("port", "tune", "X", "--from", "v100", "--to", "t4"),
    ("advise", "X"),
    ("advise", str(PROFILE), "--gpu", "v100", "--code", "X"),
    ("run", "X", "--launch", str(KERNEL_LAUNCH)),
    ("run", "X.sass", "--launch", str(KERNEL_LAUNCH)),
    ("run", "X.cubin", "--launch", str(KERNEL_LAUNCH)),
    ("run", "X.traceg.xz"),
    ("run", str(KERNEL), "--launch", "X"),
    (*KERNEL_OF, "--check", "X"),
    ("table", "--gpu", "v100", "--source", "X", "--out", "t.csv"),
    ("case", "histogram", "--image", "X.png"),
    ("bench", "calibrate", "X", "--gpu", "v100", "--out", "o.toml"),
)
WRITING: tuple[tuple[str, ...], ...] = (
    ("simulate", "atomics", "--set", "iterations=2", "--trace", "X"),
    ("simulate", "atomics", "--set", "iterations=2", "--counters", "X"),
    ("table", "--gpu", "v100", "--max-n", "2", "--out", "X/t.csv"),
    ("roofline", str(PROFILE), "--plot", "X/p.png"),
    (*KERNEL_OF, "--trace", "X"),
    (*KERNEL_OF, "--result", "X/r.npz"),
    (*KERNEL_OF, "--counters", "X"),
    (*KERNEL_OF, "--samples", "X"),
    (*KERNEL_OF, "--accel-sim", "X/t"),
    ("advise", "--example", "--html", "X/a.html"),
)


@pytest.fixture
def odd_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused_in_process(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    status = run(arguments)
    told = capsys.readouterr()
    assert (status, told.out) == (2, ""), (arguments, told)
    assert told.err.startswith("smlab: "), arguments
    assert told.err.count("\n") == 1, arguments
    assert "\x1b" not in told.err
    assert len(told.err) < 1500, arguments


@pytest.mark.parametrize("name", NO_PATHS)
def test_a_name_that_can_be_no_file_is_one_line(
    name: str, odd_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, since no argument of a process can hold a NUL."""
    for command in READING:
        refused_in_process([a.replace("X", NO_PATHS[name]) if "X" in a else a for a in command], capsys)
    assert sorted(path.name for path in odd_folder.iterdir()) == ["file", "folder", "loop"]


@pytest.mark.parametrize("name", ["round", "long", "deep", "NUL", "through a file"])
def test_a_name_that_nothing_can_be_written_to_is_one_line(
    name: str, odd_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in WRITING:
        refused_in_process([a.replace("X", NO_PATHS[name]) if "X" in a else a for a in command], capsys)
    assert sorted(path.name for path in odd_folder.iterdir()) == ["file", "folder", "loop"]


def test_a_folder_of_results_may_have_any_name(odd_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Even one that is no UTF-8."""
    (odd_folder / "s.toml").write_text(
        'title = "t"\nresponses = ["wait"]\nbase.model = "mm1-run"\nbase.set.customers = 20\n'
        'factors.arrival_rate = [0.3, 0.8]\ndesign = { kind = "one-at-a-time", replications = 3 }\n'
    )
    for name in ("\udcff", "a\nb", "\x1b[2J", "é" * 60):
        assert run(["whatif", "s.toml", "--jobs", "1", "--out", name]) == 0
        assert (odd_folder / name / "points.parquet").is_file()
        assert "\x1b" not in capsys.readouterr().err


FILES_IN_FILES = {
    "launch.toml": "[launch]\ngrid = 1\nblock = 32\n[[argument]]\nname = 'a'\nfile = {}\n",
    "constant.toml": "[launch]\ngrid = 1\nblock = 32\n[constant.a]\nfile = {}\n",
    "gpu.toml": "extends = {}\n",
    "cases.toml": 'title = "t"\nresponses = ["wait"]\nbase.model = "mm1-run"\n'
    'factors.arrival_rate = [0.1, 0.5]\ndesign.kind = "listed"\ndesign.cases = {}\n',
    "workload.toml": 'title = "t"\nresponses = ["cycles"]\nbase.gpu = "v100"\nbase.workload = {}\n'
    'factors.warps = [1, 2]\ndesign.kind = "grid"\n',
    "of-kernel.toml": 'title = "t"\nresponses = ["cycles"]\nbase.gpu = "v100"\nbase.kernel = {}\n'
    'base.launch = {}\nfactors.sms = [1, 2]\ndesign.kind = "grid"\n',
}


@pytest.mark.parametrize("file", FILES_IN_FILES)
def test_a_name_in_a_file_that_can_be_no_file_is_one_line(
    file: str, odd_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in NO_PATHS.values():
        if "\udcff" in name:
            continue
        quoted = json.dumps(name if name.endswith(".toml") else f"{name}.toml" if "a\0" in name else name)
        (odd_folder / file).write_text(FILES_IN_FILES[file].replace("{}", quoted))
        command = {
            "launch.toml": ["run", str(KERNEL), "--launch", file],
            "constant.toml": ["run", str(KERNEL), "--launch", file],
            "gpu.toml": ["gpus", f"./{file}"],
        }.get(file, ["whatif", file, "--out", "out"])
        refused_in_process(command, capsys)
