"""Programs: kernels one after the other, on one memory with one L2.

A kernel that is launched again and again is simulated until two of its launches agree; from then on it is
executed without timing, so that memory is right. A launch agrees with others of the same kernel, shape and
parameters that came after the same launch as it did: the first one finds L2 as another kernel left it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Final

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.constants import Constant
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.sass.linking import readable_name
from smlab.sim.execution import functional
from smlab.sim.execution.run import MachineRun
from smlab.sim.isa.launch.launch import Dim, MachineLaunch
from smlab.sim.isa.memory.global_memory import ContentsBefore, GlobalMemory

if TYPE_CHECKING:
    import pandas as pd

AGREE: Final = 0.01
"""How far two launches that agree may be from each other in cycles, and in warp-instructions."""
GAP: Final = "launch.gap_s"
"""What a description calls the time from a kernel's end to the next one's begin."""


@dataclass(kw_only=True)
class ProgramRow:
    """A kernel of a program: ``launches`` of it, of which ``simulated`` were timed; the others took what the
    last one before them took that agreed with an earlier one.

    ``cycles`` and ``seconds`` are of all its launches in sum, ``cycles_low`` and ``cycles_high`` as in a
    `MachineRun`. ``runs`` are the timed launches in their order, and ``weights`` how many launches each
    stands for. ``steady`` says whether launches agreed.
    """

    kernel: str
    grid: Dim
    block: Dim
    launches: int = 0
    simulated: int = 0
    cycles: float = 0.0
    cycles_low: float = 0.0
    cycles_high: float = 0.0
    seconds: float = 0.0
    steady: bool = False
    runs: list[MachineRun] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)

    def count(self, run: MachineRun, timed: bool) -> None:
        """One launch more, which took what ``run`` took."""
        self.launches += 1
        self.simulated += timed
        self.cycles += run.cycles
        self.cycles_low += run.cycles_low
        self.cycles_high += run.cycles_high
        self.seconds += run.seconds
        if timed:
            self.runs.append(run)
            self.weights.append(0)
        self.weights[next(n for n, one in enumerate(self.runs) if one is run)] += 1

    @property
    def whole(self) -> bool:
        """Whether every block of every launch ran."""
        return all(run.whole for run in self.runs)

    @property
    def cycles_first(self) -> float:
        return self.runs[0].cycles

    @property
    def cycles_last(self) -> float:
        return self.runs[-1].cycles


@dataclass(frozen=True, repr=False)
class ProgramRun:
    """A program on a simulated GPU: a row a kernel, in the order of their first launches.

    ``gap`` is the constant that says what lies between two launches, None where the description has none;
    ``gaps`` is how many there are.
    """

    gpu: str
    rows: tuple[ProgramRow, ...]
    gap: Constant | None

    @property
    def launches(self) -> int:
        return sum(row.launches for row in self.rows)

    @property
    def simulated(self) -> int:
        return sum(row.simulated for row in self.rows)

    @property
    def gaps(self) -> int:
        return max(0, self.launches - 1)

    @property
    def gap_seconds(self) -> float:
        """What all gaps between launches take."""
        return 0.0 if self.gap is None else self.gaps * float(self.gap.value)

    @property
    def kernel_seconds(self) -> float:
        return sum(row.seconds for row in self.rows)

    @property
    def seconds(self) -> float:
        """From the first kernel's begin to the last one's end."""
        return self.kernel_seconds + self.gap_seconds

    @property
    def whole(self) -> bool:
        """Whether every block of every launch was timed."""
        return all(row.whole for row in self.rows)

    @property
    def notes(self) -> tuple[str, ...]:
        """What looks wrong in the kernels, or is not in the times, a line each."""
        told: dict[str, None] = {}
        for row in self.rows:
            told |= {f"{row.kernel}: {note}": None for run in row.runs for note in run.notes}
        if not self.whole:
            told["a part of a grid was simulated: its launch began with an empty L2, and left one"] = None
        if self.gap is None and self.gaps:
            told[f"{self.gpu} has no {GAP}: gaps between launches are not counted"] = None
        return tuple(told)

    def __repr__(self) -> str:
        return (
            f"<{self.launches:,} launches on {self.gpu}, {self.simulated:,} simulated: {self.seconds:.3g} s, "
            f"of them {self.gap_seconds:.3g} s between launches>"
        )

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.to_dataframe().to_html(max_rows=20, border=0)}"

    def to_dataframe(self) -> pd.DataFrame:
        """One row a kernel, with the keys of ``kernels`` in ``smlab run --json``."""
        import pandas as pd

        return pd.DataFrame(self.kernels())

    def kernels(self) -> list[dict[str, object]]:
        """The rows as plain values; ``share`` is a part of the program's time."""
        total = self.seconds or 1.0
        return [
            {
                "kernel": row.kernel,
                "grid": list(row.grid),
                "block": list(row.block),
                "launches": row.launches,
                "simulated": row.simulated,
                "steady": row.steady,
                "cycles": row.cycles,
                "cycles_low": row.cycles_low,
                "cycles_high": row.cycles_high,
                "cycles_first": row.cycles_first,
                "cycles_last": row.cycles_last,
                "seconds": row.seconds,
                "share": row.seconds / total,
            }
            for row in self.rows
        ]


