"""The two meanings of every vector operation are equal, bit for bit, on random words and on those at the
edges."""

import numpy as np
import pytest
from numba import njit

from smlab.sim.machine_code import meanings, record, rounding
from smlab.sim.machine_code.half_meanings import HALF_POSITIVE, HALVES_SHIFT
from smlab.sim.machine_code.meanings import OPERATIONS
from smlab.sim.machine_code.vector_operation import VectorOperation, plain
from smlab.sim.machine_code.vectors import execute_vector

PLACE = record.PLACE
FIRST = (record.register_at(0) - record.zero_at()) // record.ROW_BYTES
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


@njit
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


def numbers(operation: VectorOperation, random: np.random.Generator) -> tuple[int, int]:
    """Values of ``i`` and ``j`` that the decoder can give an operation."""
    name = operation.name
    if name == "lop3":
        return int(random.integers(256)), 0
    if name == "fmul.scaled":
        return int(random.choice([0, 1, 2, 3, 4, 8, 12])), int(random.choice([-3, -2, -1, 1, 2, 3]))
    if name in ("fadd", "fmul", "ffma"):
        return int(random.choice([0, 1, 2, 3, 4, 8, 12])), 0
    if name in ("dadd", "dmul", "dfma", "d2f"):
        return int(random.integers(4)), 0
    if name.startswith(("shl", "shr", "sar")):
        return int(random.choice([32, 64])), int(random.choice([0, 31, 63]))
    if name.startswith("lea"):
        return int(random.integers(2)), int(random.integers(32))
    if name == "iadd3c":
        return int(random.integers(3)), 0
    if name.startswith(("hadd2", "hmul2", "hfma2", "hset", "hmnmx2", "bfma2", "bset", "bmnmx2")):
        halves = sum(int(random.integers(3)) << HALVES_SHIFT * n for n in range(3))
        halves += int(random.integers(4)) * HALF_POSITIVE  # and `NAN_WINS`, the bit after it
        return halves + int(random.integers(2)) * 64 + int(random.integers(16)) * 256, int(random.integers(3))
    if name == "fmnmx":
        return int(random.choice([0, 4, 16, 20])), 0
    if name == "fset":
        return int(random.integers(16)), int(random.choice([0, 1, 2, 16, 17]))
    if name in ("f2h2", "f2b2", "d2b", "hrnd", "brnd"):
        return int(random.choice([0, 3] if name == "f2h2" else [0, 1, 2, 3])), 0
    if name == "idp4a":
        return int(random.integers(4)), 0
    if name in ("i2f", "i2d", "i2h", "i2b"):
        return int(random.integers(8)), int(random.choice([0, 16, 24]))
    if name in ("l2h", "l2b", "h2l", "b2l"):
        return int(random.choice([0, 4])) + (
            int(random.integers(4)) if name[1] == "2" and name[2] == "l" else 0
        ), 0
    if name in ("f2i", "h2i", "b2i"):
        return int(random.integers(8)), int(random.integers(2)) + 2 * int(random.choice([0, 16, 24]))
    if name.endswith("setp"):
        return int(random.integers(16)), int(random.choice([0, 1, 2, 4, 5, 8 if name == "fsetp" else 0]))
    if name in ("f2l", "frnd"):
        return int(random.integers(8)), int(random.integers(2))
    return int(random.integers(8)) if name[1:2] == "2" or name == "drnd" else int(random.integers(2)), 0


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: o.name)
def test_equal(operation: VectorOperation) -> None:
    random = np.random.default_rng(operation.name.encode()[0])
    state = np.zeros(record.warp_bytes(16) // 8 + 64, dtype=np.int64)
    rows = state.view(np.uint32)[record.zero_at() // 4 :][: 32 * (FIRST + 16)].reshape(-1, 32)
    op = np.zeros(record.WORDS, dtype=np.int64)
    predicates = state[record.PREDICATES : record.PREDICATES + 17]
    for trial in range(12):
        rows[:] = words(random, rows.shape)
        predicates[:] = random.integers(0, 1 << 32, 17)
        op[:] = 0
        i, j = numbers(operation, random)
        fields = {"code": meanings.BY_NAME[operation.name], "dst": record.register_at(8), "i": i, "j": j}
        fields |= {"p": 0, "q": 1, "pd": 2, "qd": 3, "p_xor": int(random.choice([0, 0xFFFFFFFF]))}
        for name, number in zip("abc", (0, 2, 4), strict=True):
            fields |= {name: record.register_at(number), f"{name}_reg": -1, f"{name}_and": 0xFFFFFFFF}
        for name, value in fields.items():
            op[PLACE[name]] = value
        lanes = int(random.integers(0, 1 << 32)) if trial % 2 else 0xFFFFFFFF
        before, held = rows.copy(), predicates.copy()
        execute(op.ctypes.data, state.ctypes.data, lanes)
        for lane in range(32):
            got = int(rows[FIRST + 8, lane]) | (int(rows[FIRST + 9, lane]) << 32) * (operation.result == "d")
            if not lanes >> lane & 1:
                assert rows[FIRST + 8, lane] == before[FIRST + 8, lane]
                assert (predicates[2] ^ held[2]) >> lane & 1 == 0
                continue
            sources = [0, 0, 0]
            for n, kind in enumerate(operation.sources):
                sources[n] = int(before[FIRST + 2 * n, lane])
                sources[n] |= (int(before[FIRST + 2 * n + 1, lane]) << 32) * (kind == "d")
            p = bool((int(held[0]) ^ fields["p_xor"]) >> lane & 1)
            q = bool(int(held[1]) >> lane & 1)
            value, first, second = operation.meaning(*sources, p, q, i, j)
            told = [hex(s) for s in sources], p, q, i, j
            if operation.result == "p":
                assert bool(int(predicates[2]) >> lane & 1) == first, told
                if operation.name in ("hsetp2", "bsetp2"):
                    assert bool(int(predicates[3]) >> lane & 1) == second, told
            else:
                assert got == value, told


def test_a_planted_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison above does fail where a meaning is wrong."""
    wrong = VectorOperation("popc", "i", "i", plain(lambda a, b, c, i, j: a.bit_count() ^ (a >> 31)))
    with pytest.raises(AssertionError):
        test_equal(wrong)


@pytest.mark.parametrize(
    ("operation", "sources", "i", "expected"),
    [
        ("ffma", (0x3F800001, 0x3F800001, 0xBF800002), 0, 0x28800000),  # (1 + u)^2 - (1 + 2u) is u^2, exactly
        ("fadd", (0x3F800000, 0x33800000, 0), rounding.UP, 0x3F800001),  # 1 + 2^-24, rounded up
        ("fadd", (0x3F800000, 0x33800000, 0), rounding.NEAREST, 0x3F800000),  # a tie, to even
        # products half way between two brain floats; what is added is below the last place of a double
        ("bfma2", (0x3F833F83, 0x3FC03FC0, 0x0D800D80), 0, 0x3FC53FC5),
        ("bfma2", (0x3F833F81, 0x3FC03FC0, 0x8D808D80), 0, 0x3FC43FC1),
        ("f2i", (0x7FC00000, 0, 0), 4, 0),  # NaN
        ("f2i", (0x4F800000, 0, 0), 4, 0x7FFFFFFF),  # 2^32 saturates
        ("flo", (1 << 20, 0, 0), 0, 20),
        ("prmt", (0x33221100, 0x5410, 0x77665544), 0, 0x55441100),
    ],
)
def test_known_values(operation: str, sources: tuple[int, int, int], i: int, expected: int) -> None:
    meaning = OPERATIONS[meanings.BY_NAME[operation]].meaning
    assert meaning(*sources, True, True, i, 0)[0] == expected
