"""How this package uses Numba: what Python calls is kept in Numba's cache, with a digest of all source
behind it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit
from numba.core.ccallback import CFunc

from smlab.hw_bench.sources import digest_of
from smlab.sim.compiled.apart import load_or_compile_apart

F = TypeVar("F", bound=Callable[..., Any])
_HERE = Path(__file__).parent
_STAMP = digest_of(_HERE, _HERE.parent / "source.py")


def helper(function: F) -> F:
    """Compile a function that only other compiled functions call."""
    return cast(F, njit(nogil=True, error_model="numpy")(function))


def entry(function: F) -> F:
    """Compile a function that Python calls; other processes find it in the cache."""
    compiled = njit(nogil=True, error_model="numpy", cache=True)(function)
    _stamp(compiled)
    return cast(F, compiled)


def callback(signature: Any, function: Callable[..., Any]) -> Any:
    """A function that machine code calls by its address; likewise kept in the cache. It may lie in a package
    beside this one, whose text then counts as well."""
    arguments, result = signature.args, signature.return_type
    options = {"nopython": True, "error_model": "numpy"}
    compiled = CFunc(function, (arguments, result), locals={}, options=options)
    compiled.enable_caching()
    _stamp(compiled, Path(function.__code__.co_filename).parent)
    if hasattr(cache := getattr(compiled, "_cache", None), "_cache_file"):
        load_or_compile_apart(cache, function, callback)
    compiled.compile()
    return compiled


def _stamp(compiled: Any, folder: Path = _HERE) -> None:
    index = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if index is not None:  # a read-only installation without a cache folder has none
        index._source_stamp = _STAMP if folder == _HERE else _STAMP + digest_of(folder)
