"""How long a product of matrices keeps its scheduler's tensor core: multiply-adds at the rate of its type."""

import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass import parse_listing
from smlab.hw_bench.sass.operations import TensorProduct, tensor_product
from smlab.sim.machine import TICKS_PER_CYCLE, machine_from

LINE = ".text.k:\n        /*0000*/  {} R4, R8, R12, R16 ;\n"


def product(opcode: str) -> TensorProduct | None:
    function = parse_listing(f"\t.section .text.k\n{LINE.format(opcode)}", "k")[0]
    return tensor_product(function.instructions[0])


@pytest.mark.parametrize(
    ("opcode", "kind", "multiply_adds"),
    [
        ("HMMA.16816.F32", "fp16_fp32", 2048),
        ("HMMA.1688.F16", "fp16", 1024),
        ("HMMA.1684.F32.TF32", "tf32", 512),
        ("HMMA.884.F32.F32.STEP2", "fp16_fp32", 256),
        ("HMMA.884.F16.F16.STEP1", "fp16", 512),
        ("IMMA.8816.S8.S8", "int8", 1024),
        ("IMMA.16864.S4.U4", "int4", 8192),
        ("BMMA.168256.AND.POPC", "int1", 32768),
        ("DMMA.8x8x4", "fp64", 256),
        ("QMMA.16832.F16.E4M3.E5M2", "fp8", 4096),
        ("QMMA.16832.F16.E4M3.E2M1", "fp6", 4096),
    ],
)
def test_what_is_multiplied(opcode: str, kind: str, multiply_adds: int) -> None:
    found = product(opcode)
    assert found is not None
    assert (found.type, found.multiply_adds) == (kind, multiply_adds)


GROUP = ".text.k:\n        /*0000*/  {} ;\n"


def group_product(text: str) -> TensorProduct | None:
    return tensor_product(parse_listing(f"\t.section .text.k\n{GROUP.format(text)}", "k")[0].instructions[0])


@pytest.mark.parametrize(
    ("text", "kind", "multiply_adds", "interval", "latency"),
    [
        ("HGMMA.64x256x16.F32 R24, gdesc[UR4], R24, gsb0", "fp16_fp32", 65536, 128, 171),
        ("HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4].tnspB, R24", "bf16", 16384, 32, 75),  # as published
        ("HGMMA.64x128x16.F32 R24, gdesc[UR4], R24", "fp16_fp32", 32768, 64, 107),  # as published
        (
            "HGMMA.64x8x16.F32 R24, gdesc[UR4], R24",
            "fp16_fp32",
            2048,
            18,
            47,
        ),  # 16 + 2 wavefronts of 128 bytes, which delay the next product; as published
        ("HGMMA.64x8x16.F16 R24, R28, gdesc[UR4], R24", "fp16", 2048, 4, 37),  # as published
        ("HGMMA.64x64x8.F32.TF32 R24, R28, gdesc[UR4], R24", "tf32", 8192, 32, 65),
        ("QGMMA.64x256x32.F32.E4M3.E5M2 R24, R4, gdesc[UR4], R24", "fp8_fp32", 131072, 128, 161),
        ("IGMMA.64x64x32.S8.S8 R24, gdesc[UR8], R24", "int8", 32768, 32, 75),
    ],
)
def test_a_warps_part_of_a_product_of_a_group(
    text: str, kind: str, multiply_adds: int, interval: int, latency: int
) -> None:
    """Multiply-adds at the rated rate, or the bytes of the matrices in shared memory if they take longer; the
    result does not wait for those."""
    found = group_product(text)
    assert found is not None
    assert (found.type, found.multiply_adds) == (kind, multiply_adds)
    timing = machine_from(load_gpu("h100-sxm")).tensor_timing(found)
    assert timing is not None
    assert (timing.interval_cycles, timing.latency_cycles) == (interval, latency)


def test_other_instructions_multiply_no_matrices() -> None:
    assert product("FFMA") is None


@pytest.mark.parametrize(
    ("gpu", "opcode", "cycles"),
    [
        ("a100-40", "HMMA.16816.F32", 8),
        ("a100-40", "IMMA.8816.S8.S8", 4),  # as long as for 16 rows
        ("a100-40", "DMMA.884", 16),  # doubles have eight rows
        ("rtx-3090", "HMMA.16816.F32", 32),
        ("rtx-3090", "HMMA.16816.F16", 16),
        ("a6000", "HMMA.16816.F32", 16),
        ("v100", "HMMA.884.F32.F32.STEP0", 2),
        ("h100-sxm", "HMMA.16816.F32", 2048 / 335),
        ("b200", "HMMA.16816.F32.BF16", 2048 / 250),
        ("rtx-5090", "HMMA.1688.F32", 32),  # as long as for rows of 32 bytes
        ("rtx-5090", "QMMA.16832.F16.E2M1.E2M1", 32),
        ("rtx-5090", "QMMA.16832.F16.E4M3.E4M3", 16),
    ],
)
def test_the_interval_of_a_product(gpu: str, opcode: str, cycles: float) -> None:
    timing = machine_from(load_gpu(gpu)).tensor_timing(product(opcode))
    assert timing is not None
    ticks = timing.interval_cycles * TICKS_PER_CYCLE + timing.fraction_ticks
    assert ticks == round(cycles * TICKS_PER_CYCLE)


def test_a_type_without_a_rate_takes_the_pipe_s_own_time() -> None:
    assert machine_from(load_gpu("v100")).tensor_timing(product("IMMA.8816.S8.S8")) is None


@pytest.mark.parametrize(
    ("opcode", "interval", "latency"),
    [("DMMA.8x8x4", 16, 26), ("DMMA.16x8x8", 32, 50), ("DMMA.16x8x16", 64, 82)],
)
def test_a_chain_of_products_of_doubles_takes_what_our_h100_takes(
    opcode: str, interval: int, latency: int
) -> None:
    """The second is fitted. Other generations have the latency of all products."""
    timing = machine_from(load_gpu("h100-sxm")).tensor_timing(product(opcode))
    assert timing is not None
    assert (timing.interval_cycles, timing.latency_cycles) == (interval, latency)
    a100 = machine_from(load_gpu("a100-40"))
    other = a100.tensor_timing(product(opcode))
    assert other is not None
    assert other.latency_cycles == a100.pipes["tensor"].latency_cycles


@pytest.mark.parametrize(
    ("gpu", "opcode", "cycles"),
    [
        ("a100-40", "HMMA.16816.F32", 4),
        ("t4", "HMMA.1688.F16", 4),
        ("b200", "HMMA.16816.F32.BF16", 4),
        ("a100-40", "IMMA.16832.S8.S8", 20),  # its scoreboard tells of the result
        ("a100-40", "DMMA.884", 20),
        ("v100", "HMMA.884.F32.F32.STEP0", 10),
    ],
)
def test_when_the_scoreboard_of_a_product_opens(gpu: str, opcode: str, cycles: int) -> None:
    timing = machine_from(load_gpu(gpu)).tensor_timing(product(opcode))
    assert timing is not None
    assert timing.latency_cycles == cycles
