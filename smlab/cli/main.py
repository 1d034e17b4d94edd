"""The command ``smlab``."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Annotated, Any, TextIO, cast

import typer

from smlab.cli.loading import INTERRUPTED
from smlab.cli.text import ERRORS, one_line
from smlab.commands.advise import command as advise
from smlab.commands.bench import command as bench
from smlab.commands.case import command as case
from smlab.commands.claims import command as claims
from smlab.commands.gpus import command as gpus
from smlab.commands.port import command as port
from smlab.commands.project import command as project
from smlab.commands.roofline import command as roofline
from smlab.commands.run import command as run_command
from smlab.commands.simulate import command as simulate
from smlab.commands.table import command as table
from smlab.commands.utilization import command as utilization
from smlab.commands.validate import command as validate
from smlab.commands.whatif import command as whatif
from smlab.hw_bench.errors import SmlabError

UsageError = cast(type[typer.BadParameter], typer.BadParameter.__mro__[1])
"""Every mistake in the options; typer exports this base class only through its subclasses."""

TERMINATED = 128 + signal.SIGTERM
"""The exit status after SIGTERM, as shells tell it."""

_ENDED_BY: list[int] = []
"""Signals other than Ctrl-C that asked for an end."""

app = typer.Typer(
    name="smlab",
    help="How far can a GPU performance model be trusted, and where?",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        from smlab import __version__

        print(f"smlab {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """How far can a GPU performance model be trusted, and where?"""
    if context.invoked_subcommand is None:
        print(context.get_help())


for command in (
    gpus,
    simulate,
    run_command,
    advise,
    table,
    validate,
    utilization,
    roofline,
    project,
    port,
    whatif,
    claims,
    case,
    bench,
):
    command.register(app)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line: 0 done, 1 a check fell short, 2 unusable input in one line, 130 interrupted, 143
    ended by SIGTERM, which is treated like Ctrl-C: what was done is kept, and no process stays behind."""
    signal.signal(signal.SIGTERM, _on_sigterm)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ERRORS)
    logger = logging.getLogger("smlab")
    logger.addHandler(_Teller())
    logger.setLevel(logging.INFO)
    sys.exit(_flushed(run(arguments)))


def run(arguments: list[str] | None = None) -> int:
    """The exit status of a command line."""
    began = time.perf_counter()
    try:
        status: Any = app(args=arguments, prog_name="smlab", standalone_mode=False)
    except SmlabError as error:
        return _refuse(str(error))
    except UsageError as error:
        return _refuse(error.format_message())
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted(began)
    except BrokenPipeError:
        _silence(sys.stdout)  # the reader of our output has gone, and has what it wanted
        return 0
    except RecursionError:
        return _refuse("the input is nested too deeply to be read")
    except MemoryError:
        return _refuse("not enough memory for this input; a smaller one would do")
    except OSError as error:
        return _refuse(_said(error))
    if status == INTERRUPTED:  # what typer makes of an interrupt
        return _interrupted(began)
    return status if isinstance(status, int) else 0


def _on_sigterm(number: int, _: object) -> None:
    _ENDED_BY.append(number)
    raise KeyboardInterrupt


def _said(error: OSError) -> str:
    """A file that cannot be read or written in one line; without a name it is what we print to."""
    where = "standard output" if error.filename is None else os.fsdecode(error.filename)
    return f"{where}: {error.strerror or error}"


def _flushed(status: int) -> int:
    """The status, or 2 where the output does not arrive, as on a full disk."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _silence(sys.stdout)
    except OSError as error:
        _silence(sys.stdout)
        return _refuse(_said(error))
    return status


def _silence(stream: TextIO) -> None:
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
        _silence(sys.stderr)
