"""Exceptions that nobody foresaw: one line and status 70; those that say something of the input: status 2."""

import subprocess
import sys

import pytest

from smlab.cli.main import DEFECT, run


def ended_with(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[int, str]:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("smlab.commands.gpus.run.show_gpus", fails)
    status = run([*options, "gpus"])
    told = capsys.readouterr()
    assert told.out == ""
    return status, told.err


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero at test_defects.py:"),
        (EOFError(), "EOFError at test_defects.py:"),
        (KeyError("a\nb"), "KeyError: 'a\\nb' at"),
        (BrokenPipeError(), "BrokenPipeError at"),
        (RuntimeError("two\nlines"), "RuntimeError: two lines at"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_nobody_foresaw_is_one_line(
    error: Exception, named: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, told = ended_with(error, monkeypatch, capsys)
    assert status == DEFECT == 70
    assert told.startswith(f"smlab: a defect of smlab: {named}")
    assert told.endswith("please report it with `smlab --traceback ...`\n")
    assert told.count("\n") == 1


def test_the_traceback_is_shown_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, told = ended_with(ZeroDivisionError("x"), monkeypatch, capsys, "--traceback")
    assert status == DEFECT
    assert "Traceback (most recent call last)" in told
    assert "in fails" in told
    assert "Traceback" not in ended_with(ZeroDivisionError("x"), monkeypatch, capsys)[1]


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (MemoryError(), 2, "not enough memory"),
        (RecursionError(), 2, "nested too deeply"),
        (KeyboardInterrupt(), 130, "interrupted after 0 s"),
        (FileNotFoundError(2, "No such file or directory", "x.csv"), 2, "x.csv: No such file"),
        (OSError(28, "No space left on device"), 2, "standard output: No space left on device"),
        (OSError(12, "Cannot allocate memory"), 2, "the system: Cannot allocate memory"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_input_or_the_user_did_is_said(
    error: BaseException,
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ended, told = ended_with(error, monkeypatch, capsys)
    assert (ended, told.count("\n")) == (status, 1)
    assert said in told


def test_a_reader_of_the_output_may_go() -> None:
    """As ``smlab gpus | true``."""
    command = [sys.executable, "-c", "from smlab.cli import main; main()", "gpus"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        told = process.stderr.read()
    assert (process.returncode, told) == (0, "")
