"""The machine-code contract: every kernel's timed regions are what the benchmark says that it times.

A benchmark that times something else than it claims is worse than none, and compilers rewrite atomics freely:
they merge the lanes of a warp, replace one instruction by another, unroll, or move work into the timed
region. `check` looks at the machine code itself; `check_all` does so for all kernels and architectures, with
no GPU.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from smlab.hw_bench.cuda import registry
from smlab.hw_bench.cuda.contract import dependence
from smlab.hw_bench.cuda.contract.compiler import Compiled, compile_kernel, find_disassembler, linker_release
from smlab.hw_bench.cuda.contract.regions import TimedRegion, timed_regions
from smlab.hw_bench.cuda.kernels.spec import ARCHITECTURES, LATER, KernelSpec, Timed, number
from smlab.hw_bench.cuda.toolkit import package_versions, require_compiler
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import cache_folder, write_atomic
from smlab.hw_bench.sass import ControlFlow, SassInstruction
from smlab.hw_bench.sources import cache_key, digest_of

_MEMORY: Final = (
    "LD",
    "LDG",
    "LDS",
    "LDL",
    "LDSM",
    "LDGSTS",
    "ST",
    "STG",
    "STS",
    "STL",
    "TEX",
    "TLD",
    "SULD",
    "SUST",
)
_ATOMIC: Final = (
    "ATOM",
    "ATOMG",
    "ATOMS",
    "RED",
    "REDG",
    "MEMBAR",
    "FENCE",
    "ERRBAR",
    "CCTL",
    "QSPC",
    "DEPBAR",
)
_WARP_WIDE: Final = ("SHFL", "VOTE", "VOTEU", "MATCH", "REDUX", "WARPSYNC", "NANOSLEEP", "BAR")
_LEAVING: Final = ("CALL", "RET", "JMP", "BRX", "JMX", "BPT")
_WATCHED: Final = frozenset((*_MEMORY, *_ATOMIC, *_WARP_WIDE, *_LEAVING))
"""Instructions that must not be in a timed region unless the contract asks for them."""
_NOWHERE: Final = ("LDL", "STL")
"""Instructions that no benchmark may have anywhere: local memory (spills)."""


@dataclass(frozen=True)
class ContractResult:
    """Whether one kernel's machine code for one architecture is what the benchmark declares.

    ``found`` and ``expected`` describe the timed regions in words; ``message`` says what is wrong, or is
    empty. ``code_sha256`` digests the instructions alone, ``cubin_sha256`` the whole file.
    """

    benchmark: str
    kernel: str
    architecture: str
    ok: bool
    found: str
    expected: str
    message: str
    registers: int
    cubin_sha256: str
    code_sha256: str


def check(spec: KernelSpec, compiled: Compiled) -> ContractResult:
    """Hold the machine code of one kernel against what its benchmark declares."""
    expected = spec.expect(number(compiled.architecture))
    flow = ControlFlow(compiled.function)
    faults = [
        f"{name} in the kernel ({len(there)} times)"
        for name in _NOWHERE
        if (there := compiled.function.find(name))
    ]
    if flow.calls:
        faults.append(f"{len(flow.calls)} calls in the kernel")
    if compiled.local_bytes:
        faults.append(f"{compiled.local_bytes} bytes of stack or spills")
    summaries: list[str] = []
    regions: tuple[TimedRegion, ...] = ()
    try:
        regions = timed_regions(flow)
    except SmlabError as error:
        faults.append(str(error))
    open_ones = [timed for timed in expected if timed.part != "kernel"]
    for timed in expected:
        if timed.part == "kernel":
            code = _reachable(flow)
            summaries.append(_summary(code, timed.counts))
            faults.extend(_miscounted(code, timed))
    for region in regions:
        if left := dependence.undrained(flow, region.start):
            operation = f"{left[0].mnemonic} at {left[0].address:#x} may not be done"
            faults.append(f"{operation} when the clock starts at {region.start.address:#x}")
        summaries.append(_describe(flow, region, {name for timed in expected for name in timed.counts}))
        trials = [(timed, _faults(flow, region, timed)) for timed in open_ones]
        fitting = [timed for timed, wrong in trials if not wrong]
        if fitting:
            open_ones.remove(fitting[0])
        elif trials:
            timed, wrong = min(trials, key=lambda trial: len(trial[1]))
            open_ones.remove(timed)
            faults.append(f"{timed.name} at {region.start.address:#x}: {', '.join(wrong)}")
        else:
            faults.append(f"a timed region too many at {region.start.address:#x}")
    faults.extend(f"no timed region for {timed.name}" for timed in open_ones)
    return ContractResult(
        benchmark=spec.benchmark,
        kernel=spec.name,
        architecture=compiled.architecture,
        ok=not faults,
        found="; ".join(summaries),
        expected="; ".join(map(_wanted, expected)),
        message="; ".join(faults),
        registers=compiled.registers,
        cubin_sha256=compiled.cubin_sha256,
        code_sha256=compiled.code_sha256,
    )


def _body(flow: ControlFlow, region: TimedRegion, timed: Timed) -> tuple[SassInstruction, ...] | None:
    """What the contract counts; None when it wants a loop and there is not exactly one."""
    if timed.part == "between":
        return region.instructions
    loops = region.loops(flow)
    return flow.loop_instructions(loops[0]) if len(loops) == 1 else None


def _faults(flow: ControlFlow, region: TimedRegion, timed: Timed) -> list[str]:
    body = _body(flow, region, timed)
    if body is None:
        return [f"{len(region.loops(flow))} loops between the clock reads where one was expected"]
    executed = [i for i in body if not i.never_executed]
    faults = _miscounted(executed, timed)
    if timed.waits_for and not _waited_for(region, timed.waits_for):
        faults.append(f"the second clock read does not wait for {timed.waits_for}")
    return [*faults, *_dependences(flow, region, timed, executed)]


def _dependences(
    flow: ControlFlow, region: TimedRegion, timed: Timed, executed: Sequence[SassInstruction]
) -> list[str]:
    """Where instructions do not wait for what they must, or do for what they must not."""
    faults = []
    if timed.chained:
        unchained = dependence.unchained(executed, timed.chained, looped=timed.part == "loop")
        if unchained:
            faults.append(f"{len(unchained)} {timed.chained} do not wait for the one before")
    if timed.independent:
        names = [i for i in executed if i.is_a(timed.independent)]
        free = dependence.unchained(executed, timed.independent, looped=False)
        if len(free) < len(names) - 1:
            faults.append(f"{len(names) - 1 - len(free)} {timed.independent} wait for the one before")
    if timed.unhindered:
        for waiting in dependence.waiting_inside(region, timed.unhindered)[:1]:
            faults.append(f"{waiting.mnemonic} at {waiting.address:#x} waits for an {timed.unhindered}")
    if timed.anywhere:
        known = dependence.known_addresses(flow, executed, timed.anywhere)
        if known:
            faults.append(f"{len(known)} {timed.anywhere} have an address that is known beforehand")
    if timed.step is not None:
        steps = dependence.steps(flow, executed)
        if steps != {timed.step}:
            counted_by = " and ".join(map(str, sorted(steps))) or "nothing that can be read"
            faults.append(f"the loop counts by {counted_by} where {timed.step} expected")
    return faults


def _reachable(flow: ControlFlow) -> list[SassInstruction]:
    """What the kernel may execute, by address."""
    code = [i for block in flow.reachable for i in flow.blocks[block].instructions]
    return sorted((i for i in code if not i.never_executed), key=lambda i: i.address)


def _miscounted(executed: Sequence[SassInstruction], timed: Timed) -> list[str]:
    """Where the instructions are not as many as they must be."""
    faults = []
    counted: set[int] = set()
    for name, count in timed.counts.items():
        matching = [i for i in executed if i.is_a(name)]
        counted.update(i.address for i in matching)
        if len(matching) not in count:
            faults.append(f"{len(matching)} {name} where {count} expected")
    rest = [i for i in executed if i.address not in counted]
    for name in sorted({i.mnemonic for i in rest if i.opcode in _WATCHED}):
        faults.append(f"{name} is not allowed")
    others = [i for i in rest if i.opcode not in _WATCHED]
    if len(others) > timed.others:
        faults.append(f"{len(others)} other instructions where up to {timed.others} expected")
    return faults


def _waited_for(region: TimedRegion, name: str) -> bool:
    """Whether the last such instruction sets a scoreboard that something behind it waits for, the end
    included."""
    matching = [i for i in region.instructions if i.is_a(name)]
    if not matching or matching[-1].control is None or matching[-1].control.write_barrier is None:
        return False
    last, barrier = matching[-1], matching[-1].control.write_barrier
    behind = [i for i in (*region.instructions, *region.ends) if i.address > last.address]
    return any(i.control is not None and i.control.waits_for(barrier) for i in behind)


def _describe(flow: ControlFlow, region: TimedRegion, wanted: Iterable[str]) -> str:
    """A region's instructions in short: wanted and watched ones by name, the others as one number; loops
    in brackets."""
    loops = region.loops(flow)
    inside = {i.address for loop in loops for i in flow.loop_instructions(loop)}
    outside = _summary((i for i in region.instructions if i.address not in inside), wanted)
    return outside + "".join(f" [loop: {_summary(flow.loop_instructions(loop), wanted)}]" for loop in loops)


def _summary(code: Iterable[SassInstruction], wanted: Iterable[str]) -> str:
    code = [i for i in code if not i.never_executed]
    names = [i.mnemonic for i in code if i.opcode in _WATCHED or any(map(i.is_a, wanted))]
    parts = [f"{names.count(name)} {name}" for name in dict.fromkeys(names)]
    others = len(code) - len(names)
    return ", ".join([*parts, *([f"{others} other"] if others else [])]) or "nothing"


def _wanted(timed: Timed) -> str:
    counts = [f"{count} {name}" for name, count in timed.counts.items()]
    inside = ", ".join([*counts, f"up to {timed.others} other"])
    return f"{timed.name}: " + (f"[loop: {inside}]" if timed.part == "loop" else inside)


def default_cache() -> Path:
    """Where results may be kept from run to run: in the user's cache folder."""
    return cache_folder("contract")


