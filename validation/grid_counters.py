"""The counters of a run as of its whole grid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterRow, CounterTable
from smlab.hw_bench.sass.operations import tensor_product
from smlab.sim import counter_table
from smlab.sim.counters import WholeGrid
from smlab.sim.execution.run import TimedRun
from smlab.sim.execution.source import MachineSource
from smlab.sim.isa.matrix_products import memory_product

TENSOR_SOURCES: Final = {
    "fp16": "src_fp16_dst_fp16",
    "fp16_fp32": "src_fp16_dst_fp32",
    "bf16": "src_bf16_dst_fp32",
    "tf32": "src_tf32_dst_fp32",
    "fp8": "src_fp8_dst_fp16",
    "fp8_fp32": "src_fp8_dst_fp32",
    "fp6": "src_fp6",
    "mxfp8": "src_mxfp8",
    "mxfp6": "src_mxfp6",
    "mxfp4": "src_mxfp4",
    "fp64": "src_fp64",
    "int8": "src_int8",
    "int4": "src_int4",
    "int1": "src_int1",
}
"""How Nsight Compute's counters name the types of products. Those of floats of 8 bits and fewer are named
alike by us."""


def grid_counters(done: TimedRun) -> CounterTable:
    """The counters of a run; those of a sample are scaled to the grid that it stands for."""
    grid = None
    if not done.whole:
        grid = WholeGrid(done.blocks, min(done.blocks, done.lowered.machine.sms), done.cycles)
    table = counter_table(done.result, grid=grid)
    return CounterTable.from_rows([*table.rows(), *_tensor_rows(done, table)], done.result.launch.gpu)


def whole_gpu(done: TimedRun) -> dict[str, float]:
    """The same of all SMs together, by name."""
    return {row.counter: row.value for row in grid_counters(done).rows() if row.sm == WHOLE_GPU}


def _tensor_rows(done: TimedRun, whole: CounterTable) -> Iterator[CounterRow]:
    """What the tensor cores did, by the types of products; of a sample, as of the grid that it stands for."""
    source = done.lowered.source
    if not isinstance(source, MachineSource):
        return
    operations: dict[str, float] = {}
    instructions = 0
    for micro, count in zip(source.launch.code, done.instructions, strict=True):
        product = tensor_product(micro.instruction)
        if product is not None and count.executed:
            instructions += count.executed
            name = TENSOR_SOURCES[product.type]
            operations[name] = operations.get(name, 0) + 2 * product.multiply_adds * count.executed
    for micro, (total, described), count in zip(
        source.launch.code, source.products.tolist(), done.instructions, strict=True
    ):
        f = micro.fields
        in_memory = memory_product(described, f["family"], f.get("scale_blocks", 0)) if total else None
        if in_memory is not None:
            instructions += count.executed
            name = TENSOR_SOURCES[in_memory.type]
            operations[name] = operations.get(name, 0) + 2 * total
    if not instructions:
        return
    first = next(row for row in whole.rows() if row.counter == "smsp__inst_executed.sum")
    scale = first.value / sum(count.executed for count in done.instructions)
    counted: dict[str, tuple[float, str]] = {"sm__inst_executed_pipe_tensor.sum": (instructions, "inst")}
    counted |= {f"sm__ops_path_tensor_{n}.sum": (value, "") for n, value in operations.items()}
    for name, (value, unit) in counted.items():
        yield replace(first, counter=name, value=round(value * scale), unit=unit)
