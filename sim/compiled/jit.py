"""How the compiled engine and the compiled meaning of machine code use Numba: decorators, a few intrinsics.

Python calls functions with whole numbers (`entry`). What they call (`helper`, `called`, `inlined`) is
compiled with them, into an object; see `smlab.sim.object_code`.

Numba optimises each function's code, makes machine code of it, and does so again in each of its callers,
with all that they call. A function that is called through ten others is compiled ten times. Python never
calls the engine's helpers, so they need no machine code of their own. Only their LLVM code is kept. An object
links all of them and is compiled as a whole.

Eight words at a time: what a scheduler asks of all of its warps or groups in each of its cycles.

Tables that are searched so have whole cache lines for each scheduler. One vector operation takes the place of
a loop whose branches a processor cannot foresee.
"""

from __future__ import annotations

import ctypes
import inspect
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar, cast

from llvmlite import ir
from numba import extending, njit, types
from numba.core import cgutils, compiler
from numba.core.codegen import JITCodeLibrary
from numba.np.numpy_support import from_dtype

from smlab.sim.compiled.layout import NEVER, STATE, TABLES

F = TypeVar("F", bound=Callable[..., Any])
intrinsic: Any = extending.intrinsic  # the type checker takes their Python arguments for those of a call

_WORD = ir.IntType(64)


class _NoEnvironment:
    """What a library without machine code is asked for once it is lowered."""

    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        """There is no code that would read it: helpers hold no Python objects."""


class HelperLibrary(JITCodeLibrary):
    """The LLVM code of one helper, not optimised and without that of what it calls."""

    @property
    def codegen(self) -> Any:
        return _NoEnvironment

    def finalize(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout


class HelperCompiler(compiler.CompilerBase):
    """Numba's own, but for the library."""

    def define_pipelines(self) -> list[Any]:
        self.state.library = HelperLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.finalize()
        return [passes]


HELPER: Final[dict[str, Any]] = {
    "nogil": True,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": HelperCompiler,
    "forceinline": False,  # unless it is said, Numba takes it from the caller
}
CALLED: Final[list[Any]] = []
"""The functions that `called` has decorated."""


def helper(function: F) -> F:
    """Compile a function that only other compiled functions call."""
    return cast(F, njit(**HELPER)(function))


def inlined(function: F) -> F:
    """The same, but put into the code of each caller: what an issue goes through, where a call (which
    clears a place for its result and its error) costs as much as the function."""
    return cast(F, njit(**{**HELPER, "forceinline": True})(function))


def called(function: F) -> F:
    """The same, but put into no caller's code: what is large and has several callers is compiled once."""
    compiled = helper(function)
    CALLED.append(compiled)
    return compiled


_lowered_for = [platform.machine()]


@contextmanager
def lowering_for(machine: str) -> Iterator[None]:
    """LLVM code that is written meanwhile is for another processor: ``machine`` is its architecture."""
    _lowered_for.append(machine)
    try:
        yield
    finally:
        _lowered_for.pop()


def is_for_arm() -> bool:
    """Whether the LLVM code that is being written is for ARM."""
    return _lowered_for[-1] in ("aarch64", "arm64")


RAISED: Final = -(1 << 63)
"""What an entry answers where its function would raise, such as by a number that no table has."""


class CompiledEntry:
    """A function of whole numbers (int64) that Python calls, or compiled code by its ``address``.

    Its object is loaded or compiled at the first call, not at import. Other threads run while it does.
    """

    def __init__(self, function: Callable[..., int | None]) -> None:
        self.function = function
        self.parameters = len(inspect.signature(function).parameters)
        self.symbol = f"smlab_{function.__name__.strip('_')}"
        self.__doc__ = function.__doc__
        self._compiled: Callable[..., int] | None = None

    @property
    def address(self) -> int:
        # What loads objects is no part of what is compiled; see `smlab.sim.object_code.sources`.
        from smlab.sim.object_code.loading import address_of

        return address_of(self)

    def __call__(self, *numbers: int) -> int:
        if self._compiled is None:
            word = ctypes.c_int64
            self._compiled = ctypes.CFUNCTYPE(word, *[word] * self.parameters)(self.address)
        answer = self._compiled(*map(int, numbers))
        if answer == RAISED:
            raise RuntimeError(f"the compiled {self.symbol} met what would raise an exception in Python")
        return answer


def entry(function: Callable[..., int | None]) -> CompiledEntry:
    """Compile a function of whole numbers that Python calls."""
    return CompiledEntry(function)


@intrinsic
def lowest_bit(typing_context: Any, mask: Any) -> Any:
    """The index of the lowest bit that is set; 64 where none is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

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


def _atomic(name: str, build: Callable[[Any, Any, Any], Any]) -> Any:
    """An intrinsic of the address of an int64 and a number, for what several threads change."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], _WORD.as_pointer())
        made = build(builder, pointer, arguments[1])
        return context.get_dummy_value() if made is None else made

    def typed(typing_context: Any, address: Any, value: Any) -> Any:
        result = types.none if name == "store" else types.int64
        return result(types.int64, types.int64), generate

    return intrinsic(typed)


swap_atomic = _atomic("swap", lambda b, at, value: b.atomic_rmw("xchg", at, value, "acquire"))
"""Put a number there; what was there."""
add_atomic = _atomic("add", lambda b, at, value: b.atomic_rmw("add", at, value, "acq_rel"))
load_atomic = _atomic("load", lambda b, at, value: b.load_atomic(at, "acquire", 8))
"""What is there; the number has no use."""
store_atomic = _atomic("store", lambda b, at, value: b.store_atomic(value, at, "release", 8) and None)


@intrinsic
def call_yield(typing_context: Any, function: Any) -> Any:
    """Call the function at an address that gives up the processor."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        shape = ir.FunctionType(ir.IntType(32), [])
        return builder.sext(builder.call(builder.inttoptr(arguments[0], shape.as_pointer()), []), _WORD)

    return types.int64(types.int64), generate


@intrinsic
def call_source(typing_context: Any, step: Any, given: Any) -> Any:
    """Call the function of a source at an address with six numbers: kind, warp, context, now, p, q; see
    `smlab.sim.instruction_source.CompiledSource`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        shape = ir.FunctionType(_WORD, [_WORD] * 6)
        function = builder.inttoptr(arguments[0], shape.as_pointer())
        return builder.call(function, cgutils.unpack_tuple(builder, arguments[1]))

    return types.int64(types.int64, types.UniTuple(types.int64, 6)), generate


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
    common_at,
    thread_at,
    stopped_at,
    assigned_at,
    sm_at,
    scheduler_at,
    group_at,
    mask_at,
    free_at,
    queued_at,
    server_at,
    ring_at,
    passed_at,
    returning_at,
    warp_at,
    wake_at,
    age_at,
    block_at,
    barrier_at,
    member_at,
    retiring_at,
    counter_at,
    result_at,
    executions_at,
    warp_row_at,
    stall_of_at,
    stall_at,
    stall_row_at,
    job_row_at,
    issue_row_at,
    span_row_at,
    access_at,
    answer_at,
    sector_at,
    asked_bucket_at,
    arrival_at,
    request_at,
    cache_at,
    cache_set_at,
    line_at,
    bucket_at,
    fetched_at,
    second_at,
    slice_at,
    merged_at,
    ready_at,
    point_at,
) = map(records, TABLES)


