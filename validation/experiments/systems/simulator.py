"""The simulator as the system of a study: one kernel on one GPU, with any key of either changed; and what
the estimators of utilization say of it, from what a profiler would count.
"""

from __future__ import annotations

import copy
import inspect
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, cast, get_args

from smlab.hw_bench.errors import SmlabError, nearest
from smlab.hw_bench.gpu.alternatives import Alternative
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.gpu.schema import KEYS_BY_NAME
from smlab.hw_bench.gpu.tables import guess_at
from smlab.hw_bench.inputs import load_toml
from smlab.hw_bench.sources import digest_of, package_folder
from smlab.models.utilization.closed_estimator import estimate_closed
from smlab.sim.instructions import Reason, Unit
from smlab.sim.lowering import LoweredKernel, lower
from smlab.sim.machine import Machine, machine_from
from smlab.sim.reference import Record
from smlab.sim.result import SimResult
from smlab.sim.simulate import DEFAULT_ENGINE, ENGINES
from smlab.sim.workloads.atomics_benchmark import BUILT_IN
from smlab.sim.workloads.histogram import share_of
from smlab.sim.workloads.workload import Kernel, check_fits
from smlab.sim.workloads.workload_file import parse_workload
from smlab.validation.experiments.design.values import Key, Settings, Value
from smlab.validation.experiments.systems.systems import Evaluation
from smlab.validation.service_tables import StudyTables


def estimates(
    result: SimResult, machine: Machine, op: str, tables: StudyTables, wanted: tuple[str, ...]
) -> dict[str, float]:
    """Utilization over the elapsed cycles (0 .. 1) by ``wanted``: ``occupancy`` (Dong & Pai, Table 2),
    ``closed`` (the closed network on the looped table). What they are given: jobs, cycles, resident warps,
    passes and compare-and-swap a job.
    """
    sms = len(result.sms)
    jobs = sum(s.atomic_completions for s in result.sms) / sms
    if jobs == 0:
        return dict.fromkeys(wanted, 0.0)
    active = sum(s.active_cycles for s in result.sms) / sms
    warps = sum(s.resident_warp_cycles for s in result.sms) / (sms * active)
    e = sum(s.atomic_passes for s in result.sms) / (sms * jobs)
    share = sum(s.atomic_cas_jobs for s in result.sms) / (sms * jobs)
    lanes = min(math.floor(e), machine.warp_lanes)
    within = e - lanes + 1
    most = min(machine.max_warps, math.ceil(warps))
    warps = min(warps, float(most))
    found = {}
    for name in wanted:
        form = "batch" if name == "occupancy" else "looped"
        table = tables.get(machine, op, form, most, lanes, share > 0)
        if name == "occupancy":
            service = float(table.service_cycles(warps, within, warps * share))
            found[name] = jobs * service / result.cycles
        else:
            closed = estimate_closed([jobs], [active], [warps], [within], [share], table)
            found[name] = float(closed.utilization[0]) * active / result.cycles
    return found


GPU: Final = "gpu"
PREFIX: Final = "gpu."

STALLS: Final = tuple(f"stall.{reason.label}" for reason in Reason)
ESTIMATORS: Final = ("occupancy", "closed")
RESPONSES: Final = (
    *("cycles", "seconds", "warp_instructions", "instructions_per_cycle", "resident_warps"),
    *("jobs", "utilization", "n_mean", "e_mean", "c_mean", "service_cycles"),
    *(f"utilization_{name}" for name in ESTIMATORS),
    *(f"error_{name}_points" for name in ESTIMATORS),
    *STALLS,
)
"""What one simulation gives; `smlab.validation.experiments.design.study` says what they mean."""

MAX_CYCLES: Final = 2_000_000_000
KEPT: Final = {"gpu": 64, "machine": 64, "kernel": 8, "tables": 1}
"""How many things of each kind are kept ready; a kernel may hold the addresses of a whole image."""


class Kept:
    """The latest things that were made, by what they were made from; empty after travelling to another
    process."""

    def __init__(self) -> None:
        self._made: dict[str, OrderedDict[object, Any]] = {kind: OrderedDict() for kind in KEPT}

    def __reduce__(self) -> tuple[type[Kept], tuple[()]]:
        return Kept, ()

    def get(self, kind: str, key: object, make: Callable[[], Any]) -> Any:
        made = self._made[kind]
        found = made.get(key)
        if found is None:  # other threads of a worker may do the same: what they make is equal
            found = make()
            if len(made) >= KEPT[kind]:
                made.popitem(last=False)
            made[key] = found
        return found


