"""A tuning problem in the format that Kernel Tuner and KTT share (T1, JSON): parameters, conditions, kernel,
launch and arguments.

Its tables become those of a launch file. Where the two tuners differ: Kernel Tuner's ``ProblemSize`` over the
parameters in ``GridDivX`` and so on is the grid, rounded up, and counts more than ``GlobalSize``; KTT's
``GlobalSize`` is in blocks for CUDA, in threads where ``GlobalSizeType`` says OpenCL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from smlab.hw_bench.datasets.tuning import Parameter, field_of
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.expressions import evaluate
from smlab.validation.tuning.space import TunedKernel, TuningSpace, allowed, check_values

AXES: Final = "XYZ"
DTYPES: Final = {
    **{name: name for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    **{"char": "int8", "short": "int16", "int": "int32", "long": "int64", "uint": "uint32"},
    **{"unsignedint": "uint32", "bool": "bool", "half": "float16", "float16": "float16"},
    **{"float": "float32", "float32": "float32", "double": "float64", "float64": "float64"},
}
"""Types of arguments as the tuners write them (in small letters), as NumPy does."""


def is_problem(content: Any) -> bool:
    """Whether a JSON document is a tuning problem."""
    return isinstance(content, Mapping) and "ConfigurationSpace" in content


def read_problem(path: Path, content: Mapping[str, Any]) -> TuningSpace:
    """A problem file's space; the kernel's file lies beside it.

    Raises:
        SmlabError: file and key of whatever is missing or cannot be.
    """
    where = str(path)
    described = field_of(where, content, "ConfigurationSpace", dict, "the parameters")
    kernel = field_of(where, content, "KernelSpecification", dict, "the kernel")
    at = f"{where}: KernelSpecification"
    language = str(kernel.get("Language", "CUDA"))
    if language.upper() not in ("CUDA", "CUPY"):
        raise SmlabError.at(f"{at}: Language", "is not executed here", language, "CUDA")
    values, first = _parameters(f"{where}: ConfigurationSpace", described)
    size = _problem_size(at, kernel)
    conditions = [
        field_of(f"{where}: Conditions", condition, "Expression", str, "an expression")
        for condition in _list(f"{where}: Conditions", described.get("Conditions"))
    ]
    found, restricted = allowed(where, values, conditions, {"ProblemSize": size} if size else None)
    arguments, constants = _arguments(at, kernel, values, size)
    tuned = TunedKernel(
        kernel=str((path.parent / field_of(at, kernel, "KernelFile", str, "the source's file")).absolute()),
        name=field_of(at, kernel, "KernelName", str, "the kernel's name"),
        tables={
            "launch": {
                "grid": _grid(at, kernel, values, size),
                "block": _block(at, kernel, values),
                "shared_bytes": kernel.get("SharedMemory") or 0,
            },
            "argument": arguments,
            **({"constant": constants} if constants else {}),
        },
        folder=path.parent,
        flags=_flags(at, kernel),
    )
    names = tuple(values)
    wanted = tuple(first[name] for name in names) if set(first) == set(names) else None
    title = str(content.get("General", {}).get("BenchmarkName", path.name.partition(".")[0]))
    return TuningSpace(
        where,
        title,
        tuned,
        names,
        tuple(found),
        restricted,
        first=found.index(wanted) if wanted in found else 0,
    )


def _parameters(
    where: str, described: Mapping[str, Any]
) -> tuple[dict[str, tuple[Parameter, ...]], dict[str, Parameter]]:
    """Values by name, and defaults."""
    values: dict[str, tuple[Parameter, ...]] = {}
    defaults: dict[str, Parameter] = {}
    for row in field_of(where, described, "TuningParameters", list, "a list of parameters"):
        name = field_of(f"{where}: TuningParameters", row, "Name", str, "the parameter's name")
        raw = field_of(f"{where}: {name}", row, "Values", (list, str), "a list of values")
        if name in values:
            raise SmlabError.at(f"{where}: {name}", "a parameter that stands twice", expected="each once")
        values[name] = check_values(where, name, raw)
        default = row.get("Default")
        default = default[0] if isinstance(default, list) and default else default
        if isinstance(default, int | float | str | bool):
            defaults[name] = default
    if not values:
        raise SmlabError.at(where, "has no parameter", expected="one at least")
    return values, defaults


def _problem_size(where: str, kernel: Mapping[str, Any]) -> list[int]:
    size = kernel.get("ProblemSize") or []
    size = size if isinstance(size, list) else [size]
    if not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in size) or len(size) > 3:
        raise SmlabError.at(f"{where}: ProblemSize", "not sizes", size, "one to three whole numbers")
    return size


def _grid(
    where: str, kernel: Mapping[str, Any], values: Mapping[str, Any], size: Sequence[int]
) -> list[str | int]:
    divisors = [kernel.get(f"GridDiv{axis}") for axis in AXES]
    if size and any(d is not None for d in divisors):
        return [
            f"ceil({whole} / ({_product(where, axis, divisor)}))"
            for axis, whole, divisor in zip(AXES, size, divisors, strict=False)
        ]
    if "GlobalSize" not in kernel:
        if not size or "block_size_x" not in values:
            raise SmlabError.at(f"{where}: GlobalSize", "is missing", None, "the grid, or GridDivX")
        first, *others = size  # Kernel Tuner's own rule
        return [f"ceil({first} / block_size_x)", *others]
    texts = _axes(where, kernel, "GlobalSize")
    if str(kernel.get("GlobalSizeType", "CUDA")).lower() == "cuda":
        return texts
    return [
        f"ceil(({threads}) / ({block}))"
        for threads, block in zip(texts, _block(where, kernel, values), strict=False)
    ]


def _product(where: str, axis: str, divisor: Any) -> str:
    parts = [] if divisor is None else divisor
    if not isinstance(parts, list) or not all(isinstance(p, str | int) for p in parts):
        raise SmlabError.at(f"{where}: GridDiv{axis}", "not a list of expressions", divisor)
    return " * ".join(f"({part})" for part in parts) or "1"


def _block(where: str, kernel: Mapping[str, Any], values: Mapping[str, Any]) -> list[str | int]:
    if "LocalSize" in kernel:
        return _axes(where, kernel, "LocalSize")
    own = [f"block_size_{axis}" for axis in AXES.lower()]
    if own[0] not in values:
        raise SmlabError.at(f"{where}: LocalSize", "is missing", None, "the threads of a block")
    return [name if name in values else 1 for name in own]


def _axes(where: str, kernel: Mapping[str, Any], name: str) -> list[str | int]:
    table = field_of(where, kernel, name, dict, "a table with X, Y and Z")
    return [
        field_of(f"{where}: {name}", table, axis, (str, int), "an expression")
        for axis in AXES
        if axis in table or axis == "X"
    ]


def _flags(where: str, kernel: Mapping[str, Any]) -> str:
    """The compiler's options, less the standard, which is ours."""
    given = _list(f"{where}: CompilerOptions", kernel.get("CompilerOptions"))
    if not all(isinstance(option, str) for option in given):
        raise SmlabError.at(f"{where}: CompilerOptions", "not a list of texts", given)
    return " ".join(o for o in given if o and not o.replace("--", "-").startswith("-std"))


