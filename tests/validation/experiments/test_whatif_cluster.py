"""A study on a Dask cluster: a real scheduler and two worker processes on this machine, one of them killed
midway."""

import ctypes
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.validation.experiments.design.study import Study, read_study
from smlab.validation.experiments.run.running import run_whatif

distributed = pytest.importorskip(
    "distributed", reason="Dask's distributed is not installed (smlab[cluster])"
)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ties processes to the test by prctl")

POINTS = 2 * (14 * 10 + 1)
PR_SET_PDEATHSIG = 1


def die_with_the_test() -> None:
    """Asked of the system by a new process before it begins: no scheduler outlives a test that was killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class LocalCluster:
    """A scheduler and two workers with one thread each, on the loopback device, as people start them."""

    def __init__(self, folder: Path) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.log = (folder / "cluster.log").open("wb")
        file = folder / "scheduler.json"
        place = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file)]
        self._start("dask_scheduler", *place, "--port", "0", "--idle-timeout", "120")
        self._wait(file.is_file)
        self.address: str = json.loads(file.read_text())["address"]
        for name in ("first", "second"):
            own = ["--nthreads", "1", "--no-nanny", "--name", name, "--local-directory", str(folder)]
            self._start("dask_worker", *place, *own, "--death-timeout", "30")
        with distributed.Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)

    @property
    def workers(self) -> list[subprocess.Popen[bytes]]:
        return self.processes[1:]

    def close(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()
        self.log.close()

    def _start(self, program: str, *arguments: str) -> None:
        root = str(Path(__file__).parents[3])
        self.processes.append(
            subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{program}", *arguments],
                stdout=self.log,
                stderr=self.log,
                preexec_fn=die_with_the_test,
                env={**os.environ, "PYTHONPATH": root},
            )
        )

    def _wait(self, there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not there():
            assert time.monotonic() < deadline, "the scheduler did not start"
            assert all(process.poll() is None for process in self.processes)
            time.sleep(0.05)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    made = LocalCluster(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def study(tmp_path: Path, long_text: str) -> Study:
    path = tmp_path / "study.toml"
    path.write_text(long_text)
    return read_study(path)


def test_what_is_lost_changes_nothing(cluster: LocalCluster, study: Study, tmp_path: Path) -> None:
    run_whatif(study, tmp_path / "here", jobs=1, effects=False)
    expected = (tmp_path / "here" / "points.csv").read_bytes()
    killed_at: list[int] = []

    def lose_a_worker(done: int, total: int, ran: int) -> None:
        if ran > POINTS // 3 and not killed_at:
            cluster.workers[0].kill()
            killed_at.append(ran)

    out = tmp_path / "worker"
    outcome = run_whatif(study, out, dask=cluster.address, progress=lose_a_worker, effects=False)
    assert killed_at
    assert killed_at[0] < POINTS
    assert cluster.workers[0].wait(10) == -signal.SIGKILL
    assert cluster.workers[1].poll() is None
    assert (outcome.points, outcome.ran) == (POINTS, POINTS)
    assert (out / "points.csv").read_bytes() == expected
    with sqlite3.connect(out / "points.sqlite") as plain:
        assert plain.execute("SELECT DISTINCT runs FROM results").fetchall() == [(1,)]
    plain.close()

    def lose_the_scheduler(done: int, total: int, ran: int) -> None:
        if ran > 10:
            cluster.processes[0].kill()

    out = tmp_path / "scheduler"
    with pytest.raises(SmlabError, match="--dask: the scheduler is gone; what was finished is kept"):
        run_whatif(study, out, dask=cluster.address, progress=lose_the_scheduler, effects=False)
    outcome = run_whatif(study, out, jobs=1, resume=True, effects=False)
    assert 0 < outcome.ran < POINTS
    assert (out / "points.csv").read_bytes() == expected


def test_no_scheduler_at_the_address(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smlab.validation.work.dask_cluster.CONNECT_S", 1)
    for address in ("tcp://127.0.0.1:1", "not an address"):
        with pytest.raises(SmlabError, match="--dask: no Dask scheduler answers there"):
            run_whatif(study, tmp_path / "out", dask=address, resume=True, effects=False)


def test_without_the_package_one_line_says_so(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        SmlabError, match=r"--dask: the package distributed is not installed .*smlab\[cluster\]"
    ):
        run_whatif(study, tmp_path / "out", dask="tcp://127.0.0.1:1", effects=False)
