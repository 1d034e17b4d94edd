"""The command ``smlab``."""

from __future__ import annotations

import _thread
import errno
import io
import logging
import os
import select
import shutil
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TextIO, cast

import typer
import typer.core

from smlab.cli.loading import INTERRUPTED
from smlab.cli.options import COMPARE, MEASURE, RUN, STUDY, TESTBED
from smlab.cli.text import ERRORS, one_line
from smlab.commands.advise import command as advise
from smlab.commands.bench import command as bench
from smlab.commands.case import command as case
from smlab.commands.claims import command as claims
from smlab.commands.compare import command as compare
from smlab.commands.gpus import command as gpus
from smlab.commands.port import command as port
from smlab.commands.project import command as project
from smlab.commands.roofline import command as roofline
from smlab.commands.run import command as run_command
from smlab.commands.simulate import command as simulate
from smlab.commands.table import command as table
from smlab.commands.tune import command as tune
from smlab.commands.utilization import command as utilization
from smlab.commands.validate import command as validate
from smlab.commands.whatif import command as whatif
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sources import installed_version

UsageError = cast(type[typer.BadParameter], typer.BadParameter.__mro__[1])
"""Every mistake in the options; typer exports this base class only through its subclasses."""

TERMINATED = 128 + signal.SIGTERM
"""The exit status after SIGTERM, as shells tell it."""
ENDS_WITHIN_S = 8.0
"""How long after SIGTERM a command may still tidy up."""

_ENDED_BY: list[int] = []
"""Signals other than Ctrl-C that asked for an end."""

DEFECT = 70
"""The exit status for an exception that nobody foresaw (`EX_SOFTWARE` of sysexits.h)."""

_SHOW_TRACEBACK: list[bool] = []
"""Filled by ``--traceback``."""

GROUPS = {
    MEASURE: (utilization, roofline, advise),
    RUN: (run_command, compare, simulate),
    COMPARE: (project, port, gpus),
    STUDY: (tune, whatif, case, table),
    TESTBED: (validate, claims, bench),
}
"""The commands, as ``smlab --help`` groups them."""


class _Ended(Exception):
    """Carries past typer what it would turn into an end of its own: EOF as an interrupt, a broken pipe as
    status 1."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class _Group(typer.core.TyperGroup):
    """Help that lists the commands under the headings of their groups; errors that typer leaves alone."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (EOFError, KeyboardInterrupt, BrokenPipeError) as error:
            raise _Ended(error) from error

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        for title in GROUPS:
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (name.ljust(width), command.get_short_help_str(formatter.width - 6 - width))
                        for name, command in self.commands.items()
                        if getattr(command, "rich_help_panel", None) == title
                    ]
                )


app = typer.Typer(
    name="smlab",
    cls=_Group,
    help="How far can a GPU performance model be trusted, and where?",
    epilog="smlab COMMAND --help explains a command, --example tries it, --details prints all that it knows.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"smlab {installed_version()}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    show_traceback: Annotated[
        bool, typer.Option("--traceback", help="Show Python's traceback of a defect of smlab.")
    ] = False,
) -> None:
    """How far can a GPU performance model be trusted, and where?"""
    if show_traceback:
        _SHOW_TRACEBACK.append(True)
    if context.invoked_subcommand is None:
        print(context.get_help())


for title, members in GROUPS.items():
    for member in members:
        member.register(app, title)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. The exit status is 0 (done), 1 (a check fell short), 2 (unusable input, told in
    one line), 70 (a defect of smlab), 130 (interrupted) or 143 (ended by SIGTERM). SIGTERM is treated like
    Ctrl-C: what was done is kept, and no process stays behind."""
    signal.signal(signal.SIGTERM, _on_sigterm)
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ERRORS)
    logger = logging.getLogger("smlab")
    logger.addHandler(_Teller())
    logger.setLevel(logging.INFO)
    sys.exit(_flushed(run(arguments)))


def _open_streams() -> None:
    """Standard streams that whoever started us has closed lead nowhere; else a file that we open would be
    one."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            with suppress(OSError):
                opened = os.open(os.devnull, os.O_RDWR)
                os.dup2(opened, number)
                if opened != number:
                    os.close(opened)
            setattr(sys, name, open(os.devnull, "r+" if number else "r"))  # noqa: SIM115