def _arguments(
    where: str, kernel: Mapping[str, Any], values: Mapping[str, Any], size: Sequence[int]
) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """The tables of a launch file's arguments and constants. In sizes a parameter's name is the list of its
    values."""
    names = {**{name: list(v) for name, v in values.items()}, "ProblemSize": list(size)}
    rows, constants = [], {}
    for number, raw in enumerate(_list(f"{where}: Arguments", kernel.get("Arguments")), start=1):
        name = str(raw.get("Name", f"argument{number}")) if isinstance(raw, dict) else ""
        at = f"{where}: argument {number} ({name})"
        kind = field_of(at, raw, "Type", str, "such as float").lower()
        if kind not in DTYPES:
            raise SmlabError.at(f"{at}: Type", "unknown", raw["Type"], "one of " + ", ".join(DTYPES))
        row = {"dtype": DTYPES[kind], **_content(at, raw, names, DTYPES[kind])}
        if raw.get("MemType") == "Constant":
            constants[name] = dict(row)
        rows.append({"name": name, **row})
    return rows, constants


def _content(where: str, raw: Mapping[str, Any], names: Mapping[str, Any], dtype: str) -> dict[str, Any]:
    """What an argument holds."""
    fill = raw.get("FillValue", 0)
    whole = not dtype.startswith("float")
    if isinstance(fill, bool) or not isinstance(fill, int | float):
        raise SmlabError.at(f"{where}: FillValue", "not a number", fill)
    if str(raw.get("MemoryType", "Scalar" if "Size" not in raw else "Vector")).lower() == "scalar":
        return {"value": int(fill) if whole else float(fill)}
    size = raw.get("Size")
    if isinstance(size, str):
        size = evaluate(f"{where}: Size", size, names, "a number of elements")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise SmlabError.at(f"{where}: Size", "not a number of elements", raw.get("Size"))
    how = str(raw.get("FillType", "Constant"))
    if how == "Constant":
        if fill == 0:
            return {"shape": [size], "make": "zeros"}
        # One value everywhere; a float's interval of no width is allowed.
        high = int(fill) + 1 if whole else float(fill)
        return {"shape": [size], "make": "uniform", "low": int(fill) if whole else float(fill), "high": high}
    if how == "Random":
        return {
            "shape": [size],
            "make": "uniform",
            "low": 0,
            "high": int(fill) or 1 if whole else float(fill),
        }
    if how == "Generator" and str(raw.get("DataSource", "")).strip() == "i":
        return {"shape": [size], "make": "arange"}
    if how in ("BinaryRaw", "BinaryHDF5", "Generator"):
        expected = "Constant, Random, or --launch with the arrays as .npy"
        raise SmlabError.at(f"{where}: FillType", "is not made here", how, expected)
    raise SmlabError.at(f"{where}: FillType", "unknown", how, "Constant or Random")


def _list(where: str, value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise SmlabError.at(where, "is not a list", value)
    return value
