"""Numbers by trying: other launch shapes, macros and sources, simulated beside the kernel, and their results
compared with its own."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections import deque
from collections.abc import Callable, Container, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.commands.advise.kernel_advice import COMBINED, SimulatedVersion, Trials
from smlab.commands.advise.rewrites.all_rewrites import ADVISED_BY
from smlab.commands.advise.rewrites.parsed import Restored
from smlab.commands.arguments import macros_of
from smlab.commands.run.results import result_arrays, same_results
from smlab.commands.run.run import run_file
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.image import KernelImage
from smlab.hw_bench.sass.nvrtc import compiling_within
from smlab.sim import Record
from smlab.sim.execution.run import MachineRun
from smlab.sim.isa.launch.launch_file import LaunchFile, read_launch
from smlab.sim.workloads.workload import blocks_per_sm

SHAPES: Final = ("grid", "block")
"""What ``--try`` takes for the launch; other names are macros."""
SOURCE_KINDS: Final = ("unroll", "batched-loads", "fast-math", "restrict", "registers", *ADVISED_BY)
"""Versions of the same source, for the same grid."""
ANY_ORDER: Final = ("warp-aggregation", "own-counters")
"""Kinds that change the order in which atomics come, so that what they give places to may lie otherwise."""
RECORDED: Final = 500_000
"""Warp-instructions that are recorded for the samples, at most, in each of up to three parts of the grid:
about 0.5 GB. Of a longer run fewer SMs are recorded."""
ROUNDING: Final = 1e-3
"""How far a version's floating-point results may be from the kernel's, as a part of the largest: other orders
of sums, and functions with fewer digits. Told wherever they are not the same bit for bit."""
BLOCK_FACTORS: Final = (0.5, 2.0, 0.25, 4.0)
SIDE_FACTORS: Final = (
    *((4, 4), (8, 4), (2, 2)),  # small blocks
    *((0.5, 1), (2, 1), (1, 0.5), (1, 2), (2, 0.5), (0.5, 2), (4, 0.25), (0.25, 4)),
)
MAX_THREADS: Final = 1024
LANES: Final = 32
PART: Final = "only a part of the grid ran"
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class TriedKernel:
    """The kernel that changes are tried on: how it was run, and what it computed. ``before`` are its arrays
    as they were, ``after`` as it left them. ``cpu_s`` is the CPU time that its run took. ``recorded`` is a
    run of the same launch whose every issue is known, on fewer SMs where all were too much to record."""

    kernel: str
    launch_path: Path
    defines: dict[str, str]
    gpu: Gpu
    how: dict[str, Any]
    run: MachineRun
    recorded: MachineRun
    before: dict[str, np.ndarray]
    after: dict[str, np.ndarray]
    cpu_s: float


def run_and_keep(
    kernel: str,
    path: Path,
    defines: dict[str, str],
    gpu: Gpu,
    how: dict[str, Any],
    all_recorded: bool = False,
) -> TriedKernel:
    """Run the kernel, keep what it computed, and run it once more, recorded: as much as `RECORDED`, or all of
    it for the kernel's page. Where its SMs cannot run side by side, those of its versions do not try it."""
    begun = cpu_s()
    launch = read_launch(path, defines)
    before = result_arrays(launch)
    done = run_file(kernel, launch, gpu, defines=defines, keep=Record.TOTALS, **how)
    after = result_arrays(launch)
    if done.result.runs_serially:
        how = {**how, "threads": 1}
    spent, many = cpu_s() - begun, done.result.warp_instructions
    sms: int | str = "all" if done.whole else done.sms
    if many > RECORDED and not all_recorded:
        sms = max(1, int((gpu.integer("gpu.sms") if done.whole else done.sms) * RECORDED / many))
    again = {**how, "sms": sms}
    recorded = run_file(kernel, read_launch(path, defines), gpu, defines=defines, keep=Record.ALL, **again)
    return TriedKernel(kernel, path, defines, gpu, how, done, recorded, before, after, spent)


def tried_as_asked(base: TriedKernel, what: str) -> SimulatedVersion:
    """What ``--try`` names: a file, or macros and the launch's shape.

    Raises:
        SmlabError: what is neither; a version that cannot be compiled or run.
    """
    if Path(what).is_file():
        return simulated(base, what, "version", kernel=what)
    given = macros_of(
        tuple(what.split(",")), "--try", "a file, or NAME=VALUE,... with grid and block for both"
    )
    shape = {name: _shape_of(name, given.pop(name)) for name in SHAPES if name in given}
    defines = {**base.defines, **given}

    def changed(launch: LaunchFile) -> LaunchFile:
        if "block" in shape and launch.threads is None:
            raise SmlabError.at("--try", "this kernel tells its threads itself", what, "grid alone")
        return dataclasses.replace(
            launch, grid=shape.get("grid", launch.grid), threads=shape.get("block", launch.threads)
        )

    kind = "macros" if given else "+".join(shape)
    return simulated(base, what, kind, defines=defines, change=changed)


