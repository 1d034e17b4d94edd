"""Commands killed at random moments, ten times by each signal: nothing outlives them, what they keep is sane,
and what they say in the end is what they would have said.

Seeded; 180 kills:

    pytest --thorough tests/smlab/test_killed_commands.py

A command goes on where it was killed, ten times over, and then to its end. `run` compiles the engine
meanwhile, into a cache of its own.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibration_trials import SMALL
from smlab.examples import KERNEL, KERNEL_LAUNCH, TUNING_SPACE
from smlab.hw_bench.files import cache_folder
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.calibrate.simulated import write_simulated
from whole_files import KTT

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc"),
]
KILLS = 10
ENDS_S = 20.0
"""In which a command must have ended after a signal, on a busy machine."""
ORPHAN_S = 2.0
LONG_S = 1800.0
STUDY = """
title = "killed"
responses = ["cycles", "utilization"]
[base]
gpu = "v100"
workload = "atomics"
set.iterations = 2000
[factors]
warps = { range = [1, 32], levels = 32 }
gpu.atomic.add.latency_cycles = { range = [10, 100], levels = 91 }
[design]
kind = "grid"
"""


@dataclass(frozen=True)
class KilledCommand:
    """A command in a folder; ``made`` gives what must be equal in the end. ``span_s``
    is about the time from one kill to the next at most."""

    arguments: tuple[str, ...]
    made: Callable[[Path, str], Any]
    span_s: float
    compiles: bool = False


def table_of(folder: Path, _: str) -> Any:
    return (folder / "out" / "points.csv").read_bytes()


def ranking_of(folder: Path, _: str) -> Any:
    return (folder / "out" / "ranking.csv").read_bytes()


def metrics_of(folder: Path, _: str) -> Any:
    metrics = json.loads((folder / "out" / "metrics.json").read_text())
    del metrics["provenance"]  # date and commit
    return metrics


def said(_: Path, out: str) -> Any:
    return json.loads(out)


def description_of(folder: Path, _: str) -> Any:
    return (folder / "found.toml").read_bytes(), (folder / "cases.csv").read_bytes()


def result_of(folder: Path, out: str) -> Any:
    with np.load(folder / "out.npz") as arrays:
        found = {name: arrays[name].tolist() for name in arrays.files}
    document = json.loads(out)
    del document["wall_s"]  # how long it took to simulate
    return found, (folder / "counters.csv").read_bytes(), document


JOBS = {
    "validate": KilledCommand(
        ("validate", "--quick", "--resume", "--jobs", "2", "--out", "out"), metrics_of, 12.0
    ),
    "port tune": KilledCommand(
        ("port", "tune", "here.json", "--truth", "there.json", "--from", "v100", "--to", "t4", "--json"),
        said,
        4.0,
    ),
    "bench calibrate": KilledCommand(
        ("bench", "calibrate", "set", "--gpu", "a100-40", "--out", "found.toml", "--cases", "cases.csv"),
        description_of,
        6.0,
    ),
    "whatif": KilledCommand(
        ("whatif", "study.toml", "--resume", "--jobs", "2", "--out", "out"), table_of, 4.0
    ),
    "tune": KilledCommand(("tune", "space.toml", "--resume", "--jobs", "2", "--out", "out"), ranking_of, 5.0),
    "run": KilledCommand(
        (
            *("run", str(KERNEL), "--launch", str(KERNEL_LAUNCH), "--result", "out.npz"),
            *("--counters", "counters.csv", "--json"),
        ),
        result_of,
        8.0,
        compiles=True,
    ),
}
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def prepare(folder: Path) -> None:
    """What the commands read."""
    (folder / "study.toml").write_text(STUDY)
    (folder / KERNEL.name).write_bytes(KERNEL.read_bytes())
    (folder / "space.toml").write_text(TUNING_SPACE.read_text().replace("65536", "1048576"))
    for name, factor in (("here", 1.0), ("there", 0.8)):
        space = json.loads(json.dumps(KTT))
        for n, result in enumerate(space["Results"] * 1):
            result["ComputationResults"][0]["Duration"] *= factor + 0.01 * n
        (folder / f"{name}.json").write_text(json.dumps(space))


def started(job: KilledCommand, folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    engine = folder / "cache" / "smlab" / "engine"
    if not job.compiles and not engine.is_symlink():
        engine.parent.mkdir(parents=True)
        engine.symlink_to(cache_folder("engine"))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "smlab.cli", *job.arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def in_session(leader: int) -> list[str]:
    """Living processes of a session but its leader."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            head, _, rest = stat.read_text().rpartition(")")
            state, _, _, session = rest.split()[:4]
            if int(session) == leader and state != "Z" and int(stat.parent.name) != leader:
                found.append(f"{stat.parent.name} {head.partition('(')[2]}")
    return found


