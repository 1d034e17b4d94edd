"""Results of tasks as plain JSON, and back without a difference: what the store keeps of them.

Not pickle, which runs what the file says: a folder of results may come from somebody else. Here only classes
of smlab are made anew, from their fields.
"""

from __future__ import annotations

import base64
import dataclasses
import importlib
import io
import json
from collections import Counter
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import xarray as xr
from pydantic import BaseModel

from smlab.hw_bench.errors import SmlabError

TAG: Final = "is"
"""The key that tells a value of another kind from a dictionary, which has a tag as well."""

OURS: Final = "smlab."

MAPPINGS: Final[Mapping[str, Any]] = {kind.__name__: kind for kind in (dict, Counter, MappingProxyType)}


def encode(value: Any) -> Any:
    """``value`` as JSON has it: numbers, strings, lists, dictionaries, enums, dataclasses and models
    (pydantic) of smlab, arrays (NumPy, xarray) and data frames, in each other.

    Raises:
        TypeError: something else, which a result should not hold.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is list:
        return [encode(item) for item in value]
    if type(value) is tuple:
        return {TAG: "tuple", "of": [encode(item) for item in value]}
    if type(value) in (set, frozenset):
        # a set has no order of its own, a text has
        return {TAG: type(value).__name__, "of": sorted(map(encode, value), key=json.dumps)}
    if type(value) in MAPPINGS.values():
        pairs = [[encode(key), encode(item)] for key, item in value.items()]
        return {TAG: type(value).__name__, "of": pairs}
    if isinstance(value, Enum):
        return {TAG: "enum", "class": _name(type(value)), "name": value.name}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {TAG: "object", "class": _name(type(value)), "of": fields}
    if isinstance(value, BaseModel):
        fields = {name: encode(getattr(value, name)) for name in type(value).model_fields}
        given = sorted(value.model_fields_set)
        return {TAG: "model", "class": _name(type(value)), "of": fields, "given": given}
    if isinstance(value, np.ndarray | np.generic):
        return _encode_array(value)
    if isinstance(value, xr.DataArray):
        coordinates = [[encode(key), list(c.dims), encode(c.values)] for key, c in value.coords.items()]
        return {
            TAG: "labelled",
            "dims": list(value.dims),
            "of": encode(value.values),
            "coords": coordinates,
            "name": value.name,
            "attrs": encode(value.attrs),
        }
    if isinstance(value, pd.DataFrame):
        return {TAG: "frame", "of": _text(_arrow(value))}
    raise TypeError(f"{type(value).__module__}.{type(value).__qualname__} has no place in a stored result")


def decode(plain: Any) -> Any:
    """What `encode` was given.

    Raises:
        SmlabError: ``plain`` is nothing that it made.
    """
    try:
        return _decoded(plain)
    except _NOT_OURS as error:
        what = f"{type(error).__name__}: {error}".replace("\n", " ")
        raise SmlabError(f"a stored result is nothing that smlab made: {what}") from error


_NOT_OURS: Final = (
    *(ValueError, KeyError, TypeError, AttributeError, ImportError, IndexError, OSError, SyntaxError),
    *(OverflowError, RecursionError, MemoryError, pa.ArrowException),
)


def _decoded(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_decoded(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    match plain[TAG]:
        case "tuple":
            return tuple(map(_decoded, plain["of"]))
        case "set":
            return set(map(_decoded, plain["of"]))
        case "frozenset":
            return frozenset(map(_decoded, plain["of"]))
        case "dict" | "Counter" | "mappingproxy" as kind:
            return MAPPINGS[kind]({_decoded(key): _decoded(item) for key, item in plain["of"]})
        case "enum":
            return _class(plain["class"])[plain["name"]]
        case "object":
            kind = _class(plain["class"])
            made: Any = object.__new__(kind)
            for name, item in _fields(plain, [f.name for f in dataclasses.fields(kind)]):
                object.__setattr__(made, name, item)
            return made
        case "model":
            kind = _class(plain["class"])
            return kind.model_construct(set(plain["given"]), **dict(_fields(plain, list(kind.model_fields))))
        case "array" | "scalar":
            return _decode_array(plain)
        case "labelled":
            coordinates = {_decoded(key): (dims, _decoded(of)) for key, dims, of in plain["coords"]}
            attributes = _decoded(plain["attrs"])
            return xr.DataArray(
                _decoded(plain["of"]), coordinates, plain["dims"], name=plain["name"], attrs=attributes
            )
        case "frame":
            with pa.ipc.open_file(base64.b64decode(plain["of"])) as file:
                return file.read_pandas()
        case other:
            raise ValueError(f"no kind of value: {other!r}")


def _name(kind: type) -> str:
    name = f"{kind.__module__}:{kind.__qualname__}"
    if not name.startswith(OURS) or "<locals>" in name:
        raise TypeError(f"{name} has no place in a stored result")
    return name


def _class(name: str) -> Any:
    """A dataclass, a model or an enum of smlab, by its name; never a function, nor another package's."""
    module, _, qualified = name.partition(":")
    if not module.startswith(OURS) or module.endswith("__main__"):
        raise ValueError(f"no class of a stored result: {name!r}")
    found: Any = importlib.import_module(module)
    for part in qualified.split("."):
        found = getattr(found, part)
    ours = isinstance(found, type) and (
        dataclasses.is_dataclass(found) or issubclass(found, Enum | BaseModel)
    )
    if not ours or _name(found) != name:
        raise ValueError(f"no class of a stored result: {name!r}")
    return found


def _fields(plain: Mapping[str, Any], names: list[str]) -> list[tuple[str, Any]]:
    """The fields that were stored, decoded. The constructor's checks were passed when the object was made."""
    if names != list(plain["of"]):
        raise ValueError(f"{plain['class']} has the fields {names}, not {list(plain['of'])}")
    return [(name, _decoded(item)) for name, item in plain["of"].items()]


def _encode_array(value: Any) -> dict[str, Any]:
    whole = np.asarray(value)
    told = {TAG: "array" if isinstance(value, np.ndarray) else "scalar", "shape": list(whole.shape)}
    if whole.dtype.hasobject:
        return {**told, "items": [encode(item) for item in whole.ravel().tolist()]}
    kind = whole.dtype.str if whole.dtype.names is None else [list(part) for part in whole.dtype.descr]
    return {**told, "dtype": kind, "of": _text(whole.tobytes())}


def _decode_array(plain: Mapping[str, Any]) -> Any:
    shape = tuple(plain["shape"])
    if "items" in plain:
        made: Any = np.empty(len(plain["items"]), object)
        for i, item in enumerate(plain["items"]):  # at once, lists would be taken for a second dimension
            made[i] = _decoded(item)
        return made.reshape(shape)
    kind = plain["dtype"]
    dtype = np.dtype(kind if isinstance(kind, str) else [_part(part) for part in kind])
    whole = np.frombuffer(base64.b64decode(plain["of"]), dtype).reshape(shape).copy()
    return whole if plain[TAG] == "array" else whole[()]


def _part(part: list[Any]) -> tuple[Any, ...]:
    """A field of a structured type: its name, its kind and perhaps its shape."""
    name, kind, *shape = part
    return (name, kind, *map(tuple, shape))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _arrow(frame: pd.DataFrame) -> bytes:
    table = pa.Table.from_pandas(frame)
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()
