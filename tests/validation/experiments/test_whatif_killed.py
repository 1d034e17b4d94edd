"""A study that dies and goes on: kill -9 at random moments, of the study and of its workers, and Ctrl-C."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from smlab.validation.experiments.design.study import read_study
from smlab.validation.experiments.run.running import run_whatif

POINTS = 2 * (14 * 10 + 1)
"""Of the long study."""

PROGRAM = """
import sys
from pathlib import Path
from smlab.validation.experiments.run import running as run
from smlab.validation.experiments.design.study import read_study

if __name__ == "__main__":
    study, out, jobs = sys.argv[1:]
    run.CHUNK_S = 0.03  # so that there is much to interrupt
    print(run.run_whatif(read_study(Path(study)), Path(out), jobs=int(jobs), resume=True, effects=False).ran)
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, long_text: str) -> tuple[Path, bytes]:
    """The study file, and the table of points of a run that nobody disturbs."""
    folder = tmp_path_factory.mktemp("whole")
    path = folder / "study.toml"
    path.write_text(long_text)
    outcome = run_whatif(read_study(path), folder / "out", jobs=1, effects=False)
    assert outcome.ran == POINTS
    return path, (folder / "out" / "points.csv").read_bytes()


def start(study: Path, out: Path, jobs: int) -> subprocess.Popen[str]:
    script = out.parent / "program.py"
    script.write_text(PROGRAM)
    return subprocess.Popen(
        [sys.executable, str(script), str(study), str(out), str(jobs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )


def stored(out: Path) -> list[int]:
    """How often each stored point was run; empty before there is a store."""
    path = out / "points.sqlite"
    if not path.is_file():
        return []
    plain = sqlite3.connect(path, timeout=30)
    try:
        return [row[0] for row in plain.execute("SELECT runs FROM results")]
    except sqlite3.OperationalError:  # not a table yet
        return []
    finally:
        plain.close()


def wait_until_more(process: subprocess.Popen[str], out: Path, count: int) -> bool:
    """Wait until more than ``count`` points are stored; whether that came before the end."""
    while process.poll() is None:
        if len(stored(out)) > count:
            return True
        time.sleep(0.005)
    return False


def children(process: subprocess.Popen[str]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def kill_and_resume(uninterrupted: tuple[Path, bytes], folder: Path, jobs: list[int]) -> None:
    """Kill it at a random moment for each of ``jobs``, its worker processes, each time further on; then
    finish and compare."""
    study, expected = uninterrupted
    moments = random.Random(folder.name)
    out = folder / "out"
    before, workers = 0, list[int]()
    for number in jobs:
        process = start(study, out, number)
        going = wait_until_more(process, out, before)
        time.sleep(moments.uniform(0, 0.05))
        workers += children(process) if going else []
        process.send_signal(signal.SIGKILL)
        process.communicate()
        runs = stored(out)
        assert len(runs) >= before
        assert set(runs) <= {1}
        before = len(runs)
    assert 0 < before < POINTS, "the kills did not fall into the run"
    rest = run_whatif(read_study(study), out, jobs=1, resume=True, effects=False)
    assert rest.ran == POINTS - before
    assert (out / "points.csv").read_bytes() == expected
    assert stored(out) == [1] * POINTS
    assert bool(workers) == (max(jobs) > 1)
    deadline = time.monotonic() + 2
    while not all(ended(pid) for pid in workers):
        assert time.monotonic() < deadline, "workers outlived the study"
        time.sleep(0.05)


def test_killed_twice(uninterrupted: tuple[Path, bytes], tmp_path: Path) -> None:
    kill_and_resume(uninterrupted, tmp_path, jobs=[1, 2])


@pytest.mark.thorough
@pytest.mark.parametrize("jobs", [1, 2])
def test_killed_ten_times(uninterrupted: tuple[Path, bytes], tmp_path: Path, jobs: int) -> None:
    kill_and_resume(uninterrupted, tmp_path, jobs=[jobs] * 10)


def test_a_killed_worker_costs_only_what_it_had(uninterrupted: tuple[Path, bytes], tmp_path: Path) -> None:
    study, expected = uninterrupted
    out = tmp_path / "out"
    process = start(study, out, jobs=2)
    assert wait_until_more(process, out, 10)
    workers = children(process)
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    printed, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert int(printed) == POINTS
    assert (out / "points.csv").read_bytes() == expected
    assert stored(out) == [1] * POINTS


def test_ctrl_c_keeps_what_was_done_and_says_how_to_go_on(
    uninterrupted: tuple[Path, bytes], tmp_path: Path
) -> None:
    study, expected = uninterrupted
    out = tmp_path / "out"
    command = [sys.executable, "-m", "smlab.cli", "whatif", str(study), "--out", str(out), "--jobs", "2"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert wait_until_more(process, out, 5)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the study and to its workers
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert printed == ""
    assert "Traceback" not in errors
    kept = len(stored(out))
    assert 5 < kept < POINTS
    assert f"kept {kept} of {POINTS} points" in errors
    assert f"smlab whatif {study} --out {out} --resume" in errors
    rest = run_whatif(read_study(study), out, jobs=1, resume=True, effects=False)
    assert rest.ran == POINTS - kept
    assert (out / "points.csv").read_bytes() == expected