def _shape_of(name: str, text: str) -> Shape:
    parts = text.split("x")
    if len(parts) > 3 or not all(re.fullmatch(r"[1-9]\d{0,9}", part) for part in parts):
        raise SmlabError.at(f"--try {name}", "not a shape", text, f"{name}=80 or {name}=8x4x1")
    x, y, z = (int(part) for part in [*parts, "1", "1"][:3])
    return x, y, z


def simulated(
    base: TriedKernel,
    what: str,
    kind: str,
    *,
    kernel: str | KernelImage | None = None,
    defines: dict[str, str] | None = None,
    change: Callable[[LaunchFile], LaunchFile] | None = None,
    restore: Restored | None = None,
) -> SimulatedVersion:
    """A version of the kernel, simulated as the kernel was, and its results compared, in the kernel's layout
    where one ``restore``s it. Of a grid of which a part ran the same blocks run."""
    begun = cpu_s()
    used = base.defines if defines is None else defines
    launch = read_launch(base.launch_path, used)
    if change is not None:
        launch = change(launch)
    if isinstance(kernel, KernelImage):  # compiled with its options
        launch = dataclasses.replace(launch, options={})
    how = {**base.how, "sms": "all" if base.run.whole else base.run.sms}
    done = run_file(kernel or base.kernel, launch, base.gpu, defines=used, keep=Record.TOTALS, **how)
    equal: bool | None = None
    note = PART
    if kind == COMBINED and (done.launch.grid, done.launch.block) == (
        base.run.launch.grid,
        base.run.launch.block,
    ):
        source = True
    else:
        source = kind in SOURCE_KINDS
    alike = source and done.blocks_simulated == base.run.blocks_simulated
    if alike or (done.whole and base.run.whole):
        got = {**launch.constants, **result_arrays(launch)}
        got = got if restore is None else restore(got)
        equal, note = same_results(base.before, base.after, got)
        if equal is not None and not _identical(base.after, got) and (equal or source or kind == COMBINED):
            equal, note = _nearly(base.after, got, note)
        if equal is False and kind in ANY_ORDER and _same_values(base.after, got):
            equal, note = True, "the same values in another order"
    return SimulatedVersion(
        what=what,
        cycles=done.cycles,
        speedup=base.run.cycles / done.cycles,
        kind=kind,
        grid=done.launch.grid,
        block=done.launch.block,
        results_equal=equal,
        note=note,
        cpu_s=cpu_s() - begun,
    )


def _identical(wanted: dict[str, np.ndarray], got: dict[str, np.ndarray]) -> bool:
    """Whether all results are the same bit for bit."""
    return all(np.asarray(got[name]).tobytes() == array.tobytes() for name, array in wanted.items())


def _same_values(wanted: dict[str, np.ndarray], got: dict[str, np.ndarray]) -> bool:
    """Whether arrays hold the same values, each as often."""
    pairs = ((array.reshape(-1), np.asarray(got[name]).reshape(-1)) for name, array in wanted.items())
    return all(a.size == b.size and np.array_equal(np.sort(a), np.sort(b), equal_nan=True) for a, b in pairs)


def _nearly(wanted: dict[str, np.ndarray], got: dict[str, np.ndarray], note: str) -> tuple[bool, str]:
    """Whether results differ by rounding alone, and by how much."""
    most = 0.0
    for name, array in wanted.items():
        found, mine = np.asarray(got[name]).reshape(-1), array.reshape(-1)
        if mine.dtype.kind != "f" or found.size != mine.size:
            if found.size != mine.size or not np.array_equal(found, mine):
                return False, note
            continue
        if not np.array_equal(np.isfinite(found), np.isfinite(mine)):
            return False, note
        finite = np.isfinite(mine)
        off = np.abs(found[finite].astype(float) - mine[finite]).max(initial=0.0)
        most = max(most, off / max(float(np.abs(mine[finite]).max(initial=0.0)), 1e-30))
    return (True, f"results differ by up to {most:.0e} of the largest") if most <= ROUNDING else (False, note)


@dataclass(frozen=True)
class Trial:
    """A change that could be tried; ``simulate`` gives None where its machine code is one that was tried."""

    what: str
    kind: str
    simulate: Callable[[], SimulatedVersion | None]


TrialSource = Generator[Trial, SimulatedVersion | None, None]
"""Changes one after the other, each chosen by what came of those before: None where that was not run."""