_Task = tuple[str, str, str]
_Tasks = tuple[_Task, ...]

Runner = Callable[
    [Callable[[_Tasks], list[ContractResult]], Sequence[_Tasks], Callable[[int, list[ContractResult]], None]],
    None,
]
"""Calls a function with each of some arguments, in whatever processes, and hands each result to the last
argument with its place as it comes."""


def check_all(
    architectures: Sequence[str] = ARCHITECTURES,
    benchmarks: Sequence[str] | None = None,
    *,
    run: Runner | None = None,
    cache: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[ContractResult]:
    """Check all kernels of the benchmarks (default: all) for all architectures, one after the other or as
    ``run`` does it.

    Results are kept in ``cache``, if given, by a digest of the sources and tools. ``progress`` is told how
    many of how many are done. In order of benchmark, kernel and architecture.

    Raises:
        SmlabError: for an unknown benchmark or architecture, or when compiler or tools are missing.
    """
    require_compiler()
    for architecture in architectures:
        if architecture not in ARCHITECTURES + LATER:
            known = ", ".join(ARCHITECTURES + LATER)
            raise SmlabError.at("architecture", "unknown", architecture, f"one of {known}")
        find_disassembler(architecture)
    chosen = [registry.benchmark(name) for name in benchmarks] if benchmarks else registry.BENCHMARKS
    tasks = [
        (spec.benchmark, spec.name, architecture)
        for candidate in chosen
        for spec in candidate.kernels()
        for architecture in architectures
        if spec.supports(architecture)
    ]
    stamp = _stamp(architectures)
    results = {task: cached for task in tasks if (cached := _cached(cache, stamp, task)) is not None}
    missing = [task for task in tasks if task not in results]
    if progress:
        progress(len(results), len(tasks))
    # The architectures of one kernel go together: in one process, they share most of the compiler's work.
    parts = [tuple(part) for _, part in itertools.groupby(missing, key=lambda task: task[:2])]

    def keep(place: int, results_of_part: list[ContractResult]) -> None:
        for task, result in zip(parts[place], results_of_part, strict=True):
            results[task] = result
            _keep(cache, stamp, task, result)
        if progress:
            progress(len(results), len(tasks))

    (run or in_this_process)(check_tasks, parts, keep)
    return [results[task] for task in tasks]


def in_this_process(
    function: Callable[[_Tasks], list[ContractResult]],
    parts: Sequence[_Tasks],
    keep: Callable[[int, list[ContractResult]], None],
) -> None:
    """The simplest `Runner`."""
    for place, part in enumerate(parts):
        keep(place, function(part))


def check_tasks(tasks: _Tasks) -> list[ContractResult]:
    """The results of some kernels, one after the other."""
    return [_check_task(*task) for task in tasks]


def _check_task(benchmark: str, name: str, architecture: str) -> ContractResult:
    spec = registry.kernel(benchmark, name)
    try:
        return check(spec, compile_kernel(spec, architecture))
    except SmlabError as error:
        return ContractResult(
            benchmark=benchmark,
            kernel=name,
            architecture=architecture,
            ok=False,
            found="",
            expected="; ".join(map(_wanted, spec.expect(number(architecture)))),
            message=str(error),
            registers=0,
            cubin_sha256="",
            code_sha256="",
        )


def _stamp(architectures: Sequence[str]) -> str:
    """A digest of everything that machine code and verdict depend on."""
    cuda = Path(__file__).parents[1]
    code = digest_of(cuda / "kernels", cuda / "contract", cuda.parent / "sass")
    tools = [linker_release(), sorted({find_disassembler(name).release for name in architectures})]
    return cache_key(code, package_versions(), tools)


def _file(cache: Path, stamp: str, task: _Task) -> Path:
    return cache / f"{cache_key(stamp, *task)}.json"


def _cached(cache: Path | None, stamp: str, task: _Task) -> ContractResult | None:
    if cache is None:
        return None
    try:
        return ContractResult(**json.loads(_file(cache, stamp, task).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _keep(cache: Path | None, stamp: str, task: _Task, result: ContractResult) -> None:
    if cache is None or not result.cubin_sha256:  # what did not compile may be the installation's fault
        return
    cache.mkdir(parents=True, exist_ok=True)
    file = _file(cache, stamp, task)
    write_atomic(file, json.dumps(asdict(result)))
