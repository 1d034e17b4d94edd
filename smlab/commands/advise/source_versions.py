"""Versions of CUDA C that need nobody's thought: changes made on the syntax tree, loops unrolled or with
their loads batched, pointers that do not overlap, fast math, fewer registers."""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from smlab.commands.advise.batched_loads import batched_loads
from smlab.commands.advise.kernel_advice import COMBINED, RESTRICT, KernelAdvice, SimulatedVersion
from smlab.commands.advise.rewrites.all_rewrites import ADVISED_BY, rewrites_of
from smlab.commands.advise.rewrites.memory import restricted_pointers
from smlab.commands.advise.rewrites.parsed import SourceRewrite, TextEdit, applied, edit_between
from smlab.commands.advise.source_loops import SourceLoop, loop_around, loops_of, unrolled
from smlab.commands.advise.trying import Trial, TrialSource, TriedKernel, simulated
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import source_text
from smlab.hw_bench.sass.image import KernelImage
from smlab.models.advisor.changes.matching import LEAST_SHARE
from smlab.sim.frontends.protocol import KernelSource
from smlab.sim.frontends.registry import load
from smlab.sim.isa.launch.launch_file import LaunchFile, read_launch
from smlab.sim.workloads.workload import blocks_per_sm

FAST_MATH: Final = "-use_fast_math"
RESTRICT_OPTION: Final = "-restrict"
"""In place of `RESTRICT` where that cannot be written into the text. It lets the compiler do less."""
FIRST_FACTOR: Final = 4
"""How far a loop is unrolled first; twice as far, again and again, while that gains, or else half as far."""
LARGEST_FACTOR: Final = 32
LOOPS: Final = 3
"""Loops that are unrolled, those first where warps wait longest."""
WITH_RESTRICT: Final = 3
"""Changes of the tree, the best of each kind, that are tried with pointers that do not overlap as well."""
REGISTER_STEP: Final = 8
"""Registers of a thread are given in such steps."""
SAME: Final = 1.005
"""Versions that differ by less are equally fast; the one with fewer changes is advised."""


@dataclass(frozen=True)
class LoopChange:
    """A loop unrolled by a factor, or, where ``loads`` are named, with these of so many rounds in a batch."""

    loop: SourceLoop
    factor: int
    loads: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        if not self.loads:
            return f"#pragma unroll {self.factor} at line {self.loop.line}"
        what = f"{', '.join(self.loads)} of {self.factor} rounds loaded before their uses"
        return f"{what} at line {self.loop.line}"

    def edits(self, text: str) -> tuple[TextEdit, ...]:
        if not self.loads:
            return (edit_between(text, unrolled(text, self.loop.at, self.factor)),)
        found = batched_loads(text, self.loop.at, self.factor)
        return () if found is None else (edit_between(text, found[0]),)


