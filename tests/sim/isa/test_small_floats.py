"""Conversions to and from floats of 8, 6 and 4 bits and powers of two, as machine code, held against a search
among all numbers that a type has."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim.execution.run import run_machine_code
from smlab.sim.isa.launch.launch import MachineLaunch

Launch = Callable[..., MachineLaunch]


def numbers(exponents: int, digits: int, largest: float) -> list[float]:
    """The numbers of a type that are not negative, by their bits."""
    bias, found = 2 ** (exponents - 1) - 1, []
    for bits in range(2 ** (exponents + digits)):
        exponent, fraction = divmod(bits, 2**digits)
        scale = 2.0 ** (max(exponent, 1) - bias - digits)
        found.append(scale * (fraction + (2**digits if exponent else 0)))
    return [x for x in found if x <= largest]


TYPES = {
    "E4M3": numbers(4, 3, 448),
    "E5M2": numbers(5, 2, 57344),
    "E2M3": numbers(2, 3, 7.5),
    "E3M2": numbers(3, 2, 28),
    "E2M1": numbers(2, 1, 6),
}
SIGNS = {"E4M3": 0x80, "E5M2": 0x80, "E2M3": 0x20, "E3M2": 0x20, "E2M1": 0x8}


def nearest(value: float, name: str, positive: bool) -> int:
    """Of two that are as near the one whose bits are even."""
    every = TYPES[name]
    if math.isnan(value):
        return 0x7F if name in ("E4M3", "E5M2") else len(every) - 1
    if positive and (value < 0 or math.copysign(1, value) < 0):
        return 0
    size = min(abs(value), every[-1])
    bits = min(range(len(every)), key=lambda n: (abs(every[n] - size), n % 2))
    return bits | SIGNS[name] * (math.copysign(1, value) < 0)


def singles() -> np.ndarray:
    """Ordinary ones, ones half way between two, and the rare ones; the high and the low of 32 pairs."""
    random = np.random.default_rng(8)
    ordinary = random.normal(0, 6, 64)
    halves = random.integers(-80, 80, 64) / 16
    rare = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1e30,
        -1e30,
        2.0**-127,
        -(2.0**-149),
        448.0,
        464.0,
        61440.0,
        0.3,
    ]
    drawn = np.where(random.random(64) < 0.5, ordinary, halves)
    drawn[: len(rare)] = rare
    return random.permutation(drawn).astype(np.float32)


def run(launch: Launch, lines: list[str], given: np.ndarray, engine: str) -> list[int]:
    """R8 of each lane after these lines, which find two words of each in R4 and R5."""
    made = np.zeros(32, np.uint32)
    code = [
        "S2R R0, SR_TID.X",
        "IMAD.WIDE R2, R0, 0x8, c[0x0][0x160]",
        "LDG.E.64 R4, [R2]",
        "MOV R7, 0xabcd1234",
        *lines,
        "IMAD.WIDE R2, R0, 0x4, c[0x0][0x168]",
        "STG.E [R2], R8",
        "EXIT",
    ]
    run_machine_code(launch(code, given, made, shared=0), load_gpu("b200"), engine=engine)
    return made.tolist()


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
@pytest.mark.parametrize("relu", ["", "RELU."])
@pytest.mark.parametrize("name", TYPES)
def test_the_nearest_of_all_numbers(launch: Launch, name: str, relu: str, engine: str) -> None:
    given = singles()
    made = run(launch, [f"F2FP.SATFINITE.{relu}{name}.F32.PACK_AB_MERGE_C R8, R5, R4, R7"], given, engine)
    step = 4 if name == "E2M1" else 8
    for word, low, high in zip(made, given[::2].tolist(), given[1::2].tolist(), strict=True):
        pair = nearest(low, name, bool(relu)) | nearest(high, name, bool(relu)) << step
        assert word == (pair | 0xABCD1234 << 2 * step) & 0xFFFFFFFF, (low, high)


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("name", TYPES)
def test_what_a_pair_is_as_halves(launch: Launch, name: str, place: int, engine: str) -> None:
    """Of 4 bits any byte of the register, of 8 and 6 bits either half."""
    of_four_bits = name == "E2M1"
    text, first = (f".B{place}", 8 * place) if of_four_bits else (f".H{place % 2}", 16 * (place % 2))
    given = np.random.default_rng(place).integers(0, 2**32, 64, dtype=np.uint32)
    text = text if text[-1] != "0" else ""
    made = run(launch, [f"F2FP.F16.{name}.UNPACK_B R8, R4{text}"], given, engine)
    one = "4.5736980577097704378e-41.H0"  # a pair of powers of two, both 1
    wide = run(launch, [f"F2FP.BF16.{name}.UNPACK_B R8, R4{text}, {one}"], given, engine)
    for word, pair in zip(wide, made, strict=True):
        found = np.array([word << 16 & 0xFFFF0000, word & 0xFFFF0000], np.uint32).view(np.float32)
        halves = np.array([pair], np.uint32).view(np.float16).astype(np.float32)
        assert np.array_equal(found, halves, equal_nan=True)
    step, sign, every = (4 if of_four_bits else 8), SIGNS[name], TYPES[name]
    for word, source in zip(made, given[::2].tolist(), strict=True):
        for n, half in enumerate(np.array([word], np.uint32).view(np.float16).tolist()):
            bits = source >> first + step * n & (2 * sign - 1)
            if bits & (sign - 1) < len(every):
                assert half == every[bits & (sign - 1)] * (-1 if bits & sign else 1)
            else:  # E4M3's NaN, and E5M2's infinity and NaN
                assert math.isinf(half) if name == "E5M2" and bits & 0x7F == 0x7C else math.isnan(half)


@pytest.mark.parametrize("engine", ["compiled", "simpy"])
@pytest.mark.parametrize("way", ["RZ", "RP"])
@pytest.mark.parametrize("finite", ["", "SATFINITE."])
def test_powers_of_two(launch: Launch, way: str, finite: str, engine: str) -> None:
    given = singles()
    made = run(launch, [f"F2FP.{finite}E8.F32.PACK_AB_MERGE_C.{way} R8, R5, R4, R7.H1"], given, engine)
    powers = [2.0 ** (n - 127) for n in range(255)]

    def power(value: float) -> int:
        size = abs(value)
        if math.isnan(size):
            return 255
        if math.isinf(size):
            return 254 if finite else 255
        inside = [n for n, p in enumerate(powers) if (p >= size if way == "RP" else p <= size)]
        return inside[0] if way == "RP" else max(inside, default=0)

    for word, low, high in zip(made, given[::2].tolist(), given[1::2].tolist(), strict=True):
        assert word == power(low) | power(high) << 8 | 0xABCD << 16, (low, high)
    back = run(launch, ["F2FP.BF16.E8.UNPACK_B R8, R4.H1"], given, engine)
    for word, source in zip(back, given.view(np.uint32)[::2].tolist(), strict=True):
        wanted = [powers[b] if b < 255 else math.nan for b in (source >> 16 & 255, source >> 24)]
        found = (np.array([word << 16 & 0xFFFF0000, word & 0xFFFF0000], np.uint32)).view(np.float32)
        assert np.array_equal(found, np.array(wanted, np.float32), equal_nan=True)