class TrialBudget:
    """Changes that are simulated while there is CPU time for them, child processes included.

    ``budget_s`` are counted from ``since_s`` (of `cpu_s`); a change is expected to take ``longest_s``, until
    one has taken longer.
    """

    def __init__(self, budget_s: float, since_s: float, longest_s: float) -> None:
        self._budget_s, self._since_s, self._longest_s = budget_s, since_s, longest_s
        self._begun = cpu_s()
        self.versions: list[SimulatedVersion] = []
        self.refused: list[str] = []
        self.late: list[str] = []
        self.note = ""

    def try_in_turn(self, sources: Iterable[TrialSource]) -> None:
        """One change of each source in turn, so that none takes all of the time. A change is begun if the
        longest one so far would still end in time."""
        waiting: deque[tuple[TrialSource, SimulatedVersion | None]] = deque((s, None) for s in sources)
        while waiting:
            source, last = waiting.popleft()
            try:
                candidate = source.send(last)
            except StopIteration:
                continue
            waiting.append((source, self._try(candidate)))

    def _try(self, candidate: Trial) -> SimulatedVersion | None:
        started = cpu_s()
        left_s = self._budget_s - (started - self._since_s)
        if self._longest_s > left_s:
            self.late.append(candidate.what)
            return None
        try:
            with compiling_within(left_s):  # a loop of many rounds, unrolled, can take minutes
                version = candidate.simulate()
        except SmlabError:
            self.refused.append(candidate.what)
            return None
        finally:
            self._longest_s = max(self._longest_s, cpu_s() - started)
        if version is not None:
            self.versions.append(version)
        return version

    def trials(self) -> Trials:
        spent = cpu_s() - self._begun
        return Trials(tuple(self.versions), spent, tuple(self.refused), tuple(self.late), self.note)


def cpu_s() -> float:
    """CPU time of this process and of those that it started: the compiler is one."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def fastest_of(versions: Iterable[SimulatedVersion], kinds: Container[str]) -> SimulatedVersion | None:
    """The fastest version of some kinds that gains and computes the same."""
    gaining = [v for v in versions if v.kind in kinds and v.results_equal and v.speedup > 1]
    return max(gaining, key=lambda v: v.speedup, default=None)


def shape_candidates(base: TriedKernel) -> TrialSource:
    """Other launch shapes: more blocks, as many as make the GPU full; then, with the best of them, as many
    threads in other blocks; of a grid or block of two axes as many threads in blocks of other sides. Where
    fewer threads have left work undone, none with fewer are tried. None at all where the kernel tells its own
    threads, or where a part of the grid ran."""
    launch = read_launch(base.launch_path, base.defines)
    if launch.threads is None or not base.run.whole:
        return
    if launch.grid[1:] != (1, 1) or launch.threads[1:] != (1, 1):
        for what in list(_sides(launch.grid, launch.threads)):
            yield Trial(what, "grid+block", lambda what=what: tried_as_asked(base, what))  # type: ignore[misc]
        return
    best = base.run.launch.grid[0], base.run.launch.block[0]
    fastest, fewest = 1.0, 0
    for shapes in (_grids, _blocks):
        for grid, block in sorted(shapes(base, best), reverse=True):
            if grid * block < fewest:
                continue
            what = f"grid={grid}" if shapes is _grids else f"block={block},grid={grid}"
            kind = "grid" if shapes is _grids else "grid+block"
            version = yield Trial(what, kind, lambda what=what: tried_as_asked(base, what))  # type: ignore[misc]
            if version is not None and version.results_equal is False:
                fewest = max(fewest, grid * block + 1)
            if version is not None and version.results_equal and version.speedup > fastest:
                fastest, best = version.speedup, (grid, block)


def _grids(base: TriedKernel, shape: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """One block for each SM, then two, four and so on until the GPU is full."""
    sms = base.gpu.integer("gpu.sms")
    room = blocks_per_sm(base.run.lowered.kernel, base.run.lowered.machine)
    each = 1
    while each <= room:
        if each * sms != shape[0]:
            yield each * sms, shape[1]
        each *= 2


def _sides(grid: Shape, block: Shape) -> Iterator[str]:
    """As many threads in blocks of other sides."""
    for x, y in SIDE_FACTORS:
        sides = int(block[0] * x), int(block[1] * y), block[2]
        threads = math.prod(sides)
        if min(sides) >= 1 and LANES <= threads <= MAX_THREADS and threads % LANES == 0:
            many = math.ceil(grid[0] * block[0] / sides[0]), math.ceil(grid[1] * block[1] / sides[1]), grid[2]
            yield f"block={'x'.join(map(str, sides))},grid={'x'.join(map(str, many))}"


def _blocks(base: TriedKernel, shape: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """As many threads in smaller and larger blocks; and as many blocks of another size, for kernels whose
    blocks have a row each that their threads go along."""
    for factor in BLOCK_FACTORS:
        block = int(shape[1] * factor)
        if LANES <= block <= MAX_THREADS and block % LANES == 0:
            yield math.ceil(shape[0] * shape[1] / block), block
            yield shape[0], block
