"""The counters that a roofline reads, against what the recorded events of both engines say."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU
from smlab.sim import ENGINES, Instruction, Kernel, Loop, Program, Record, counter_table, simulate
from smlab.sim.address_patterns import Affine, Strided
from smlab.sim.instructions import CLASS_NAMES, CLASSES, Unit
from smlab.sim.lowering import lower
from smlab.sim.machine import Machine
from smlab.sim.result import SimResult
from smlab.validation.laws.strategies import kernels, machines

ENGINE_NAMES = sorted(ENGINES)


def counters(result: SimResult) -> dict[str, float]:
    return {row.counter: row.value for row in counter_table(result).rows() if row.sm == WHOLE_GPU}


def kernel(*body: Instruction, times: int = 5, blocks: int = 4) -> Kernel:
    return Kernel("k", (Program("p", (Loop(times, body),)),), ((0, 0),), blocks, 8192, sms=2)


@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_a_worked_kernel(engine: str) -> None:
    body = (
        Instruction(
            "global-load", memory=Affine(4, 128, 1 << 16)
        ),  # one line, four sectors, never seen before
        Instruction("fp32-add", lanes=7),
        Instruction("fp64"),
        Instruction("shared-load", shared=Strided(2)),  # two passes
        Instruction("shared-store", shared=Strided(4), lanes=16),  # two passes of 16 lanes
        Instruction("global-store", memory=Affine(8, 256, base_bytes=1 << 30)),  # two lines, eight sectors
    )
    result = simulate(kernel(*body), load_gpu("v100"), engine=engine)
    found = counters(result)
    executed = 4 * 2 * 5  # blocks, warps, iterations

    def op(name: str) -> float:
        return found[f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum"]

    assert op("fadd") == 7 * executed
    assert op("dfma") == 32 * executed
    assert {op(c.arithmetic) for c in CLASSES.values() if c.arithmetic not in ("", "fadd", "dfma")} == {0}
    assert found["smsp__inst_executed_pipe_fma.sum"] == executed
    assert found["smsp__thread_inst_executed.sum"] == (32 + 7 + 32 + 32 + 16 + 32) * executed
    assert found["l1tex__t_bytes.sum"] == 32 * (4 + 8) * executed
    assert found["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"] == 0
    assert found["lts__t_bytes.sum"] == 32 * (4 + 8) * executed
    assert found["dram__bytes.sum"] == 32 * 4 * executed  # stores stay in L2
    assert found["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"] == 2 * executed
    assert found["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"] == 2 * executed
    assert found["l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"] == executed
    assert found["smsp__sass_data_bytes_mem_shared.sum"] == 4 * (32 + 16) * executed
    assert found["gpu__time_duration.sum"] == pytest.approx(result.cycles / 1380e6)
    assert (found["launch__grid_size"], found["launch__block_size"]) == (4, 64)


@pytest.mark.parametrize("engine", ENGINE_NAMES)
def test_what_is_found_in_a_cache_does_not_go_on(engine: str) -> None:
    """One warp reads one line again and again, each load after the one before: one miss, then hits."""
    load = Instruction("global-load", name="x", after=("x",), memory=Affine(4, 0))
    one = Kernel("k", (Program("p", (Loop(10, (load,)),)),), ((0,),))
    found = counters(simulate(one, load_gpu("v100"), engine=engine))
    assert found["l1tex__t_bytes.sum"] == 10 * 128
    assert found["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"] == 9 * 4
    assert found["lts__t_bytes.sum"] == found["dram__bytes.sum"] == 128


@given(machines(), kernels(), st.sampled_from(ENGINE_NAMES))
def test_counts_are_those_of_the_events(machine: Machine, drawn: Kernel, engine: str) -> None:
    result = ENGINES[engine](lower(drawn, machine, 0), Record.ALL, None, None)
    assert result.issues is not None
    assert result.jobs is not None
    # What each warp issued, slot by slot, against what its program says.
    classes = [[i.cls.code for i, _ in p.instructions()] for p in drawn.programs]
    lanes = [[i.lanes for i, _ in p.instructions()] for p in drawn.programs]
    seen: Counter[int] = Counter()
    threads: Counter[int] = Counter()
    for warp, slot in zip(result.issues.warp.tolist(), result.issues.slot.tolist(), strict=True):
        role = drawn.role(*divmod(warp, drawn.warps_per_block))
        seen[classes[role][slot]] += 1
        threads[classes[role][slot]] += lanes[role][slot]
    assert list(result.launch.warp_instructions) == [seen[code] for code in range(len(CLASS_NAMES))]
    assert list(result.launch.thread_instructions) == [threads[code] for code in range(len(CLASS_NAMES))]
    assert sum(result.launch.warp_instructions) == result.warp_instructions

    shared = result.jobs.of_unit(Unit.SHARED)
    stores = shared.op == CLASSES["shared-store"].code
    assert sum(s.shared_store_passes for s in result.sms) == shared.passes[stores].sum()
    assert sum(s.shared_load_passes for s in result.sms) == shared.passes[~stores].sum()
    # Each sector that L1 has not, or that is stored, is looked up in L2, but for those that another load of
    # the same SM has asked for (SEMANTICS 7.5). The first load of an SM asks for all of its own.
    sent = sum(s.l1_sector_misses + s.l1_store_sectors for s in result.sms)
    not_sent = sent - result.memory.l2_sector_hits - result.memory.l2_sector_misses
    may_merge = 0
    for sm in range(len(result.sms)):
        memory = result.jobs.of_unit(Unit.GLOBAL, sm)
        loads = np.isin(memory.op, [CLASSES[op].code for op in ("global-load", "async-copy")])
        may_merge += 32 * max(0, int(loads.sum()) - 1)
    assert 0 <= not_sent <= may_merge


@pytest.mark.parametrize("name", [c.name for c in CLASSES.values() if c.arithmetic])
def test_operations_of_a_pipe_take_the_same_time(name: str) -> None:
    """An addition takes the pipe as a fused multiply-add does; it is only counted apart."""
    base = name.split("-")[0]
    gpu = load_gpu("a100-40")
    runs = [simulate(kernel(Instruction(op)), gpu, engine="simpy").cycles for op in (name, base)]
    assert runs[0] == runs[1]
