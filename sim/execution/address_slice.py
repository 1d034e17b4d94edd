"""Which instructions of a kernel tell what it asks of global memory: the rest may be left out where only its
addresses matter.

A backward slice (Weiser 1981) on registers and predicates. It begins with the addresses of all accesses to
global memory, their guards, and all that control takes. What memory holds belongs to it only where an
instruction of the slice reads it: a product of matrices whose operands pass through shared memory needs
neither its values nor what lies there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from smlab.sim.isa import matrix_products, memory_layout
from smlab.sim.isa import operation_codes as d
from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.meanings.vector_meanings import OPERATIONS, VECTOR_CODES

EXECUTED, ADDRESSED, LEFT_OUT = range(3)
"""What is done with an instruction: all of it, the addresses of its lanes alone, or nothing."""

_ON_REGISTERS: Final = (
    *(
        d.MMA,
        d.MMA_QUADS,
        d.MMA_SCALED,
        d.TRANSPOSE,
        d.PLOP3,
        d.SHUFFLE,
        d.VOTE,
        d.MATCH,
        d.REDUCE,
        d.SPECIAL,
    ),
    *(
        d.LOAD_CONSTANT,
        d.R2P,
        d.P2R,
        d.NOP,
        d.ELECT,
        d.READ_CHOSEN,
        d.EMPTY_GROUP,
        d.AWAIT_PRODUCTS,
        d.MMA_GROUP,
    ),
)
"""What changes registers and predicates alone, besides the vector operations. (Waiting for products changes
nothing, and products by a group of warps read shared memory as well.)"""
_ASYNCHRONOUS: Final = (d.MEMORY_BARRIER, d.BULK_COPY, d.TENSOR_COMMIT, d.TENSOR_ALLOCATE)
"""What is executed whatever its result is for: warps wait for it."""
_NAMES_OF_COPY: Final = 7
"""Registers that a bulk copy names at most: places in shared memory, and coordinates."""
_ACCESSES: Final = (d.LOAD, d.STORE, d.ATOMIC, d.COPY, d.LOAD_MATRIX, d.STORE_MATRIX)
_IN_TENSOR_MEMORY: Final = (d.TENSOR_LOAD, d.TENSOR_STORE, d.TENSOR_PRODUCT, d.TENSOR_COPY)
_CONTROL: Final = (
    *(d.EXIT, d.BRANCH, d.BRANCH_SPLIT, d.BSSY, d.BSYNC, d.BREAK, d.WARPSYNC, d.BARRIER, d.JUMP, d.YIELD),
    *(d.BARRIER_REDUCE, d.BARRIER_RESULT, d.KILL, d.BMOV_OUT, d.BMOV_IN, d.DEPBAR, d.BRANCH_ANY),
)
_BETWEEN_LANES: Final = (
    *(d.MMA, d.MMA_QUADS, d.MMA_SCALED, d.MMA_GROUP, d.TRANSPOSE, d.SHUFFLE, d.VOTE, d.MATCH, d.REDUCE),
    *(d.READ_CHOSEN, d.STORE_MATRIX, d.LOAD_MATRIX, d.BULK_COPY, *_IN_TENSOR_MEMORY),
    *(d.TENSOR_COMMIT, d.TENSOR_ALLOCATE),
)
_ON_CONVERGENCE_BARRIERS: Final = (d.BSSY, d.BSYNC, d.BREAK, d.BMOV_OUT, d.BMOV_IN)
_FIRST_ROW: Final = memory_layout.barrier_at(0)
_PREDICATES_AT: Final = 1 << 12
"""Where predicates begin in a set of places, behind all rows."""
_ALL_SPACES: Final = frozenset((d.GLOBAL, d.SHARED, d.LOCAL))
_MAPS: Final = -1
"""Tensor maps in global memory: what a kernel may write by a store or an atomic, and copies read."""
_ALL_MEMORY: Final = _ALL_SPACES | {d.TENSOR, _MAPS}


Guard: TypeAlias = tuple[int, int]
"""A predicate, and whether it is turned around."""
Needs: TypeAlias = dict[Guard, int]
"""Places whose values matter, by the guard of the lanes in which they do."""
_ALL_LANES: Final[Guard] = (memory_layout.PT, 0)


def _need(needs: Needs, guard: Guard, places: int) -> None:
    needs[guard] = needs.get(guard, 0) | places


def _joined(needs: Needs) -> int:
    found = 0
    for places in needs.values():
        found |= places
    return found


def _rows(first: int, count: int) -> int:
    """Rows of a warp as a set of places, a bit each."""
    return ((1 << count) - 1) << ((first - _FIRST_ROW) // memory_layout.ROW_BYTES)


def _predicates(numbers: Iterator[int] | Sequence[int]) -> int:
    found = 0
    for number in numbers:
        if number not in (memory_layout.PT, memory_layout.UPT, memory_layout.NO_PREDICATE):
            found |= 1 << (_PREDICATES_AT + number)
    return found


@dataclass(frozen=True)
class _Effects:
    """What an instruction reads and writes: places of registers and predicates, and spaces of memory.

    ``address`` is what its addresses take, guard included, ``data`` what it takes besides. ``always`` are
    the places that it writes in all lanes that take part.
    """

    micro: MicroOperation

    def _field(self, name: str) -> int:
        return self.micro.fields.get(name, memory_layout.UNSET.get(name, 0))

    def _source(self, name: str, rows: int) -> int:
        return _rows(self._field(name), rows) if self._field(f"{name}_reg") else 0

    @cached_property
    def words(self) -> int:
        """Registers that an access moves."""
        if self.micro.code in (d.LOAD_MATRIX, d.STORE_MATRIX):
            return self._field("matrices")
        return max(1, self._field("width_bytes") // 4)

    @cached_property
    def spaces(self) -> frozenset[int]:
        if self.micro.code not in _ACCESSES:
            return frozenset()
        space = self._field("space")
        return _ALL_SPACES if space == d.GENERIC else frozenset((space,))

    @cached_property
    def reads_memory(self) -> frozenset[int]:
        if self.micro.code == d.COPY:
            return frozenset((d.GLOBAL,))
        if self.micro.code == d.BULK_COPY:
            # What one brings to shared memory counts as it was before the launch: matrices that the launch
            # itself has stored before say no addresses, but barriers and such lie beside them in shared
            # memory.
            return frozenset((d.SHARED,)) if self._field("to_global") else frozenset()
        if self.micro.code in (d.MMA_GROUP, d.TENSOR_COPY):
            return frozenset((d.SHARED,))
        if self.micro.code == d.TENSOR_PRODUCT:
            return frozenset((d.SHARED, d.TENSOR))
        if self.micro.code == d.TENSOR_LOAD:
            return frozenset((d.TENSOR,))
        return self.spaces if self.micro.code in (d.LOAD, d.LOAD_MATRIX, d.ATOMIC) else frozenset()

    @cached_property
    def writes_memory(self) -> frozenset[int]:
        if self.micro.code == d.COPY:
            return frozenset((d.SHARED,))
        if self.micro.code == d.BULK_COPY:
            if self._field("to_l2"):
                return frozenset()
            return frozenset((d.GLOBAL if self._field("to_global") else d.SHARED,))
        if self.micro.code in (d.TENSOR_PRODUCT, d.TENSOR_STORE, d.TENSOR_COPY):
            return frozenset((d.TENSOR,))
        if self.micro.code not in (d.STORE, d.STORE_MATRIX, d.ATOMIC):
            return frozenset()
        return self.spaces | {_MAPS} if d.GLOBAL in self.spaces else self.spaces

    @cached_property
    def address(self) -> int:
        found = _predicates([self._field("guard")])
        if self.micro.code in _ACCESSES:
            words = 1 if self._field("address_form") == d.NARROW else 2
            found |= self._source("a", words) | self._source("b", words)
        if self.micro.code == d.COPY:
            found |= _predicates([self._field("predicate_a")]) | self._source("shared_base", 1)
        return found

    @cached_property
    def data(self) -> int:
        code, layout = self.micro.code, self.micro.layout
        if code in _ACCESSES:
            words = 1 if code == d.COPY else min(self.words, 4)
            found = self._source("c", words) if "c" in layout else 0
            if "second_c" in self.micro.fields:
                found |= _rows(self._field("second_c"), 4)
            return found | (self._source("swap_value", words) if "swap_value" in layout else 0)
        counts = dict.fromkeys("abc", 1 if code in (d.REDUCE, d.SHUFFLE, d.READ_CHOSEN) else 2)
        if code == d.BULK_COPY:
            counts = {"a": _NAMES_OF_COPY, "b": 2, "c": 1}
        elif code == d.MMA_GROUP:
            counts = {"a": 4, "b": 2, "c": self._result_rows()}
        elif code in (d.TENSOR_LOAD, d.TENSOR_STORE, d.TENSOR_ALLOCATE, d.TENSOR_COMMIT):
            counts = {"a": 1, "c": 0 if self._field("zeros") else self._field("registers")}
        elif code == d.TENSOR_PRODUCT:
            counts = {"a": 2, "b": 2, "c": 1, "product_descriptor": 1, "scales": 2}
        elif code == d.TENSOR_COPY:
            counts = {"a": 1, "b": 2}
        if code < VECTOR_CODES:
            counts = {n: 1 + (k == "d") for n, k in zip("abc", OPERATIONS[code].sources, strict=False)}
        elif code in (d.MMA, d.MMA_SCALED):
            groups, steps = self._field("row_groups"), self._field("k_steps")
            counts = {"a": 2 * groups * steps, "b": 2 * steps, "c": 4 * groups}
            counts |= {"first_scales": 1, "second_scales": 1, "scale_choice": 1}
        elif code == d.MMA_QUADS:
            counts = dict.fromkeys("abc", 8)
        found = 0
        for name, count in counts.items():
            if name in layout:
                found |= self._source(name, count)
        for name in ("predicate_a", "predicate_b", "predicate_c", "predicate_sum"):
            if name in layout:
                found |= _predicates([self._field(name)])
        first = self._field("mode")
        return found | (_predicates(range(first, first + 7)) if code == d.P2R else 0)

    @cached_property
    def writes(self) -> int:
        code, layout, found = self.micro.code, self.micro.layout, 0
        for name in ("predicate_dst", "predicate_dst_b", "done_predicate", "phase_predicate"):
            if name in layout:
                found |= _predicates([self._field(name)])
        if code == d.R2P:
            return found | _predicates(range(7))
        if "dst" not in self.micro.fields:
            return found
        if "second_dst" in self.micro.fields:
            kept = self._field("words_kept")
            low, high = (kept & 15).bit_count(), (kept >> 4).bit_count()
            return found | _rows(self._field("dst"), low) | _rows(self._field("second_dst"), high)
        return found | _rows(self._field("dst"), self._result_rows())

    def _result_rows(self) -> int:
        code = self.micro.code
        if code < VECTOR_CODES:
            return 1 + (OPERATIONS[code].result == "d")
        if code in (d.MMA, d.MMA_SCALED):
            total = self._field("sum_type")
            each = {matrix_products.HALF_SUM: 1, matrix_products.DOUBLE_SUM: 4}.get(total, 2)
            return each * self._field("row_groups")
        if code == d.MMA_QUADS:
            return 8
        if code == d.MMA_GROUP:
            each = 2 if self._field("sum_type") == matrix_products.HALF_SUM else 4
            return each * self._field("column_groups")
        if code == d.MEMORY_BARRIER:
            return 2
        if code == d.TENSOR_LOAD:
            return self._field("registers")
        if code in (d.LOAD, d.ATOMIC, d.LOAD_CONSTANT, d.SPECIAL, d.LOAD_MATRIX):
            return self.words
        return 1

    @cached_property
    def guard(self) -> Guard:
        """What lanes take part."""
        return self._field("guard"), self._field("guard_xor")

    @cached_property
    def always(self) -> int:
        """A part of a product, what writes some predicates of a register, and an atomic that tells nothing
        may leave a place as it was."""
        partly = self.micro.code in (d.MMA_QUADS, d.R2P, d.ATOMIC, d.MATCH)
        partly |= self._field("lane_shape") in (d.LOW_HALF, d.HIGH_HALF) and self.micro.code == d.TENSOR_LOAD
        return 0 if partly else self.writes

    def before(self, behind: Needs, action: int) -> Needs:
        """What is needed before it, with what is needed behind it."""
        found = dict(behind)
        if action == LEFT_OUT:
            return found
        for guard in found if self.guard == _ALL_LANES else (self.guard,):
            found[guard] = found.get(guard, 0) & ~self.always
        # A guard that is written here had another value before.
        for guard in [g for g in found if self.writes & _predicates([g[0]])]:
            _need(found, _ALL_LANES, found.pop(guard))
        own = _predicates([self.guard[0]])
        read = self.address | (self.data if action == EXECUTED else 0)
        _need(found, _ALL_LANES, own)
        _need(found, self.guard, read & ~own)
        return found


def slice_for_addresses(code: Sequence[MicroOperation]) -> NDArray[np.int8]:
    """What to do with each instruction where addresses in global memory alone matter. All are executed where
    one is of a kind that is not known here."""
    actions = np.full(len(code), EXECUTED, dtype=np.int8)
    effects = [_Effects(micro) for micro in code]
    if any(not _known(micro) for micro in code):
        return actions
    following = [_following(code, n) for n in range(len(code))]
    # A copy by an empty map moves nothing, and its block would wait for it forever.
    spaces: frozenset[int] = frozenset((_MAPS,) if changes_maps(code) else ())
    while True:
        _, needed = _needed(effects, following, spaces)
        read: frozenset[int] = spaces
        for effect, behind in zip(effects, needed, strict=True):
            if effect.writes & behind or (effect.writes_memory & spaces):
                read |= effect.reads_memory
        if read == spaces:
            break
        spaces = read
    for n, effect in enumerate(effects):
        actions[n] = _action(effect, needed[n], spaces)
    return actions


def changes_maps(code: Sequence[MicroOperation]) -> bool:
    """Whether a kernel makes or changes tensor maps: then it says when they may be read anew."""
    return any(m.instruction.opcode == "UTMACCTL" and "IV" in m.instruction.modifiers for m in code)


def rows_to_clear(code: Sequence[MicroOperation]) -> tuple[int, ...] | None:
    """The rows of a warp, by their offsets, that code may read before it has written them, so that they have
    to be zeros when a warp starts; None: all, as an instruction is of a kind that is not known here.

    Where lanes read others' registers, those count as well: a lane that takes no part may not have come to
    the instruction that writes its own.
    """
    if any(not _known(micro) for micro in code):
        return None
    effects = [_Effects(micro) for micro in code]
    before, _ = _needed(effects, [_following(code, n) for n in range(len(code))], _ALL_MEMORY, True)
    read = before[0]
    for effect in effects:
        if effect.micro.code in _BETWEEN_LANES:
            read |= effect.data | effect.address
        elif effect.micro.code in _ON_CONVERGENCE_BARRIERS:
            read |= _rows(_FIRST_ROW, memory_layout.BARRIERS)
    never_written = _rows(memory_layout.zero_at(), memory_layout.ZERO_ROWS)
    rows, found = read & ((1 << _PREDICATES_AT) - 1) & ~never_written, []
    while rows:
        found.append(_FIRST_ROW + ((rows & -rows).bit_length() - 1) * memory_layout.ROW_BYTES)
        rows &= rows - 1
    return tuple(found)


def _known(micro: MicroOperation) -> bool:
    known = (*_ON_REGISTERS, *_ACCESSES, *_CONTROL, *_ASYNCHRONOUS, *_IN_TENSOR_MEMORY)
    return micro.code < VECTOR_CODES or micro.code in known


def _following(code: Sequence[MicroOperation], n: int) -> tuple[int, ...] | None:
    """Where an instruction goes on; None: anywhere, as its target is in a register."""
    kind = code[n].code
    if kind == d.JUMP:
        return None
    under = {name: code[n].fields.get(name, memory_layout.PT) for name in ("guard", "predicate_a")}
    if kind in (d.EXIT, d.KILL) and set(under.values()) == {memory_layout.PT}:
        return ()  # what stands behind the end, or behind a trap, is reached from elsewhere
    found = [n + 1] if n + 1 < len(code) else []
    if kind in (d.BRANCH, d.BRANCH_SPLIT, d.BRANCH_ANY) and 0 <= (target := code[n].fields["target"]) < len(
        code
    ):
        found.append(target)
    return tuple(found)


def _action(effect: _Effects, behind: int, spaces: frozenset[int]) -> int:
    code = effect.micro.code
    if code in _CONTROL or code in _ASYNCHRONOUS or effect.writes & behind or effect.writes_memory & spaces:
        return EXECUTED
    if code not in _ACCESSES:
        return LEFT_OUT
    if effect.spaces == _ALL_SPACES:
        return EXECUTED  # only its addresses say which memory it is
    return ADDRESSED if d.GLOBAL in effect.spaces else LEFT_OUT


def _needed(
    effects: Sequence[_Effects],
    following: Sequence[tuple[int, ...] | None],
    spaces: frozenset[int],
    executes_all: bool = False,
) -> tuple[list[int], list[int]]:
    """The places whose values matter before and behind each instruction, where the contents of ``spaces`` do,
    or all instructions are executed. What is read under a guard and written under the same one does not
    matter before."""
    before: list[Needs] = [{} for _ in effects]
    behind = [0] * len(effects)
    changed = True
    while changed:
        changed, anywhere = False, 0
        for needs in before:
            anywhere |= _joined(needs)
        for n in range(len(effects) - 1, -1, -1):
            after = following[n]
            found: Needs = {_ALL_LANES: anywhere if after is None else 0}
            for m in after or ():
                for guard, places in before[m].items():
                    _need(found, guard, places)
            effect, behind[n] = effects[n], _joined(found)
            action = EXECUTED if executes_all else _action(effect, behind[n], spaces)
            found = effect.before(found, action)
            if found != before[n]:
                before[n], changed = found, True
    return [_joined(needs) for needs in before], behind