def killed(job: KilledCommand, folder: Path, how: signal.Signals, after_s: float) -> str | None:
    """Start the command and kill it: what was wrong, empty where nothing; None where it ended before."""
    process = started(job, folder)
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        process.send_signal(how)
    else:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
        return None
    try:
        _, errors = process.communicate(timeout=ENDS_S)
    except subprocess.TimeoutExpired:
        left = in_session(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"{how.name} after {after_s:.2f} s: did not end; {left}"
    if process.returncode == 0:
        return None
    until = time.monotonic() + ORPHAN_S
    while (left := in_session(process.pid)) and time.monotonic() < until:
        time.sleep(0.02)
    wrong = [f"left behind: {name}" for name in left]
    expected = {
        signal.SIGTERM: (143, -signal.SIGTERM),
        signal.SIGINT: (130, -signal.SIGINT),
        signal.SIGKILL: (-signal.SIGKILL,),
    }[how]
    if process.returncode not in expected:
        wrong.append(f"status {process.returncode}")
    if "Traceback" in errors or "defect" in errors:
        wrong.append(errors[-1500:])
    if how != signal.SIGKILL:
        wrong += [f"half a file: {path}" for path in folder.rglob("*.part*")]
    return f"{how.name} after {after_s:.2f} s: {'; '.join(wrong)}" if wrong else ""


def insane(folder: Path) -> list[str]:
    """Stores that are damaged."""
    found = []
    for path in folder.rglob("*.sqlite"):
        with contextlib.closing(sqlite3.connect(path, timeout=30)) as store:
            told = store.execute("PRAGMA integrity_check").fetchone()[0]
            if told != "ok":
                found.append(f"{path}: {told}")
    return found


def to_its_end(job: KilledCommand, folder: Path) -> Any:
    process = started(job, folder)
    out, errors = process.communicate(timeout=LONG_S)
    assert process.returncode == 0, errors
    assert "damaged" not in errors
    return job.made(folder, out)


@pytest.fixture(scope="module")
def data_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("simulated") / "set"
    write_simulated(folder, load_gpu("a100-40"), profile=SMALL, noise=0.01)
    return folder


@pytest.mark.parametrize("name", JOBS)
def test_killed_at_random_and_equal_in_the_end(
    name: str,
    data_set: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    record_property: Callable[[str, object], None],
) -> None:
    job, wrong, counts = JOBS[name], [], Counter[str]()
    whole: Any = None
    for how in SIGNALS:
        folder = tmp_path / how.name
        folder.mkdir()
        prepare(folder)
        shutil.copytree(data_set, folder / "set")
        rng = random.Random(f"{name} {how.name}")
        while counts[how.name] < KILLS:
            told = killed(job, folder, how, rng.uniform(0.05, job.span_s))
            if told is None:  # it ended: its work begins anew, with what it has learned
                counts["ended before"] += 1
                shutil.rmtree(folder / "out", ignore_errors=True)
                assert counts["ended before"] < 20 * KILLS
                continue
            counts[how.name] += 1
            wrong += [told] if told else []
            wrong += insane(folder)
        resumed = to_its_end(job, folder)
        if whole is None:
            undisturbed = tmp_path / "whole"
            undisturbed.mkdir()
            prepare(undisturbed)
            shutil.copytree(data_set, undisturbed / "set")
            whole = to_its_end(job, undisturbed)
        if resumed != whole:
            wrong.append(f"{how.name}: what it made in the end is not equal")
        counts["half files of SIGKILL"] += len(list(folder.rglob("*.part*")))
    record_property("counts", dict(counts))
    with capsys.disabled():
        print(f"{name}: {dict(counts)}, {len(wrong)} wrong")
    assert not wrong, "\n".join(wrong)
