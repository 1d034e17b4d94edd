"""The two meanings of every vector operation are equal, bit for bit, on random words and on those at the
edges."""

import numpy as np
import pytest

from smlab.sim.compiled.jit import entry
from smlab.sim.isa import memory_layout
from smlab.sim.isa.meanings import rounding, vector_meanings
from smlab.sim.isa.meanings.halves import HALF_POSITIVE, HALF_SATURATE, HALVES_SHIFT
from smlab.sim.isa.meanings.vector_meanings import OPERATIONS
from smlab.sim.isa.vector_operation import VectorOperation, plain
from smlab.sim.isa.vectors.vector_switch import execute_vector

LANE_FIELDS = ("a", "b", "c", "predicate_a", "predicate_b")
FIRST = (memory_layout.register_at(0) - memory_layout.zero_at()) // memory_layout.ROW_BYTES
EDGES = np.array(
    [
        0,
        1,
        2,
        31,
        32,
        33,
        0x80000000,
        0xFFFFFFFF,
        0x7F800000,
        0xFF800000,
        0x7FC00000,
        0x3F800000,
        0x80000001,
        0x7F7FFFFF,
        0x00800000,
        0x4F000000,
        0xCF000000,
        0x4F800000,
        0x3FC00000,
        0x40200000,
        0x7FF00000,
        0x43E00000,
    ],
    dtype=np.uint32,
)


@entry
def execute(op: int, warp: int, lanes: int) -> None:
    execute_vector(op, warp, lanes)


def words(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Words of all kinds: any bits, edges, small counts, ordinary singles."""
    kind = random.integers(0, 10, shape)
    floats = random.normal(0, 100, shape).astype(np.float32).view(np.uint32)
    anything = random.integers(0, 1 << 32, shape, dtype=np.uint32)
    result = np.where(kind < 3, random.choice(EDGES, shape), anything)
    result = np.where(kind == 4, random.integers(0, 64, shape).astype(np.uint32), result)
    return np.where(kind >= 7, floats, result).astype(np.uint32)


def numbers(operation: VectorOperation, random: np.random.Generator) -> dict[str, int]:
    """Values of the numbers that the operation's meaning reads, as the decoder can give them."""
    name = operation.name
    halves = sum(int(random.integers(3)) << HALVES_SHIFT * n for n in range(3))
    cut = int(random.choice([0, 16, 24]))
    halves += int(random.integers(4)) * HALF_POSITIVE + int(random.integers(2)) * HALF_SATURATE
    drawn = {
        "rounding": int(random.choice([0, 3]) if name == "f2h2" else random.integers(4)),
        "cut_bits": cut,
        "first_bit": int(random.integers(0, cut + 1, dtype=int)) // (32 - cut) * (32 - cut),
        "relations": int(random.integers(16)),
        "combine": int(random.integers(3)),
        "half_choice": int(random.integers(8)),
        "half_flags": halves,  # `NAN_WINS` is the bit after `HALF_POSITIVE`
        "power_of_two": int(random.choice([-3, -2, -1, 1, 2, 3])),
        "addend": int(random.integers(3 if name == "iadd3c" else 2)),
        "negated": int(random.integers(8)),
        "shift": int(random.integers(32)),
        "count_limit": int(random.choice([32, 64])),
        "wrap_mask": int(random.choice([0, 31, 63])),
        "truth_table": int(random.integers(256)),
    }
    flags = {field for field in operation.reads if field not in (*drawn, *LANE_FIELDS)}
    drawn |= {field: int(random.integers(2)) for field in sorted(flags)}
    return {field: drawn[field] for field in operation.reads if field in drawn}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: o.name)