_BYTE = ir.IntType(8)
_EIGHT = ir.VectorType(_WORD, 8)
_FLAGS = ir.VectorType(ir.IntType(1), 8)


def _load(builder: Any, address: Any) -> Any:
    loaded = builder.load(builder.inttoptr(address, _EIGHT.as_pointer()))
    loaded.align = 8
    return loaded


def _broadcast_words(builder: Any, value: Any) -> Any:
    one = builder.insert_element(ir.Constant(_EIGHT, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    places = ir.Constant(ir.VectorType(ir.IntType(32), 8), [0] * 8)
    return builder.shuffle_vector(one, ir.Constant(_EIGHT, ir.Undefined), places)


def _all(value: int) -> Any:
    return ir.Constant(_EIGHT, [value] * 8)


def _reduced(builder: Any, how: str, value: Any) -> Any:
    name = f"llvm.vector.reduce.{how}.v8i64"
    function = builder.module.globals.get(name)
    function = function or ir.Function(builder.module, ir.FunctionType(_WORD, [_EIGHT]), name)
    return builder.call(function, [value])


@intrinsic
def due(typing_context: Any, address: Any, now: Any) -> Any:
    """Which of eight words are not above ``now``, as a mask."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words, limit = _load(builder, arguments[0]), _broadcast_words(builder, arguments[1])
        found = builder.icmp_signed("<=", words, limit)
        return builder.zext(builder.bitcast(found, _BYTE), _WORD)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def least(typing_context: Any, address: Any, which: Any) -> Any:
    """The least of those of eight words that a mask names; NEVER if it names none."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        named = builder.bitcast(builder.trunc(arguments[1], _BYTE), _FLAGS)
        words = builder.select(named, _load(builder, arguments[0]), _all(NEVER))
        return _reduced(builder, "smin", words)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def free_now(typing_context: Any, masks: Any, frees: Any, now: Any) -> Any:
    """The union of those of eight masks whose resource is free."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        free = _load(builder, arguments[1])
        free = builder.icmp_signed("<=", free, _broadcast_words(builder, arguments[2]))
        return _reduced(builder, "or", builder.select(free, _load(builder, arguments[0]), _all(0)))

    return types.int64(types.int64, types.int64, types.int64), generate


@intrinsic
def free_later(typing_context: Any, masks: Any, frees: Any, now: Any) -> Any:
    """When the first of eight resources is free that is not yet and whose mask is not empty; or NEVER."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        masks, frees = (_load(builder, address) for address in arguments[:2])
        waited = builder.icmp_signed(">", frees, _broadcast_words(builder, arguments[2]))
        waited = builder.and_(waited, builder.icmp_unsigned("!=", masks, _all(0)))
        return _reduced(builder, "smin", builder.select(waited, frees, _all(NEVER)))

    return types.int64(types.int64, types.int64, types.int64), generate
