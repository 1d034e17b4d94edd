"""``WORKLOAD`` and ``--set KEY=VALUE`` of the command line: a built-in workload or a file, with some keys
changed."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.inputs import load_toml
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.workloads.atomics_benchmark import BUILT_IN
from smlab.sim.workloads.histogram import share_of
from smlab.sim.workloads.workload import Kernel
from smlab.sim.workloads.workload_file import parse_workload

GPU_PREFIX = "gpu."
HISTOGRAM = "histogram"
CODE = "code"
WRITTEN, COMPILED = "written", "compiled"
"""Of the histogram: the program of `smlab.sim.workloads.histogram`, or what the compiler makes of the
source."""


def workload_and_gpu(name: str, settings: Sequence[str], gpu: Gpu) -> tuple[Kernel | MachineLaunch, Gpu]:
    """The kernel to run, or the launch of compiled code, and the GPU to run it on, after all ``--set``;
    ``gpu.KEY=VALUE`` changes the GPU.

    Raises:
        SmlabError: an unknown workload, key or value, naming it.
    """
    given = dict(split_setting(s) for s in settings)
    gpu = changed_gpu(gpu, {k: v for k, v in given.items() if k.startswith(GPU_PREFIX)})
    on_workload = {k: v for k, v in given.items() if not k.startswith(GPU_PREFIX)}
    if name in BUILT_IN:
        build = _builder(name, on_workload)
        arguments = _arguments(name, build, on_workload)
        if "gpu" not in inspect.signature(build).parameters:
            return build(**arguments), gpu
        # Some of the SMs get their part of the bandwidth that all of them share.
        return build(gpu, **arguments), share_of(gpu, arguments.get("sms", "all"))
    path = Path(name)
    if not path.exists():
        known = f"one of {', '.join(BUILT_IN)}, or a .toml file"
        raise SmlabError.at("WORKLOAD", "neither a built-in workload nor a file", name, known)
    return _from_file(path, on_workload), gpu


def changed_gpu(gpu: Gpu, settings: Mapping[str, str]) -> Gpu:
    """The GPU with the constants that ``gpu.KEY`` and their texts say.

    Raises:
        SmlabError: an unknown key or value, naming it.
    """
    values = {key.removeprefix(GPU_PREFIX): value_of(key, text) for key, text in settings.items()}
    if not values:
        return gpu
    return gpu.with_values(values, source="assumed: set on the command line", where="--set gpu")


def _builder(name: str, settings: dict[str, str]) -> Any:
    """What builds a built-in workload; takes ``code`` out of the histogram's settings."""
    code = settings.pop(CODE, WRITTEN) if name == HISTOGRAM else WRITTEN
    if code not in (WRITTEN, COMPILED):
        raise SmlabError.at(f"--set {CODE}", "unknown", code, f"{WRITTEN} or {COMPILED}")
    if code == WRITTEN:
        return BUILT_IN[name]
    from smlab.sim.workloads.compiled_histogram import histogram_launch

    return histogram_launch


def setting(key: str, value: object) -> str:
    """A key and its value as ``--set`` has them.

    Raises:
        SmlabError: a value that no key can have.
    """
    if isinstance(value, bool):
        return f"{key}={str(value).lower()}"
    if isinstance(value, int | float | str):
        return f"{key}={value}"
    raise SmlabError.at(f"settings: {key}", "not a value", value, "a number, True, False or a word")


_MAX_WORD = 1000


def split_setting(setting: str) -> tuple[str, str]:
    """``KEY=VALUE`` as a pair; `SmlabError` for what is none."""
    key, equals, value = setting.partition("=")
    if not equals or not key:
        raise SmlabError.at("--set", "not a setting", setting, "KEY=VALUE")
    return key, value


def value_of(key: str, text: str) -> Any:
    """A value as TOML would read it; bare words are strings."""
    try:
        tables = tomllib.loads(f"value = {text}")
        if len(tables) == 1:
            return tables["value"]
    except ValueError:  # no TOML, or a number of thousands of digits
        if text.replace("-", "").replace("_", "").isalnum() and len(text) <= _MAX_WORD:
            return text
    raise SmlabError.at(f"--set {key}", "not a value", text, "a number, true, false or a word")


def _arguments(name: str, build: Any, settings: dict[str, str]) -> dict[str, Any]:
    """Keyword arguments of what builds a workload, each of the type that its signature says."""
    parameters = dict(inspect.signature(build, eval_str=True).parameters)
    parameters.pop("gpu", None)
    arguments: dict[str, Any] = {}
    for key, text in settings.items():
        if key not in parameters:
            known = [*parameters, *([CODE] if name == HISTOGRAM else [])]
            raise SmlabError.at(
                f"--set {key}", f"{name} has no such key", expected="one of " + ", ".join(known)
            )
        wanted = parameters[key].annotation
        value = value_of(key, text)
        names = {bool: "true or false", str: "a word", int: "a whole number"}
        right = [kind for kind in names if kind in (wanted, *get_args(wanted))] or [int]
        if type(value) not in right:
            expected = " or ".join(names[kind] for kind in right)
            raise SmlabError.at(f"--set {key}", "wrong kind of value", text, expected)
        arguments[key] = value
    return arguments


def _from_file(path: Path, settings: dict[str, str]) -> Kernel:
    raw = load_toml(path)
    for key, text in settings.items():
        table, dot, entry = key.partition(".")
        if table != "kernel" or not dot:
            raise SmlabError.at(
                f"--set {key}", "cannot be set in a workload file", expected="kernel.KEY or gpu.KEY"
            )
        raw.setdefault("kernel", {})[entry] = value_of(key, text)
    return parse_workload(raw, str(path), default_name=path.stem)
