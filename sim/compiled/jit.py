"""How this package uses Numba: two decorators, a few intrinsics, and a cache that knows all of the package's
files.

Only the functions that Python calls are cached (`entry`); what they call (`helper`) is compiled into them.
Numba's cache compares an entry with the date of its own file alone, and would miss a change in a helper's
file or in a constant; here it compares with the text of every file that the machine code depends on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from llvmlite import ir
from numba import extending, njit, types
from numba.core import cgutils, event
from numba.np.numpy_support import from_dtype

from smlab.hw_bench.sources import digest_of
from smlab.sim.compiled.apart import load_or_compile_apart, tell
from smlab.sim.compiled.layout import STATE, TABLES

F = TypeVar("F", bound=Callable[..., Any])
intrinsic: Any = extending.intrinsic  # the type checker takes their Python arguments for those of a call

_HERE = Path(__file__).parent
_WORD = ir.IntType(64)


_STAMP = digest_of(_HERE, *(_HERE.parent / f"{name}.py" for name in ("instructions", "machine", "source")))
"""Of all source that ends up in machine code: this package and the constants that it takes from `sim`."""


_ENGINES = (__package__, __package__.replace("compiled", "machine_code"))


class _CompileListener(event.Listener):
    """Tells when this process compiles."""

    def on_start(self, event: Any) -> None:
        function = getattr(event.data.get("dispatcher"), "py_func", None)
        if getattr(function, "__module__", "").startswith(_ENGINES):
            tell()

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _CompileListener())


def helper(function: F) -> F:
    """Compile a function that only other compiled functions call."""
    return cast(F, njit(nogil=True, error_model="numpy")(function))


def inlined(function: F) -> F:
    """The same, but put into the code of each caller: what an issue goes through, where a call (which
    clears a place for its result and its error) costs as much as the function."""
    return cast(F, njit(nogil=True, error_model="numpy", forceinline=True)(function))


def entry(function: F) -> F:
    """Compile a function that Python calls with int64 arguments; other processes find it in the cache.

    It is compiled (or loaded) at its first call, not at import. Other threads run while it does.
    """
    compiled = njit(nogil=True, error_model="numpy", cache=True)(function)
    index = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if index is not None:  # a read-only installation without a cache folder has none
        index._source_stamp = _STAMP
    return cast(F, compiled)


def large_entry(function: F) -> F:
    """The same for what takes the compiler much memory: it is compiled in a process of its own."""
    compiled: Any = entry(function)
    if hasattr(compiled._cache, "_cache_file"):
        load_or_compile_apart(compiled._cache, function)
    return cast(F, compiled)


@intrinsic
def lowest_bit(typing_context: Any, mask: Any) -> Any:
    """The index of the lowest bit that is set; the mask must not be 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@intrinsic
def bits_set(typing_context: Any, mask: Any) -> Any:
    """How many bits are set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), generate


@intrinsic
def prefetch(typing_context: Any, address: Any) -> Any:
    """Ask for the processor's cache line at an address; nothing waits for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = ir.IntType(32)
        kinds = [ir.IntType(8).as_pointer(), number, number, number]
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), kinds), "llvm.prefetch.p0"
        )
        read, close, data = (ir.Constant(number, n) for n in (0, 3, 1))
        builder.call(function, [builder.inttoptr(arguments[0], kinds[0]), read, close, data])
        return context.get_dummy_value()

    return types.none(types.int64), generate


@intrinsic
def address_of(typing_context: Any, record: Any) -> Any:
    """Where a record lies."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(arguments[0], _WORD)

    return types.int64(record), generate


@intrinsic
def read_at(typing_context: Any, address: Any, index: Any) -> Any:
    """Element ``index`` of the int64 array that begins at ``address``: random tables are read where
    lowering put them."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], _WORD.as_pointer())
        return builder.load(builder.gep(pointer, [arguments[1]]))

    return types.int64(types.int64, types.int64), generate


@intrinsic
def write_at(typing_context: Any, address: Any, index: Any, value: Any) -> Any:
    """Set element ``index`` of the int64 array that begins at ``address``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], _WORD.as_pointer())
        builder.store(arguments[2], builder.gep(pointer, [arguments[1]]))
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), generate


@intrinsic
def call_source(
    typing_context: Any, step: Any, kind: Any, warp: Any, state: Any, now: Any, p: Any, q: Any
) -> Any:
    """Call the function of a source at an address; see `smlab.sim.source.CompiledSource`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        shape = ir.FunctionType(_WORD, [_WORD] * 6)
        function = builder.inttoptr(arguments[0], shape.as_pointer())
        return builder.call(function, arguments[1:])

    return types.int64(*[types.int64] * 7), generate


@intrinsic
def state_at(typing_context: Any, address: Any) -> Any:
    """The `STATE` at an address."""
    kind = from_dtype(STATE)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(kind))

    return kind(types.int64), generate


@intrinsic
def clear(typing_context: Any, address: Any, size: Any) -> Any:
    """Set ``size`` bytes at an address to zero."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        cgutils.memset(builder, pointer, arguments[1], 0)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64), generate


def records(table: str) -> Any:
    """A function (state, number) -> record that reaches into a table of `layout.TABLES`; a pointer, neither
    copied nor counted."""
    record = TABLES[table]
    offset = STATE.fields[f"{table}_table"][1]  # type: ignore[index]

    @intrinsic
    def at(typing_context: Any, state: Any, number: Any) -> Any:
        kind = from_dtype(record)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            field = builder.add(builder.ptrtoint(arguments[0], _WORD), ir.Constant(_WORD, offset))
            address = builder.load(builder.inttoptr(field, _WORD.as_pointer()))
            # No table moves while compiled code runs, so its address need not be read again after a store.
            address.set_metadata("invariant.load", builder.module.add_metadata([]))
            distance = builder.mul(arguments[1], ir.Constant(_WORD, record.itemsize))
            return builder.inttoptr(builder.add(address, distance), context.get_value_type(kind))

        return kind(state, types.int64), generate

    return at


(
    op_at,
    need_at,
    entry_at,
    role_at,
    sm_at,
    scheduler_at,
    group_at,
    mask_at,
    free_at,
    queued_at,
    server_at,
    ring_at,
    warp_at,
    wake_at,
    age_at,
    block_at,
    barrier_at,
    retiring_at,
    counter_at,
    until_at,
    pending_at,
    executions_at,
    warp_row_at,
    stall_of_at,
    stall_at,
    job_row_at,
    issue_row_at,
    span_row_at,
    access_at,
    sector_at,
    crowd_at,
    heap_at,
    cache_at,
    cache_set_at,
    line_at,
    bucket_at,
    fetched_at,
    ready_at,
    point_at,
) = map(records, TABLES)