class SimulatedProgram:
    """A program while it is launched, kernel by kernel: ``timed`` runs a launch. Launches lie in
    `next_memory`. Where ``complete``, what a sample leaves out is executed without timing, so that memory
    holds what the whole grid computes. ``incomplete`` counts the launches of which it does not."""

    def __init__(
        self, gpu: Gpu, timed: Callable[[MachineLaunch], MachineRun], *, complete: bool = False
    ) -> None:
        self.gpu = gpu
        self.complete = complete
        self.incomplete = 0
        self.memory = GlobalMemory()
        self._timed = timed
        self._rows: dict[Hashable, ProgramRow] = {}
        self._before: Hashable = None
        self._last: dict[Hashable, MachineRun] = {}
        self._steady: dict[Hashable, MachineRun] = {}
        self._unsteady: set[Hashable] = set()

    def next_memory(self) -> GlobalMemory:
        """The memory for the next launch."""
        return self.memory.after()

    def forget_caches(self) -> None:
        """The next launch finds nothing of its own in L2, as behind a benchmark's flush. That writes more
        than L2 holds, so each line has to be written back before its place is taken."""
        self.memory.l2.overwrite()
        self._before = None

    def launch(self, launch: MachineLaunch, row: Hashable = None) -> MachineRun:
        """Launch a kernel, timed unless launches like it agreed; gives what it took. ``row`` says to which
        row it belongs, by default that of its kernel and shape.

        Raises:
            SmlabError: what the kernel's run says.
        """
        what = _identity(launch)
        place = (self._before, what)
        self._before = what
        name = readable_name(launch.image.function.name)
        key = (name, launch.grid, launch.block) if row is None else row
        told = self._rows.setdefault(key, ProgramRow(kernel=name, grid=launch.grid, block=launch.block))
        steady = self._steady.get(place)
        if steady is not None and any(one is steady for one in told.runs) and self._executed(launch, place):
            told.count(steady, timed=False)
            return steady
        run = self._run(launch)
        last = self._last.get(place)
        if last is not None and place not in self._unsteady and _agree(last, run):
            self._steady[place] = run
            told.steady = True
        self._last[place] = run
        told.count(run, timed=True)
        return run

    def _run(self, launch: MachineLaunch) -> MachineRun:
        """A timed launch. What a sample leaves out is executed where that is asked for, on the memory that
        the sample found."""
        before = ContentsBefore(launch.allocations) if self._completes(launch) else None
        run = self._timed(launch)
        if not run.whole:
            if before is not None:
                before.go_back()
            self._execute_rest(launch)
        return run

    def _completes(self, launch: MachineLaunch) -> bool:
        """Blocks that wait for each other are executed with timing alone."""
        return self.complete and not launch.waits_for_itself

    def _execute_rest(self, launch: MachineLaunch) -> None:
        if self._completes(launch):
            functional.run(launch)
        else:
            self.incomplete += 1

    def _executed(self, launch: MachineLaunch, place: Hashable) -> bool:
        """Execute a launch without timing; whether it did what the steady one did. If not, memory is as it
        was, and its like are timed from now on. Of a kernel that is sampled nothing is executed, or all."""
        steady = self._steady[place]
        if not steady.whole:
            self._execute_rest(launch)
            return True
        wanted = np.array([one.executed for one in steady.instructions], dtype=np.int64)
        before = ContentsBefore(launch.allocations)
        most = 2 * int(wanted.sum()) + functional.SLICE
        try:
            done = functional.run(launch, max_instructions=most).executed
        except SmlabError:  # blocks that wait for each other end only together
            done = np.zeros_like(wanted)
        if np.abs(done - wanted).sum() <= AGREE * wanted.sum():
            return True
        before.go_back()
        del self._steady[place]
        self._unsteady.add(place)
        return False

    @property
    def run(self) -> ProgramRun:
        """What was launched so far."""
        gap = self.gpu.constants[GAP] if self.gpu.has(GAP) else None
        return ProgramRun(self.gpu.name, tuple(self._rows.values()), gap)


def _identity(launch: MachineLaunch) -> Hashable:
    """What tells a launch from others: code, shape, parameters (addresses among them) and constants."""
    digest = hashlib.sha256(np.ascontiguousarray(launch.code_words).tobytes())
    for number, content in sorted(launch.banks.items()):
        digest.update(f"{number} {len(content)} ".encode() + content)
    shape = launch.grid, launch.block, launch.cluster, launch.dynamic_shared_bytes
    return launch.image.function.name, shape, digest.digest()


def _agree(one: MachineRun, other: MachineRun) -> bool:
    """Whether two launches took the same time and executed the same."""
    counts = [np.array([i.executed for i in run.instructions], dtype=np.int64) for run in (one, other)]
    same = np.abs(counts[0] - counts[1]).sum() <= AGREE * counts[0].sum()
    return bool(same) and abs(other.cycles - one.cycles) <= AGREE * one.cycles