@dataclass(frozen=True, eq=False)
class Simulator:
    """The simulator on ``gpu``, running a built-in workload or (with ``tables``, its contents) a workload
    file.

    ``fixed`` are settings for all points; ``gpus`` other GPUs by name, which the key ``gpu`` may name. A
    point that runs longer than ``max_cycles`` fails.
    """

    gpu: Gpu
    workload: str
    tables: Mapping[str, Any] | None
    fixed: Mapping[str, Value]
    gpus: Mapping[str, Gpu]
    responses: tuple[str, ...]
    engine: str = DEFAULT_ENGINE
    max_cycles: int = MAX_CYCLES
    kept: Kept = field(default_factory=Kept, repr=False)

    def key(self, where: str, name: str) -> Key:
        fixed = self.fixed.get(name)
        if name == GPU:
            return Key(name, (str,), self.gpu.name if fixed is None else fixed)
        if name.startswith(PREFIX):
            known = KEYS_BY_NAME.get(name.removeprefix(PREFIX))
            if known is None:
                expected = guess_at(name.removeprefix(PREFIX), KEYS_BY_NAME, PREFIX)
                raise SmlabError.at(where, "unknown key of a GPU", name, expected)
            own = self.gpu[known.name].value if self.gpu.has(known.name) else None
            return Key(name, (known.type,), own if fixed is None else fixed)
        if self.tables is None:
            return self._built_in_key(where, name)
        return self._file_key(where, name)

    def check(self, settings: Settings) -> bool:
        machine, kernel = self._machine(settings), self._kernel(settings)
        check_fits(kernel, machine)
        operations = [i for program in kernel.programs for i, _ in program.instructions()]
        if self._estimators:
            _table_operation(kernel)
        return any(i.random for i in operations)

    def alternatives(self) -> tuple[Alternative, ...]:
        written = (i for p in self._kernel({}).programs for i, _ in p.instructions())
        atomic = any(i.cls.unit is Unit.ATOMIC for i in written)
        return self.gpu.alternatives if atomic and len(self.gpu.alternatives) > 1 else ()

    def answer(self, settings: Settings, seed: int) -> Evaluation:
        machine, kernel = self._machine(settings), self._kernel(settings)
        lowered = lower(kernel, machine, seed)
        began = time.thread_time()
        result = self._run(lowered)
        estimated: dict[str, float] = {}
        if self._estimators:
            pass
            from smlab.validation.service_tables import StudyTables

            tables = self.kept.get("tables", (), StudyTables)
            estimated = estimates(result, machine, _table_operation(kernel), tables, self._estimators)
        simulation_s = time.thread_time() - began  # an estimate simulates service tables
        values: dict[str, float] = {
            "cycles": result.cycles,
            "seconds": result.cycles / machine.sm_hz,
            "warp_instructions": result.warp_instructions,
            "instructions_per_cycle": result.warp_instructions / (result.cycles * len(result.sms)),
        }
        atomic = result.atomic
        for name in ("jobs", "utilization", "n_mean", "e_mean", "c_mean", "service_cycles"):
            values[name] = getattr(atomic, name)
        for name, estimate in estimated.items():
            values[f"utilization_{name}"] = estimate
            values[f"error_{name}_points"] = 100 * (estimate - atomic.utilization)
        resident = sum(s.resident_warp_cycles for s in result.sms)
        active = sum(s.active_cycles for s in result.sms)
        values["resident_warps"] = resident / active
        stalls = result.warps.stall_cycles.sum(axis=0).tolist()
        values.update((name, cycles / resident) for name, cycles in zip(STALLS, stalls, strict=True))
        return Evaluation(tuple(values[name] for name in self.responses), simulation_s)

    def identity(self) -> str:
        rooms = [package_folder("smlab.sim"), package_folder("smlab.models")]
        own = [Path(__file__).with_name(name) for name in ("simulator.py", "estimators.py")]
        if self._estimators:
            own.append(package_folder("smlab.validation") / "service_tables.py")
        code = digest_of(rooms[0], *own, *(rooms[1:] if self._estimators else ()))
        gpus = {name: _constants(gpu) for name, gpu in {**self.gpus, "": self.gpu}.items()}
        parts = (code, gpus, self.workload, self.tables, sorted(self.fixed.items()), self.responses)
        return repr((*parts, self.engine, self.max_cycles))

    @property
    def _estimators(self) -> tuple[str, ...]:
        return tuple(n for n in ESTIMATORS if {f"utilization_{n}", f"error_{n}_points"} & set(self.responses))

    def _run(self, lowered: LoweredKernel) -> SimResult:
        if self.engine == "compiled":
            from smlab.sim.compiled import run

            # Points run side by side already, so each has one thread.
            return run(lowered, Record.TOTALS, self.max_cycles, None, threads=1)
        return ENGINES[self.engine](lowered, Record.TOTALS, self.max_cycles, None)

    def _split(self, settings: Settings) -> tuple[dict[str, Value], dict[str, Value]]:
        """What is set of the GPU and what of the workload, with the settings for all points."""
        merged = {**self.fixed, **settings}
        on_gpu = {key: value for key, value in merged.items() if key == GPU or key.startswith(PREFIX)}
        return on_gpu, {key: value for key, value in merged.items() if key not in on_gpu}

    def _gpu(self, on_gpu: Mapping[str, Value]) -> Gpu:
        def make() -> Gpu:
            name = on_gpu.get(GPU, self.gpu.name)
            gpu = self.gpu if name == self.gpu.name else self.gpus[str(name)]
            own = {key.removeprefix(PREFIX): value for key, value in on_gpu.items() if key != GPU}
            return gpu.with_values(own, source="assumed: set by the study", where="gpu") if own else gpu

        found: Gpu = self.kept.get("gpu", tuple(sorted(on_gpu.items())), make)
        return found

    def _machine(self, settings: Settings) -> Machine:
        on_gpu, on_workload = self._split(settings)
        # Some of the SMs get their part of the bandwidth that all of them share.
        sms = on_workload.get("sms", "all") if self._wants_gpu else "all"

        def make() -> Machine:
            gpu = self._gpu(on_gpu)
            return machine_from(share_of(gpu, cast(int | str, sms)) if self._wants_gpu else gpu)

        found: Machine = self.kept.get("machine", (sms, *sorted(on_gpu.items())), make)
        return found

    def _kernel(self, settings: Settings) -> Kernel:
        on_gpu, on_workload = self._split(settings)

        def make() -> Kernel:
            if self.tables is None:
                build = cast(Callable[..., Kernel], BUILT_IN[self.workload])
                return build(self._gpu(on_gpu), **on_workload) if self._wants_gpu else build(**on_workload)
            tables = copy.deepcopy(dict(self.tables))
            for key, value in on_workload.items():
                *path, last = key.split(".")
                place = _within(tables, path)
                place[int(last) if isinstance(place, list) else last] = value
            return parse_workload(tables, self.workload, default_name=Path(self.workload).stem)

        key = (*sorted(on_workload.items()), *(sorted(on_gpu.items()) if self._wants_gpu else ()))
        kernel: Kernel = self.kept.get("kernel", key, make)
        return kernel

    @property
    def _wants_gpu(self) -> bool:
        """Whether the built-in workload is made for a GPU."""
        return self.tables is None and GPU in _parameters(self.workload)

    def _built_in_key(self, where: str, name: str) -> Key:
        parameters = {key: p for key, p in _parameters(self.workload).items() if key != GPU}
        if name not in parameters:
            guess = nearest(name, [*parameters, *(PREFIX + key for key in KEYS_BY_NAME)])
            raise SmlabError.at(
                where,
                f"{self.workload} has no such key",
                name,
                (f"perhaps {guess}; " if guess else "") + "one of " + ", ".join(parameters) + ", gpu.KEY",
            )
        annotation = parameters[name].annotation
        types = tuple(t for t in (get_args(annotation) or (annotation,)) if t in (bool, int, float, str))
        default = parameters[name].default
        return Key(name, types, self.fixed.get(name, None if default is inspect.Parameter.empty else default))

    def _file_key(self, where: str, name: str) -> Key:
        *path, last = name.split(".")
        place = _within(self.tables, path)
        found = place
        if place is not None:
            found = _within(place, [last])
        new = isinstance(place, dict) and path == ["kernel"]  # what the file leaves to its default
        if isinstance(found, dict | list) or (found is None and not new):
            example = "such as kernel.blocks, program.0.body.0.loop, gpu.KEY"
            raise SmlabError.at(where, f"no such value in {self.workload}", name, example)
        if found is None:
            return Key(name, (int,), self.fixed.get(name))
        kind: tuple[type, ...] = (type(found),)
        if isinstance(found, int | float) and not isinstance(found, bool):
            kind = (float,) if last == "cycles" or isinstance(found, float) else (int,)
        return Key(name, kind, self.fixed.get(name, found))


