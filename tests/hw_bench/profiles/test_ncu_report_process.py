"""Reports that ncu-report does not survive, with a module in its place that does the same."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.profiles import read_profile
from smlab.hw_bench.profiles.pc_samples.ncu_report import read_report_samples

FAKE = """
import os, sys, time
print("a word of the library", flush=True)
class Metric:
    value = staticmethod(lambda: 3.0)
    unit = staticmethod(lambda: "warp")
class Result:
    NameBase_DEMANGLED = 1
    name = staticmethod(lambda base=0: "kernel")
    metric_names = staticmethod(lambda: ["smsp__warps_launched.sum"])
    metric_by_name = staticmethod(lambda name: Metric)
    action_by_idx = range_by_idx = staticmethod(lambda n: Result)
    num_actions = num_ranges = staticmethod(lambda: 1)
def load_report(path):
    {what}
    return Result
"""


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "r.ncu-rep"
    path.write_bytes(b"NVR\0 and more")
    return path


def _install(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    """Put a module in the place of ncu-report, as Nsight Compute's own folder is put on the path."""
    (folder / "extras").mkdir()
    (folder / "extras" / "ncu_report.py").write_text(text)
    monkeypatch.syspath_prepend(folder / "extras")


@pytest.mark.parametrize(
    ("read", "what", "said"),
    [
        (read_report_samples, "os.abort()", r"ncu-report ended on it \(signal 6\)"),
        (read_profile, "os.abort()", r"ncu-report ended on it \(signal 6\)"),
        (read_profile, "os._exit(3)", r"ncu-report ended on it \(status 3\)"),
        (read_profile, "os._exit(0)", r"ncu-report ended on it \(status 0\)"),
        (
            read_profile,
            "raise RuntimeError('no header\\nat all')",
            "ncu-report cannot read it: no header at all",
        ),
    ],
)
def test_a_report_that_ends_the_library_is_one_line(
    read, what: str, said: str, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(monkeypatch, report.parent, FAKE.format(what=what))
    with pytest.raises(SmlabError, match=rf"^[^\n]*r\.ncu-rep: {said} \(expected a whole .ncu-rep report\)$"):
        read(report)


def test_what_is_read_and_what_is_refused_come_back(report: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(monkeypatch, report.parent, FAKE.format(what=""))
    (row,) = read_profile(report).table.rows()
    assert (row.kernel, row.counter, row.value) == ("kernel", "smsp__warps_launched.sum", 3.0)
    with pytest.raises(SmlabError, match="r.ncu-rep: holds no samples by instruction"):
        read_report_samples(report)
    with pytest.raises(SmlabError, match="there is no such file"):
        read_report_samples(report.with_name("gone.ncu-rep"))


@pytest.mark.parametrize("text", ["raise ImportError('of another processor')", "raise OSError('no libc')"])
def test_a_library_that_cannot_be_loaded_is_missing(
    text: str, report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(monkeypatch, report.parent, text)
    for read, page in ((read_profile, "raw"), (read_report_samples, "source")):
        with pytest.raises(SmlabError, match=rf"needs ncu-report, which is not installed.*--page {page} "):
            read(report)


SCRIPT = """
import sys
sys.path.insert(0, "extras")
from smlab.hw_bench.profiles import read_profile
print("once", flush=True)
print(len(read_profile("r.ncu-rep").table))
"""


def test_a_script_without_a_main_and_a_folder_of_ones_own(report: Path, tmp_path: Path) -> None:
    (tmp_path / "extras").mkdir()
    (tmp_path / "extras" / "ncu_report.py").write_text(FAKE.format(what=""))
    (tmp_path / "script.py").write_text(SCRIPT)
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    for name in ("pickle", "numpy", "smlab", "json", "sitecustomize"):
        (hostile / f"{name}.py").write_text(f"raise SystemExit('{name} of the user')")
    (hostile / "r.ncu-rep").write_bytes(report.read_bytes())
    (hostile / "extras").symlink_to(tmp_path / "extras")
    done = subprocess.run(
        [sys.executable, "../script.py"], cwd=hostile, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("once\n1\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_no_process_stays_behind(
    number: signal.Signals, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = tmp_path / "began"
    tell = f"open({str(began)!r}, 'w').write(str(os.getpid())); time.sleep(100)"
    _install(monkeypatch, tmp_path, FAKE.format(what=tell))
    process = subprocess.Popen(
        [sys.executable, "-m", "smlab.cli", "advise", str(report)],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "extras")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _wait_until(began.exists)
    _wait_until(began.read_text)
    process.send_signal(number)
    assert process.wait(timeout=60) == 128 + number
    _wait_until(lambda: _ended(int(began.read_text())))


def _wait_until(so: Callable[[], object]) -> None:
    deadline = time.monotonic() + 50  # the fake library sleeps for longer
    while not so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
