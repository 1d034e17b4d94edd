"""Input that would grow without bound, hang or end in a traceback: one line, status 2, in time and memory."""

import os
from pathlib import Path

import pytest

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


def nested(path: Path) -> Path:
    path.write_text('title = "x"\nx = ' + "[" * 5000 + "]" * 5000 + "\n")
    return path


READERS = (
    ("simulate",),
    ("simulate", "atomics", "--gpu"),
    ("whatif",),
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
        *((name, "--help") for name in ("project", "whatif", "claims", "case", "bench")),
        ("bench", "calibrate", "--help"),
        ("nothing",),
        ("utilization",),
        ("roofline", "none.csv"),
        ("project", "none.csv", "--to", "v100"),
        ("simulate", "none"),
        ("simulate", "atomics", "--gpu", "none"),
        ("simulate", "atomics", "--engine", "none"),
        ("whatif", "none.toml"),
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