@cache
def _parameters(workload: str) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(cast(Callable[..., Any], BUILT_IN[workload]), eval_str=True).parameters


def read_tables(path: Path) -> dict[str, Any]:
    """The contents of a workload file; `SmlabError` where it is not one."""
    tables = load_toml(path)
    parse_workload(tables, str(path), default_name=path.stem)
    return tables


def _within(place: Any, path: list[str]) -> Any:
    """What is at ``path`` in nested tables and lists, or None."""
    for step in path:
        if isinstance(place, list) and step.isdecimal() and int(step) < len(place):
            place = place[int(step)]
        elif isinstance(place, dict) and step in place:
            place = place[step]
        else:
            return None
    return place


def _constants(gpu: Gpu) -> list[tuple[str, Value]]:
    return [(key, constant.value) for key, constant in gpu.constants.items()]


def _table_operation(kernel: Kernel) -> str:
    """The fetch-and-op whose service table the estimators need; compare-and-swap is in each of them."""
    used = {
        i.op for program in kernel.programs for i, _ in program.instructions() if i.cls.unit is Unit.ATOMIC
    }
    names = sorted(op.removeprefix("atomic-") for op in used - {"atomic-cas"})
    if len(names) > 1:
        raise SmlabError.at(
            kernel.name,
            "no service table holds two kinds of fetch-and-op, so there is no estimate",
            names,
            "responses without utilization_... and error_...",
        )
    return names[0] if names else "add"