@dataclass(frozen=True)
class SourceChange:
    """Changes made on the syntax tree, changes of loops, and ``flags``: options of the compiler, and
    `RESTRICT`."""

    loops: tuple[LoopChange, ...] = ()
    flags: tuple[str, ...] = ()
    rewrites: tuple[SourceRewrite, ...] = ()

    @property
    def kind(self) -> str:
        """What is told of it: the loops before the options that they need."""
        if self.rewrites:
            alone = len({r.kind for r in self.rewrites}) == 1 and not self.loops
            alone = alone and all(flag == RESTRICT for flag in self.flags)
            return self.rewrites[0].kind if alone else COMBINED
        if self.loops and any(flag != RESTRICT for flag in self.flags):
            return COMBINED
        if self.loops:
            return "batched-loads" if any(change.loads for change in self.loops) else "unroll"
        if len(self.flags) > 1:
            return COMBINED
        names = {RESTRICT: "restrict", FAST_MATH: "fast-math"}
        return names.get(self.flags[0], "registers") if self.flags else "source"

    @property
    def text(self) -> str:
        return " + ".join(
            [*(r.text for r in self.rewrites), *(change.text for change in self.loops), *self.flags]
        )

    @property
    def stands_in(self) -> str:
        return "; ".join(r.stands_in for r in self.rewrites if r.stands_in)

    def with_loop(self, change: LoopChange) -> SourceChange:
        others = tuple(other for other in self.loops if other.loop != change.loop)
        return replace(self, loops=(*others, change))

    def with_flag(self, flag: str) -> SourceChange:
        return self if flag in self.flags else replace(self, flags=(*self.flags, flag))

    def without_flag(self, flag: str) -> SourceChange:
        return replace(self, flags=tuple(f for f in self.flags if f != flag))

    def beside(self, other: SourceChange) -> SourceChange:
        """Both changes."""
        loops = tuple(c for c in other.loops if all(c.loop != mine.loop for mine in self.loops))
        return SourceChange(
            (*self.loops, *loops),
            tuple(dict.fromkeys((*self.flags, *other.flags))),
            tuple(dict.fromkeys((*self.rewrites, *other.rewrites))),
        )

    def applied_to(self, text: str, others: tuple[TextEdit, ...] = ()) -> str | None:
        """The text with all changes, and ``others``; None where two of them are of one place."""
        edits = [*others, *(edit for rewrite in self.rewrites for edit in rewrite.edits)]
        edits += [edit for change in self.loops for edit in change.edits(text)]
        return applied(text, tuple(edits))

    def restored(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Results as the kernel lays them out."""
        for rewrite in self.rewrites:
            if rewrite.restored is not None:
                arrays = rewrite.restored(arrays)
        return arrays

    def relaunched(self, launch: LaunchFile) -> LaunchFile:
        """The launch that goes with it."""
        for rewrite in self.rewrites:
            if rewrite.relaunched is not None:
                launch = rewrite.relaunched(launch)
        return launch


class SourceVersions:
    """Versions of a kernel whose CUDA C is there. A version whose machine code was tried is not run again;
    those ``gaining`` compute the same faster, ``best`` is the fastest of them; ``seen`` are all that are
    faster and not known to be wrong.

    Raises:
        SmlabError: no CUDA compiler.
    """

    def __init__(self, base: TriedKernel, path: Path, advice: KernelAdvice) -> None:
        self.base = base
        self.path = path
        self.text = source_text(self.path)
        self.loops = self._waiting_loops(advice)
        self._tried = {_code_of(base.run.launch.image)}
        self.rewrites = self._rewrites(advice)
        self._no_overlap = restricted_pointers(self.text, base.run.launch.image.function.name)
        self.best: SourceChange | None = None
        self.fastest = 1.0
        self.gained: dict[SourceChange, float] = {}
        self.gaining: list[SourceChange] = []
        self.seen: dict[SourceChange, float] = {}
        self._tried.add(_code_of(self.compiled(SourceChange())))

    def candidates(self) -> TrialSource:
        """Options of the compiler first, then changes of the tree, each alone: one of each kind in turn, in
        the order of the advice that they are of. Then loops, those with the longest waits first, and
        registers; what gains is kept in those that follow. At last what has gained together."""
        for flag in (RESTRICT, FAST_MATH):
            yield from self._with_flag(flag)
        options = self.best, self.fastest
        for rewrite in self.rewrites:
            yield self._candidate(SourceChange(rewrites=(rewrite,)))
        changed = list(self.gained)
        for change in self._best_of_kinds()[:WITH_RESTRICT]:
            yield self._candidate(change.with_flag(RESTRICT))
        self.best, self.fastest = options
        yield from self._by_compiler()
        yield from self._combined(changed)

    def confirmed(self, base: TriedKernel) -> TrialSource:
        """What gained on a part of the grid, on all of it: the best of each kind, those first that gained
        most, with the best of all."""
        every = self._best_of_kinds()
        self.base = base
        self._tried = {_code_of(base.run.launch.image)}
        self.best, self.fastest, self.gained, self.gaining, self.seen = None, 1.0, {}, [], {}
        for change in every:
            yield self._candidate(change)

    def _best_of_kinds(self) -> list[SourceChange]:
        """Of each kind the fastest version that gains, the fastest first."""
        found: dict[str, SourceChange] = {}
        for change in sorted(self.seen, key=lambda change: (bool(change.stands_in), -self.seen[change])):
            found.setdefault(change.kind, change)
        return sorted(found.values(), key=lambda change: -self.seen[change])

    def _combined(self, changed: list[SourceChange]) -> TrialSource:
        """The fastest change of each kind beside those that are faster, as long as that gains."""
        every = [*changed, *([] if self.best is None else [self.best])]
        every.sort(key=lambda change: -self.gained.get(change, 1.0))
        if not every:
            return
        self.best = every[0]
        self.fastest = self.gained.get(every[0], 1.0)
        kinds = {every[0].kind}
        for change in every[1:]:
            if change.kind not in kinds:
                kinds.add(change.kind)
                yield self._candidate(self.best.beside(change))

    def _by_compiler(self) -> TrialSource:
        for loop in self.loops:
            yield from self._rewritten(loop)
        for registers in self._fewer_registers():
            yield from self._with_flag(f"-maxrregcount={registers}")
        if self.best is not None and len(self.best.flags) + len(self.best.loops) > 1:
            yield from self._each_left_out(self.best)

    def _rewritten(self, loop: SourceLoop) -> TrialSource:
        """A loop with its loads batched, if it is one that can be rewritten, and unrolled."""
        before = self.best or SourceChange()
        found = batched_loads(self.text, loop.at, FIRST_FACTOR)
        if found is not None:
            yield from self._by_factors(before, loop, found[1])
        yield from self._by_factors(before.with_flag(RESTRICT), loop, ())

    def _by_factors(self, before: SourceChange, loop: SourceLoop, loads: tuple[str, ...]) -> TrialSource:
        least, factor, gains = 1.0, FIRST_FACTOR, True
        while gains and factor <= LARGEST_FACTOR:
            done = yield self._candidate(before.with_loop(LoopChange(loop, factor, loads)))
            gains = done is not None and done.results_equal is True and done.speedup > SAME * least
            least = max(least, done.speedup) if gains and done is not None else least
            factor *= 2
        if factor == 2 * FIRST_FACTOR:
            yield self._candidate(before.with_loop(LoopChange(loop, FIRST_FACTOR // 2, loads)))

    def _with_flag(self, flag: str) -> TrialSource:
        """An option alone, which says what it gains by itself, then beside what has gained before."""
        before = self.best or SourceChange()
        done = yield self._candidate(SourceChange(flags=(flag,)))
        if before != SourceChange() and done is not None and done.results_equal and done.speedup > SAME:
            yield self._candidate(before.with_flag(flag))

    def _each_left_out(self, best: SourceChange) -> TrialSource:
        """The best version without one of its changes; where that is as fast, it is the better advice."""
        for flag in best.flags:
            less = (self.best or best).without_flag(flag)
            done = yield self._candidate(less)
            if done is not None and done.results_equal and done.speedup * SAME >= self.fastest:
                self.best = less
        for change in best.loops:
            if len(best.loops) > 1:
                yield self._candidate(replace(best, loops=tuple(c for c in best.loops if c != change)))

    def _fewer_registers(self) -> Iterator[int]:
        """Registers of a thread with which one block more, or twice as many, are resident, where registers
        are what keeps them out."""
        run, gpu = self.base.run, self.base.gpu
        resident = blocks_per_sm(run.lowered.kernel, run.lowered.machine)
        threads = run.launch.threads
        file = gpu.integer("sm.registers")
        if run.launch.blocks <= resident * gpu.integer("gpu.sms"):
            return
        told = set()
        for blocks in (resident + 1, 2 * resident):
            if blocks * threads > 32 * gpu.integer("sm.max_warps"):
                continue
            registers = file // (blocks * threads) // REGISTER_STEP * REGISTER_STEP
            if REGISTER_STEP <= registers < run.launch.image.registers and registers not in told:
                told.add(registers)
                yield registers

    def _waiting_loops(self, advice: KernelAdvice) -> tuple[SourceLoop, ...]:
        """The loops of the text in which warps wait, the longest waits first."""
        blamed, code = advice.blamed, advice.code
        loops = loops_of(self.text)
        if blamed is None or code is None:
            return ()
        waits: dict[SourceLoop, float] = {}
        for b in blamed.blame:
            loop = loop_around(loops, code.instructions[b.stalled].source, self.path.name)
            if loop is not None:
                waits[loop] = waits.get(loop, 0.0) + b.latency
        least = LEAST_SHARE * advice.samples.samples
        order = sorted((loop for loop in waits if waits[loop] > least), key=lambda loop: -waits[loop])
        return tuple(order[:LOOPS])

    def _rewrites(self, advice: KernelAdvice) -> tuple[SourceRewrite, ...]:
        """All changes of the tree: one of each kind, those first that advice comes first for; then the second
        of each kind, and so on."""
        names = [name for one in advice.advice for name in one.names]
        launch = read_launch(self.base.launch_path, self.base.defines)
        found = rewrites_of(self.text, self.base.run.launch.image.function.name, launch)

        def place(rewrite: SourceRewrite) -> int:
            return min((names.index(n) for n in ADVISED_BY[rewrite.kind] if n in names), default=len(names))

        many: dict[str, int] = {}
        numbered = []
        for rewrite in found:
            many[rewrite.kind] = many.get(rewrite.kind, 0) + 1
            numbered.append((many[rewrite.kind], place(rewrite), rewrite))
        return tuple(rewrite for _, _, rewrite in sorted(numbered, key=lambda one: one[:2]))

    def _candidate(self, change: SourceChange) -> Trial:
        return Trial(change.text, change.kind, lambda: self._run(change))

    def _run(self, change: SourceChange) -> SimulatedVersion | None:
        image = self.compiled(change)
        code = _code_of(image)
        if any(rewrite.relaunched is not None for rewrite in change.rewrites):
            code = (change.text, *code)  # another launch
        if code in self._tried:
            return None
        self._tried.add(code)
        done = simulated(
            self.base,
            change.text,
            change.kind,
            kernel=image,
            change=change.relaunched,
            restore=change.restored,
        )
        if (change.stands_in or done.results_equal is not False) and done.speedup > SAME:
            self.seen[change] = done.speedup
        if change.stands_in:
            return replace(done, stands_in=change.stands_in)
        if done.results_equal and done.speedup > SAME:
            self.gaining.append(change)
            self.gained[change] = done.speedup
        if done.results_equal and done.speedup > SAME * self.fastest:
            self.best, self.fastest = change, done.speedup
        return done

    def compiled(self, change: SourceChange) -> KernelImage:
        """The machine code of a version. Its file lies in a folder of its own, and finds its headers where
        the kernel's own are."""
        launch = read_launch(self.base.launch_path, self.base.defines)
        flags = [flag for flag in change.flags if flag != RESTRICT]
        text = change.applied_to(self.text)
        if RESTRICT in change.flags:
            written = change.applied_to(self.text, self._no_overlap) if self._no_overlap else None
            flags += [RESTRICT_OPTION] if written is None else []
            text = written or text
        options = dict(launch.options)
        options["flags"] = shlex.join([*shlex.split(str(options.get("flags", ""))), *flags])
        folders = [self.path.parent, *self.base.how.get("folders", ())]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / self.path.name
            if text is None:
                raise SmlabError.at(str(self.path), "two changes of one place", change.text)
            file.write_text(text)
            source = KernelSource(
                file,
                self.base.gpu.sm_architecture,
                self.base.how.get("name"),
                self.base.defines,
                folders,
                options=options,
            )
            return load(source).image


_LABEL: Final = re.compile(r"`\([^)]*\)")


def _code_of(image: KernelImage) -> tuple[str, ...]:
    """The instructions, without the names of labels."""
    return tuple(_LABEL.sub("", str(i)) for i in image.function.instructions)
