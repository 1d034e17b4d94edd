"""Running the case study: points side by side, each kept as soon as it is done, so that a run can be resumed.

Done points are in ``points.sqlite``, which also says what they depend on (GPU description, sources, seed,
images). Results come in the order of the grid, whatever the order in which points were done, so a run that
was interrupted ends with the same files as one that was not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sources import cache_key, digest_of, package_folder
from smlab.validation.papers.histogram.grid import Spec
from smlab.validation.papers.histogram.images import digest
from smlab.validation.papers.histogram.point import CasePoint, run_point, with_speedups
from smlab.validation.work.runner import Progress, Task, run_tasks
from smlab.validation.work.store import Entry, Store

POINTS: Final = "points.sqlite"


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
    wanted = list(dict.fromkeys(specs))
    done: dict[Spec, CasePoint] = {}
    with ExitStack() as opened:
        store = opened.enter_context(Store(folder / POINTS)) if folder is not None else None
        if store is not None:
            what = "GPU description, simulator, seed or image"
            store.begin(_made_with(gpu, specs, seed), what, resume=resume)
            done = _stored(store, wanted)
        if progress is not None:
            progress(len(done), len(wanted))
        # The large ones first, so that no process is left with one at the end.
        missing = sorted((spec for spec in wanted if spec not in done), key=lambda spec: -spec.pixels)

        def keep(spec: Spec, point: CasePoint) -> None:
            done[spec] = point
            if store is not None:
                store.add([Entry(_key(spec), asdict(spec), point.as_json())])
            if progress is not None:
                progress(len(done), len(wanted))

        tasks = [Task(spec, run_point, (gpu, spec, seed)) for spec in missing]
        run_tasks(tasks, keep, jobs=min(processes, max(1, len(tasks))))
    return with_speedups(done[spec] for spec in specs)


def _stored(store: Store, specs: Iterable[Spec]) -> dict[Spec, CasePoint]:
    keys = {_key(spec): spec for spec in specs}
    try:
        return {keys[key]: CasePoint(**entry.result) for key, entry in store.get(list(keys)).items()}
    except TypeError as error:
        raise SmlabError.at(
            str(store.path), f"not points of this study ({error})", expected="a run without --resume"
        ) from error


def _key(spec: Spec) -> bytes:
    return bytes.fromhex(cache_key(asdict(spec)))


def _made_with(gpu: Gpu, specs: Sequence[Spec], seed: int) -> str:
    """What all points depend on."""
    constants = {key: constant.value for key, constant in gpu.constants.items()}
    images = {name: digest(name) for name in sorted({spec.image for spec in specs})}
    own = {name: text for name, text in images.items() if text}
    return cache_key(gpu.name, constants, _sources(), seed, own)


@cache
def _sources() -> str:
    """A digest of the sources that points depend on."""
    rooms = (package_folder("smlab.sim"), package_folder("smlab.models"))
    tables = package_folder("smlab.validation") / "service_tables.py"
    return digest_of(*rooms, tables, Path(__file__).parent)