def run(arguments: list[str] | None = None) -> int:
    """The exit status of a command line."""
    began = time.perf_counter()
    _SHOW_TRACEBACK.clear()
    try:
        status: Any = app(
            args=arguments, prog_name="smlab", standalone_mode=False, terminal_width=_narrow_width()
        )
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted(began)
    except _Ended as ended:
        if isinstance(ended.error, KeyboardInterrupt):
            return _interrupted(began)
        return _failed(ended.error)
    except Exception as error:
        return _failed(error)
    if status == INTERRUPTED:  # what typer makes of an interrupt
        return _interrupted(began)
    return status if isinstance(status, int) else 0


def _narrow_width() -> int | None:
    """Columns for help where a terminal has fewer than typer's least, 50; None leaves it to typer."""
    columns = shutil.get_terminal_size().columns
    return max(columns - 1, LEAST_COLUMNS) if columns <= 50 else None


LEAST_COLUMNS = 30


def _failed(error: BaseException) -> int:
    """The exit status after an exception, told in one line."""
    if isinstance(error, SmlabError):
        return _refuse(str(error))
    if isinstance(error, UsageError):
        return _refuse(_usage(error))
    if isinstance(error, BrokenPipeError) and (_reader_closed(sys.stdout) or _reader_closed(sys.stderr)):
        _mute_output(sys.stdout)  # who read our output has what they wanted
        return 0
    if _SHOW_TRACEBACK:
        traceback.print_exception(error)
    if isinstance(error, RecursionError):
        return _refuse("the input is nested too deeply to be read")
    if isinstance(error, MemoryError):
        return _refuse("not enough memory for this input; a smaller one would do")
    if isinstance(error, OSError) and error.errno is not None:
        return _refuse(_said(error))
    what = f"{type(error).__name__}: {error}".rstrip(": ")
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    _tell(f"smlab: a defect of smlab: {one_line(what)}{where}; please report it with `smlab --traceback ...`")
    return DEFECT


def _usage(error: typer.BadParameter) -> str:
    """A mistake in the options, in our words where typer says that pydantic refused a value."""
    problems = getattr(error.__cause__, "errors", None)
    parameter = getattr(error, "param", None)
    if problems is None or parameter is None:
        return error.format_message()
    option = parameter.opts[0] if parameter.param_type_name == "option" else str(parameter.metavar)
    return str(SmlabError.of_value(option, problems()[0]))


def _reader_closed(stream: TextIO) -> bool:
    """Whether nobody reads any more what we write."""
    with suppress(OSError, ValueError):
        poll = select.poll()
        poll.register(stream.fileno(), 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    return False


def _on_sigterm(number: int, _: object) -> None:
    if not _ENDED_BY:
        _thread.start_new_thread(_end_late, ())  # without the locks that `threading` may hold here
    _ENDED_BY.append(number)
    raise KeyboardInterrupt


def _end_late() -> None:
    """End the process if the interrupt was lost, as where a library catches everything. Stores keep what was
    finished, and children end with their parent."""
    time.sleep(ENDS_WITHIN_S)
    os._exit(TERMINATED)


def _said(error: OSError) -> str:
    """A file that cannot be read or written in one line; without a name it is what we print to."""
    if error.filename is None:
        where = "standard output" if error.errno in _OF_OUTPUT else "the system"
    else:
        where = str(error.filename) if isinstance(error.filename, int) else os.fsdecode(error.filename)
    return f"{where}: {error.strerror or error}"


_OF_OUTPUT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EPIPE)
"""What writing may end with; an error that names no file is then that of standard output."""


def _flushed(status: int) -> int:
    """The status, or 2 where the output does not arrive, as on a full disk."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _mute_output(sys.stdout)
    except OSError as error:
        _mute_output(sys.stdout)
        return _refuse(_said(error))
    return status


def _mute_output(stream: TextIO) -> None:
    """Keep Python from complaining when it flushes ``stream`` at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _interrupted(began: float) -> int:
    # An interrupt within a library's exec() of a text makes the interpreter end by the signal although it was
    # caught; the next exec() of a text makes it forget.
    exec("")
    how = "ended by SIGTERM" if _ENDED_BY else "interrupted"
    _tell(f"smlab: {how} after {time.perf_counter() - began:.0f} s")
    return TERMINATED if _ENDED_BY else INTERRUPTED


def _refuse(message: str) -> int:
    _tell(f"smlab: {one_line(message)}")
    return 2


class _Teller(logging.Handler):
    """What the rooms log, on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        _tell(f"smlab: {one_line(record.getMessage())}")


def _tell(line: str) -> None:
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:  # nobody can be told
        _mute_output(sys.stderr)
