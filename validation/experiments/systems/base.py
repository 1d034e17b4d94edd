"""From the base of a study file to the system under study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from smlab.hw_bench.errors import SmlabError, nearest
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.inputs import check_file, resolved
from smlab.sim.workloads.atomics_benchmark import BUILT_IN
from smlab.validation.experiments.design.factors import Written
from smlab.validation.experiments.design.values import Value
from smlab.validation.experiments.design.written import File, flat
from smlab.validation.experiments.systems.formulas import FORMULAS, Formula, responses_of
from smlab.validation.experiments.systems.machine_code import KERNEL_RESPONSES, MachineKernel
from smlab.validation.experiments.systems.simulator import (
    GPU,
    PREFIX,
    RESPONSES,
    STALLS,
    Simulator,
    read_tables,
)
from smlab.validation.experiments.systems.systems import System

SPEEDUP: Final = "speedup"


def asked_responses(where: str, file: File) -> tuple[str, ...]:
    """The responses asked for, each once, groups spelt out."""
    if file.base.kernel is not None:
        known: tuple[str, ...] = (*KERNEL_RESPONSES, SPEEDUP)
    elif file.base.model is None:
        known = (*RESPONSES, SPEEDUP)
    elif file.base.model in FORMULAS:
        known = responses_of(file.base.model)
    else:
        expected = "one of " + ", ".join(FORMULAS)
        raise SmlabError.at(f"{where}: base.model", "unknown model", file.base.model, expected)
    found: list[str] = []
    for i, name in enumerate(file.responses):
        group = STALLS if name == "stalls" and file.base.model is None else (name,)
        for member in group:
            if member not in known:
                guess = nearest(member, known)
                expected = f"perhaps {guess}" if guess else "one of " + ", ".join(known)
                raise SmlabError.at(f"{where}: responses[{i}]", "unknown response", name, expected)
            if member not in found:
                found.append(member)
    if file.stop is not None and file.stop.response not in found:
        expected = "one of responses: " + ", ".join(found)
        raise SmlabError.at(f"{where}: stop.response", "is not asked for", file.stop.response, expected)
    return tuple(found)


def make_system(
    where: str,
    folder: Path,
    file: File,
    responses: tuple[str, ...],
    written: Mapping[str, Written],
    alternative: str | None = None,
) -> System:
    """The system that the base describes, with its fixed settings, its GPUs under their ``alternative`` of
    that name where they have one; `SmlabError` with the place on what is not there."""
    base = file.base
    given = flat(base.set)
    if base.kernel is not None:
        return _kernel(where, folder, file, responses, given, alternative)
    for key in ("launch", "name"):
        if getattr(base, key) is not None:
            raise SmlabError.at(f"{where}: base.{key}", "has no meaning without a kernel", getattr(base, key))
    if base.model is not None:
        for key, value in (("gpu", base.gpu), ("workload", base.workload)):
            if value is not None:
                raise SmlabError.at(f"{where}: base.{key}", "has no meaning with a model", value)
        formula = Formula(base.model, (), responses)
        fixed = _fixed(where, formula, given)
        return Formula(base.model, tuple(sorted(fixed.items())), responses)
    for key, value in (("gpu", base.gpu), ("workload", base.workload)):
        if value is None:
            raise SmlabError.at(f"{where}: base.{key}", "missing", expected="gpu and workload, or model")
    assert base.gpu is not None
    assert base.workload is not None

    tables, workload = None, base.workload
    if workload not in BUILT_IN:
        path = folder / workload
        if not path.exists():
            expected = "one of " + ", ".join(BUILT_IN) + ", or a workload file's path from here"
            raise SmlabError.at(f"{where}: base.workload", "no such workload", workload, expected)
        tables, workload = read_tables(path), path.name
    others = {}
    for name, factor in written.items():
        if name == GPU or factor.keys == [GPU]:
            for i, other in enumerate(factor.values or []):
                place = f"{where}: factors.{name}.values[{i}]"
                others[str(other)] = _gpu(place, folder, str(other), alternative)
    stored = tuple(dict.fromkeys("seconds" if name == SPEEDUP else name for name in responses))
    plain = Simulator(
        gpu=_gpu(f"{where}: base.gpu", folder, base.gpu, alternative),
        workload=workload,
        tables=tables,
        fixed={},
        gpus=others,
        responses=stored,
        engine=base.engine,
        max_cycles=base.max_cycles,
    )
    if GPU in given:
        raise SmlabError.at(f"{where}: base.set.gpu", "the GPU stands in base.gpu", given[GPU])
    return replace(plain, fixed=_fixed(where, plain, given))


def _kernel(
    where: str,
    folder: Path,
    file: File,
    responses: tuple[str, ...],
    given: Mapping[str, Any],
    alternative: str | None,
) -> MachineKernel:
    """The machine code that the base names."""
    base = file.base
    for key in ("model", "workload"):
        if getattr(base, key) is not None:
            raise SmlabError.at(f"{where}: base.{key}", "has no meaning with a kernel", getattr(base, key))
    if base.gpu is None or base.launch is None or base.kernel is None:
        key = "gpu" if base.gpu is None else "launch"
        raise SmlabError.at(f"{where}: base.{key}", "missing", expected="gpu, kernel and launch")
    kernel, launch = folder / base.kernel, folder / base.launch
    check_file(kernel, "a kernel (.cu, .cubin, .sass)")
    check_file(launch, "a launch (TOML)")
    plain = MachineKernel(
        gpu=_gpu(f"{where}: base.gpu", folder, base.gpu, alternative),
        kernel=resolved(kernel),
        launch=resolved(launch),
        name=base.name,
        sms=base.sms,
        fixed={},
        responses=tuple(dict.fromkeys("seconds" if name == SPEEDUP else name for name in responses)),
        engine=base.engine,
        max_cycles=base.max_cycles,
    )
    return replace(plain, fixed=_fixed(where, plain, given))


def value_on(folder: Path, alternative: str | None, where: str, gpu: str, key: str) -> Value:
    """The value that a constant has on another GPU, by name or by its description's path from ``folder``,
    under its ``alternative`` of that name where it has one."""
    if not key.startswith(PREFIX):
        raise SmlabError.at(where, "only a constant of a GPU has a value on another one", key, f"{PREFIX}KEY")
    description = _gpu(where, folder, gpu, alternative)
    try:
        return description[key.removeprefix(PREFIX)].value
    except SmlabError as error:
        raise SmlabError(f"{where}: {error}") from error


def _gpu(where: str, folder: Path, name: str, alternative: str | None = None) -> Gpu:
    relative = name.endswith(".toml") and not Path(name).is_absolute()
    try:
        found = load_gpu(folder / name if relative else name)
    except SmlabError as error:
        raise SmlabError(f"{where}: {error}") from error
    return next((gpu for a, gpu in found.variants() if a.name == alternative), found)


def _fixed(where: str, system: System, given: Mapping[str, Any]) -> dict[str, Value]:
    place = f"{where}: base.set"
    return {
        key: system.key(f"{place}.{key}", key).value(f"{place}.{key}", value) for key, value in given.items()
    }
