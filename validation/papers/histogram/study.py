"""Running the case study: points side by side, each kept as soon as it is done, so that a run can be gone on
with.

Done points are lines of ``points.jsonl``, each appended in one write; a line that a kill cut off is dropped.
The first line says what the points depend on (GPU description, sources, seed, images). Results come in the
order of the grid, whatever the order in which points were done, so a run that was interrupted ends with the
same files as one that was not.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.validation.papers.histogram.grid import Spec
from smlab.validation.papers.histogram.images import digest
from smlab.validation.papers.histogram.point import CasePoint, run_point, with_speedups

from smlab import models, sim

Progress = Callable[[int, int], None]

POINTS = "points.jsonl"
FORMAT = "smlab case histogram, version 1"


def run_study(
    gpu: Gpu,
    specs: Sequence[Spec],
    *,
    folder: Path | None = None,
    resume: bool = False,
    seed: int = 0,
    processes: int = 1,
    progress: Progress | None = None,
) -> list[CasePoint]:
    """Simulate the points of ``specs``, in their order, with speedups; equal arguments give equal results.

    With a ``folder``, points are kept there as they are done; with ``resume``, those that are there already
    are not run again. `SmlabError` where the folder holds points of another description, simulator, seed or
    image.
    """
    store = Store(folder, _key(gpu, specs, seed)) if folder is not None else None
    done = store.begin(resume) if store is not None else {}
    missing = [spec for spec in dict.fromkeys(specs) if spec not in done]
    total = len(set(specs))
    if progress is not None:
        progress(total - len(missing), total)
    # The large ones first, so that no process is left with one at the end.
    missing.sort(key=lambda spec: -spec.pixels)
    with _running(gpu, missing, seed, processes) as results:
        for point in results:
            done[point.spec] = point
            if store is not None:
                store.add(point)
            if progress is not None:
                progress(sum(spec in done for spec in set(specs)), total)
    return with_speedups(done[spec] for spec in specs)


@contextmanager
def _running(gpu: Gpu, specs: Sequence[Spec], seed: int, processes: int) -> Iterator[Iterator[CasePoint]]:
    """The points as they are done. Leaving early (an error, Ctrl-C) ends the processes."""
    if processes == 1 or len(specs) <= 1:
        yield (run_point(gpu, spec, seed) for spec in specs)
        return
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_begin, initargs=(gpu,))
    try:
        waiting = [pool.submit(_point_here, spec, seed) for spec in specs]
        yield (future.result() for future in as_completed(waiting))
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


_here: list[Gpu] = []
"""The GPU of this process: one object, so that its service tables are simulated once and not for every
point."""


def _begin(gpu: Gpu) -> None:
    """What a process does first. Ctrl-C goes to all processes of the terminal; the first one decides."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _here[:] = [gpu]


def _point_here(spec: Spec, seed: int) -> CasePoint:
    return run_point(_here[0], spec, seed)


class Store:
    """The points that are done, in a folder."""

    def __init__(self, folder: Path, key: str) -> None:
        self.path = folder / POINTS
        self.head = {"format": FORMAT, "key": key}

    def begin(self, resume: bool) -> dict[Spec, CasePoint]:
        """The points that are there already, none without ``resume``; the file is ready for more."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if resume and self.path.exists():
                return self._read()
            self.path.write_text(json.dumps(self.head) + "\n", encoding="utf-8")
        except OSError as error:
            raise SmlabError(f"{self.path}: cannot be used: {error}") from error
        return {}

    def add(self, point: CasePoint) -> None:
        """Append one point, in one write."""
        line = (json.dumps(point.as_json()) + "\n").encode()
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(handle, line)
        finally:
            os.close(handle)

    def _read(self) -> dict[Spec, CasePoint]:
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        lines = whole.splitlines()
        try:
            head = json.loads(lines[0]) if lines else {}
            points = [CasePoint(**json.loads(line)) for line in lines[1:]]
        except (ValueError, TypeError) as error:
            raise SmlabError.at(
                str(self.path), f"not points of this study ({error})", expected="a run without --resume"
            ) from error
        if lines and head != self.head:
            raise SmlabError.at(
                str(self.path),
                "made with another GPU description, simulator, seed or image",
                expected="a run without --resume, or another --out",
            )
        if not lines:
            whole = (json.dumps(self.head) + "\n").encode()
        if whole != content:
            beside = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
            beside.write_bytes(whole)
            beside.replace(self.path)
        return {point.spec: point for point in points}


def _key(gpu: Gpu, specs: Sequence[Spec], seed: int) -> str:
    constants = {key: constant.value for key, constant in gpu.constants.items()}
    images = {name: digest(name) for name in sorted({spec.image for spec in specs})}
    own = {name: text for name, text in images.items() if text}
    text = json.dumps([gpu.name, constants, _sources(), seed, own], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def _sources() -> str:
    """A digest of the sources that points depend on."""
    found = hashlib.sha256()
    for root in (Path(sim.__file__).parent, Path(models.__file__).parent, Path(__file__).parent):
        for path in sorted(root.rglob("*.py")):
            found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:16]