def test_equal(operation: VectorOperation) -> None:
    random = np.random.default_rng(operation.name.encode()[0])
    state = np.zeros(memory_layout.warp_bytes(16) // 8 + 64, dtype=np.int64)
    rows = state.view(np.uint32)[memory_layout.zero_at() // 4 :][: 32 * (FIRST + 16)].reshape(-1, 32)
    op = np.zeros(memory_layout.WORDS, dtype=np.int64)
    predicates = state[memory_layout.PREDICATES : memory_layout.PREDICATES + 17]
    for trial in range(12):
        rows[:] = words(random, rows.shape)
        predicates[:] = random.integers(0, 1 << 32, 17)
        op[:] = 0
        given, flip = numbers(operation, random), int(random.choice([0, 0xFFFFFFFF]))
        layout = memory_layout.KINDS[operation.kind]
        fields = {
            "code": vector_meanings.BY_NAME[operation.name],
            "dst": memory_layout.register_at(8),
            **given,
        }
        fields |= {"predicate_a": 0, "predicate_b": 1, "predicate_dst": 2, "predicate_dst_b": 3}
        fields["predicate_a_xor"] = flip
        for name, number in zip("abc", (0, 2, 4), strict=True):
            fields |= {name: memory_layout.register_at(number), f"{name}_reg": -1, f"{name}_and": 0xFFFFFFFF}
        for name, value in fields.items():
            if name in layout:
                op[layout[name]] = value
        lanes = int(random.integers(0, 1 << 32)) if trial % 2 else 0xFFFFFFFF
        before, held = rows.copy(), predicates.copy()
        execute(op.ctypes.data, state.ctypes.data, lanes)
        for lane in range(32):
            got = int(rows[FIRST + 8, lane]) | (int(rows[FIRST + 9, lane]) << 32) * (operation.result == "d")
            if not lanes >> lane & 1:
                assert rows[FIRST + 8, lane] == before[FIRST + 8, lane]
                assert (predicates[2] ^ held[2]) >> lane & 1 == 0
                continue
            read: dict[str, int] = dict(given)
            for n, (name, kind) in enumerate(zip("abc", operation.sources, strict=False)):
                read[name] = int(before[FIRST + 2 * n, lane])
                read[name] |= (int(before[FIRST + 2 * n + 1, lane]) << 32) * (kind == "d")
            read["predicate_a"] = bool((int(held[0]) ^ flip) >> lane & 1)
            read["predicate_b"] = bool(int(held[1]) >> lane & 1)
            value, first, second = operation.meaning(*(read[name] for name in operation.reads))
            told = {name: hex(number) for name, number in read.items()}
            if operation.result == "p":
                assert bool(int(predicates[2]) >> lane & 1) == first, told
                if operation.name in ("hsetp2", "bsetp2"):
                    assert bool(int(predicates[3]) >> lane & 1) == second, told
            else:
                assert got == value, told


def test_a_planted_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison above does fail where a meaning is wrong."""
    wrong = VectorOperation("popc", "i", "i", plain(lambda a: a.bit_count() ^ (a >> 31)))
    with pytest.raises(AssertionError):
        test_equal(wrong)


@pytest.mark.parametrize(
    ("operation", "given", "expected"),
    [
        # (1 + u)^2 - (1 + 2u) is u^2, exactly
        ("ffma", {"a": 0x3F800001, "b": 0x3F800001, "c": 0xBF800002}, 0x28800000),
        # 1 + 2^-24, rounded up, and to the nearest: a tie, to even
        ("fadd", {"a": 0x3F800000, "b": 0x33800000, "rounding": rounding.UP}, 0x3F800001),
        ("fadd", {"a": 0x3F800000, "b": 0x33800000, "rounding": rounding.NEAREST}, 0x3F800000),
        # products half way between two brain floats; what is added is below the last place of a double
        ("bfma2", {"a": 0x3F833F83, "b": 0x3FC03FC0, "c": 0x0D800D80}, 0x3FC53FC5),
        ("bfma2", {"a": 0x3F833F81, "b": 0x3FC03FC0, "c": 0x8D808D80}, 0x3FC43FC1),
        ("f2i", {"a": 0x7FC00000, "is_signed": 1}, 0),  # NaN
        ("f2i", {"a": 0x4F800000, "is_signed": 1}, 0x7FFFFFFF),  # 2^32 saturates
        ("flo", {"a": 1 << 20}, 20),
        ("prmt", {"a": 0x33221100, "b": 0x5410, "c": 0x77665544}, 0x55441100),
    ],
)
def test_known_values(operation: str, given: dict[str, int], expected: int) -> None:
    row = OPERATIONS[vector_meanings.BY_NAME[operation]]
    assert row.meaning(*(given.get(name, 0) for name in row.reads))[0] == expected
