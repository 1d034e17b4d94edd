"""Reading with NVIDIA's ``ncu-report`` in a separate process: a damaged report may abort the process.

The process never imports the user's program, and answers by a pickle.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from smlab.hw_bench.child_python import run_python
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import check_file
from smlab.hw_bench.profiles.profile import short

_T = TypeVar("_T")
_WHOLE: Final = "a whole .ncu-rep report"
_CHILD: Final = "from smlab.hw_bench.profiles.ncu.ncu_report_process import answer; answer()"
_TIMEOUT_S: Final = 600.0


def read_in_process(path: Path, read: Callable[[str, Any], _T], page: str) -> _T:
    """What ``read(path, ncu_report)``, of a module, makes of a report; ncu's ``page`` has the same as CSV.

    Raises:
        SmlabError: no file, no ncu-report, what ``read`` raises, or that the process ended without a result.
    """
    where = str(path)
    if importlib.util.find_spec("ncu_report") is None:
        raise _missing(where, page)
    check_file(path, _WHOLE)
    try:
        done = run_python(
            _CHILD,
            input=pickle.dumps((read, where, page)),
            timeout_s=_TIMEOUT_S,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # the library's own words about the damage
        )
    except subprocess.TimeoutExpired as error:
        what = f"ncu-report did not end on it within {_TIMEOUT_S:g} s"
        raise SmlabError.at(where, what, expected=_WHOLE) from error
    except OSError as error:
        raise SmlabError(f"{where}: no process can be started to read it: {error.strerror}") from error
    if done.returncode or not done.stdout:
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
        raise SmlabError.at(where, f"ncu-report ended on it ({how})", expected=_WHOLE)
    result: _T | SmlabError = pickle.loads(done.stdout)
    if isinstance(result, SmlabError):
        raise result
    return result


def answer() -> None:
    """What the process does: it reads, answers, and ends before the library cleans up."""
    read, where, page = pickle.load(sys.stdin.buffer)
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # what the library prints is no answer
        ncu: Any = None
        with suppress(ImportError, OSError):
            ncu = importlib.import_module("ncu_report")
        try:
            result = read(where, ncu) if ncu else _missing(where, page)
        except SmlabError as error:
            result = error
        except Exception as error:  # what it raises for a damaged report is not documented
            what = f"ncu-report cannot read it: {short(str(error)) or type(error).__name__}"
            result = SmlabError.at(where, what, expected=_WHOLE)
        pickle.dump(result, out)
    os._exit(0)


def _missing(where: str, page: str) -> SmlabError:
    what = "a .ncu-rep report needs ncu-report, which is not installed"
    csv = f"CSV of it: ncu --import FILE --page {page} --csv"
    return SmlabError.at(where, what, expected=f"pip install 'smlab[ncu]' (NVIDIA's ncu-report), or {csv}")
