"""Worker processes: they do what they are given, die singly, and never outlive who started them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import DEVNULL

import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.validation.work.interface import WorkerLost
from smlab.validation.work.processes import Processes
from smlab.validation.work.runner import Inline, Task, completed, open_workers, run_tasks

RAISES = "from smlab.hw_bench.errors import SmlabError; raise SmlabError('a: b')"


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    made = Processes(2)
    yield made
    made.close(at_once=False)
    assert not made._workers


def outcome(workers: Processes, ticket: int) -> object:
    deadline = time.monotonic() + 60
    while ticket not in workers.finished([ticket]):
        assert time.monotonic() < deadline
    return workers.result(ticket)


def test_results_and_errors_come_back(processes: Processes) -> None:
    big = processes.submit(bytes, 3_000_000)
    assert outcome(processes, processes.submit(divmod, 7, 2)) == (3, 1)
    assert outcome(processes, big) == bytes(3_000_000)
    with pytest.raises(ZeroDivisionError) as error:
        outcome(processes, processes.submit(divmod, 7, 0))
    assert "in a worker process" in error.value.__notes__[0]
    with pytest.raises(SmlabError, match="^a: b$"):
        outcome(processes, processes.submit(exec, RAISES))
    with pytest.raises(RuntimeError, match="cannot be sent"):
        outcome(processes, processes.submit(exec, "class E(Exception): pass\nraise E('cannot be sent')"))


def test_a_worker_that_dies_costs_its_task_and_is_replaced(processes: Processes) -> None:
    lost, kept = processes.submit(os._exit, 1), processes.submit(abs, -2)
    with pytest.raises(WorkerLost):
        outcome(processes, lost)
    assert outcome(processes, kept) == 2
    for worker in processes._workers:  # idle ones
        worker.process.kill()
        worker.process.wait()
    assert outcome(processes, processes.submit(abs, -3)) == 3


def test_workers_that_only_die_are_given_up(processes: Processes) -> None:
    with pytest.raises(SmlabError, match="died 5 times in a row and finished nothing"):
        for _ in completed(processes, [Task("poison", os._exit, (1,))]):
            pass
    processes._deaths = 0


def test_leaving_by_an_error_does_not_wait() -> None:
    def failing() -> None:
        with open_workers(2) as workers:
            workers.submit(time.sleep, 60)
            raise KeyError

    began = time.monotonic()
    with pytest.raises(KeyError):
        failing()
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_task_is_done_once_whatever_the_workers(jobs: int) -> None:
    found: list[tuple[int, int]] = []
    told: list[tuple[int, int]] = []
    tasks = [Task(number, abs, (-number,)) for number in range(20)]
    run_tasks(
        tasks, lambda key, value: found.append((key, value)), jobs=jobs, progress=lambda *n: told.append(n)
    )
    assert sorted(found) == [(number, number) for number in range(20)]
    assert told == [(number, 20) for number in range(1, 21)]


def test_tasks_are_taken_as_places_come_free() -> None:
    taken: list[int] = []

    def tasks() -> Iterator[Task[int]]:
        for number in range(9):
            taken.append(number)
            yield Task(number, abs, (number,))

    done = completed(Inline(), tasks())
    next(done)
    assert taken == [0, 1]
    assert [task.key for task, _ in done] == list(range(1, 9))


def test_no_jobs_are_refused() -> None:
    with pytest.raises(SmlabError, match="jobs: out of range"), open_workers(0):
        pass


PARENT = """
import sys
from smlab.validation.work.runner import Task, run_tasks

if sys.argv[1] == "begin":  # killed while its workers begin
    print("ready", flush=True)
tasks = [Task("first", abs, (1,))] + [Task(n, exec, ("while True: pass",)) for n in range(4)]
run_tasks(tasks, lambda *_: print("ready", flush=True), jobs=2)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")
@pytest.mark.parametrize("when", ["begin", "work"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_worker_outlives_its_parent_by_two_seconds(tmp_path: Path, when: str, how: signal.Signals) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    command = [sys.executable, str(script), when]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=DEVNULL, start_new_session=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        if when == "begin":
            time.sleep(0.4)
        parent.send_signal(how)  # to the parent alone
        parent.wait(20)
    deadline = time.monotonic() + 2
    while group := members(parent.pid):
        assert time.monotonic() < deadline, f"left behind: {group}"
        time.sleep(0.05)


def members(session: int) -> dict[int, str]:
    """The living processes of a session, with their command lines."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                state, *fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                if int(fields[2]) == session and state != "Z":
                    found[int(folder.name)] = (folder / "cmdline").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found
