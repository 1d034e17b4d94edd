"""Simulated kernels against their ceilings: the drawing, the reading and the judging."""

from pathlib import Path

import numpy as np
import pytest

from judged_ceilings import EXACT, atomics_beside_loads, judge_ceilings
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.hw_bench.profiles import read_profile
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterTable
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.hw_bench.profiles.work.roofline_quantities import roofline_quantities
from smlab.models.roofline.work import flops
from smlab.sim import Instruction, Kernel, Loop, Program, counter_table, simulate
from smlab.sim.address_patterns import Affine, Strided
from smlab.sim.machine import machine_from
from smlab.sim.workloads.workload import blocks_per_sm
from smlab.validation.campaigns.projection.judge import METHODS, judge_projection
from smlab.validation.campaigns.projection.kernels import REGIMES, draw, working_set_bytes
from smlab.validation.campaigns.projection.simulate import (
    Simulated,
    read_work,
    run,
    simulate_kernels,
)
from smlab.validation.projection.gpu_parts import PART, part_of

GPUS = tuple(part_of(load_gpu(name)) for name in ("v100", "a100-40"))
NUMBERED = [(regime, number) for regime in REGIMES for number in range(2)]


@pytest.fixture(scope="module")
def seen() -> Simulated:
    return simulate_kernels(GPUS, NUMBERED, 5, "compiled")


def work_of(gpu: Gpu, *body: Instruction, times: int = 50, blocks: int = 160, warps: int = 8) -> KernelWork:
    """The work of one kernel on ``gpu``, by its counters."""
    program = Program("p", (Loop(times, body),))
    kernel = Kernel("k", (program,), ((0,) * warps,), blocks, 8192, sms=gpu.integer("gpu.sms"))
    rows = [r for r in counter_table(simulate(kernel, gpu)).rows() if r.sm == WHOLE_GPU]
    return read_work(CounterTable.from_rows(rows), gpu, 1)


def test_a_part_of_a_gpu_keeps_what_each_sm_gets() -> None:
    whole = load_gpu("a100-40")
    part = part_of(whole)
    for key in (
        "l2.bandwidth_bytes_per_s",
        "dram.bandwidth_bytes_per_s",
        "l2.bytes",
        "peak.fp32_flops_per_s",
    ):
        assert part.number(key) / part.integer("gpu.sms") == pytest.approx(
            whole.number(key) / whole.integer("gpu.sms"), rel=1e-6
        )
    with pytest.raises(SmlabError, match="cannot be divided by 7"):
        part_of(whole, 7)


def test_a_part_of_the_gpu_takes_a_part_of_the_grid_as_long_as_the_whole_takes_the_whole() -> None:
    load = Instruction("global-load", "x", memory=Affine(4, 128, 128 * 8 * 640))
    body = (load, Instruction("fp32", after=("x",)))
    whole = load_gpu("v100")
    assert work_of(part_of(whole), *body, blocks=640 // PART, times=8).seconds[0] == pytest.approx(
        work_of(whole, *body, blocks=640, times=8).seconds[0], rel=0.03
    )


def test_drawn_kernels_are_the_same_whatever_else_is_drawn_and_fit_both_gpus() -> None:
    machines = [machine_from(gpu) for gpu in GPUS]
    for regime in REGIMES:
        kernels = [draw(regime, number, 1, machines[0]) for number in range(20)]
        assert kernels[7] == draw(regime, 7, 1, machines[0])
        assert kernels[7] != draw(regime, 7, 2, machines[0])
        assert len({k.kernel.programs for k in kernels}) > 5 or regime == "latency"
        assert all(blocks_per_sm(k.kernel, m) > 0 for k in kernels for m in machines)
        small = [k.kernel.blocks <= machines[0].sms for k in kernels]
        assert all(small) if regime == "small grid" else sum(small) < 15


def test_the_working_set_is_what_the_lanes_touch() -> None:
    """Against all addresses written out."""
    patterns = (Affine(4, 128, 1024), Affine(8, 256, 256 * 12, 1 << 30), Affine(4, 128, 256, 1 << 40))
    body = tuple(Instruction("global-load", memory=m) for m in (*patterns, patterns[0]))
    kernel = Kernel("k", (Program("p", (Loop(5, body),)),), ((0, 0, 0),), 4)
    warp, iteration, lane = np.ogrid[:12, :5, :32]
    sectors: set[int] = set()
    for m in patterns:
        at = m.base_bytes + warp * m.warp_stride_bytes + iteration * m.iteration_stride_bytes
        sectors |= set((at + lane * m.lane_stride_bytes).ravel() // 32)
    assert working_set_bytes(kernel) == 32 * len(sectors)


def test_the_reader_gives_the_simulators_counts(tmp_path: Path) -> None:
    """Through a file, as a profile is read, and by hand from the program."""
    gpu = load_gpu("v100")
    body = (
        Instruction("fp32"),
        Instruction("fp32-mul", lanes=8),
        Instruction("fp64-add"),
        Instruction("fp16"),
        Instruction("shared-load", shared=Strided(4)),
        Instruction("global-load", memory=Affine(8, 256, 256 * 6, 1 << 30)),
    )
    kernel = Kernel("k", (Program("p", (Loop(3, body),)),), ((0, 0),), 3, 8192, sms=2)
    result = simulate(kernel, gpu)
    counter_table(result).write_csv(tmp_path / "counters.csv")
    work = roofline_quantities(read_profile(tmp_path / "counters.csv"), gpu).work
    executed = 3 * 2 * 3
    fp16, fp32, fp64 = range(3)
    assert work.fma[0].tolist() == [
        2 * 32 * executed,
        32 * executed,
        0,
    ]  # a half instruction is on two numbers
    assert (work.mul[0, fp32], work.add[0, fp64], work.add[0, fp16]) == (8 * executed, 32 * executed, 0)
    assert flops(work)[0] == (2 * 64 + 2 * 32 + 8 + 32) * executed
    assert (work.shared_wavefronts[0], work.shared_ideal_wavefronts[0]) == (4 * executed, executed)
    assert work.l1_bytes[0] == 256 * executed
    assert work.instructions[0] == 6 * executed
    assert work.thread_instructions[0] == (5 * 32 + 8) * executed
    assert work.seconds[0] == pytest.approx(result.cycles / 1380e6)
    assert (work.blocks[0], work.threads_per_block[0]) == (3, 64)


@pytest.mark.parametrize("gpu", GPUS, ids=lambda g: g.name)
def test_kernels_made_for_one_resource_come_close_to_its_bound_and_stay_below(gpu: Gpu) -> None:
    chains = [Instruction("fp32", f"a{n}", (f"a{n}",)) for n in range(4)]
    double = [Instruction("fp64", f"a{n}", (f"a{n}",)) for n in range(4)]
    stream = Instruction("global-load", memory=Affine(4, 128, 128 * 8 * 540))
    conflicts = Instruction("shared-load", shared=Strided(8))
    for limiter, body in (("fp32", chains), ("fp64", double), ("dram", [stream]), ("shared", [conflicts])):
        found = judge_ceilings(work_of(gpu, *body, blocks=540, times=40), gpu)
        assert found.limiter[0] == limiter
        # Bounds take the pin rate of DRAM, of which rows and refreshes leave a stream less.
        most = 1.0
        if limiter == "dram":
            sustained, rated = (
                gpu.number(f"dram.{key}_bytes_per_s") for key in ("sustained_bandwidth", "bandwidth")
            )
            most = sustained / rated
        assert 0.9 * most < found.of_bound[0] <= most + EXACT, limiter


def test_overlapped_transfers_beat_the_published_ceiling_but_no_bound() -> None:
    """Half of the traffic is from DRAM, half is found in L2: Eq. 7 adds the two times, and they overlap."""
    gpu = GPUS[0]
    stream = Instruction("global-load", memory=Affine(4, 128, 128 * 8 * 320))
    shared = Instruction("global-load", memory=Affine(4, 128, 128 * 8, 1 << 41))
    found = judge_ceilings(work_of(gpu, stream, shared, blocks=320, times=16), gpu)
    assert found.of_bound[0] <= 1 + EXACT
    assert found.of_eq678[0] > 1.1
    assert bool(found.beats_published[0])


def test_full_arithmetic_beside_divergent_instructions_beats_equation_3() -> None:
    gpu = GPUS[0]
    body = [Instruction("fp32", f"a{n}", (f"a{n}",)) for n in range(4)]
    few = [Instruction("int32", lanes=2)] * 4
    mixed = tuple(i for pair in zip(body, few, strict=True) for i in pair)
    found = judge_ceilings(work_of(gpu, *mixed, blocks=320), gpu)
    assert found.of_bound[0] <= 1 + EXACT
    assert 1.5 < found.of_eq3[0] < 32 / 17 + 0.01  # 17 of 32 lanes are active on average


def test_dram_has_written_what_it_counts_when_a_kernel_ends() -> None:
    """Stores wait for the lines that they evict. So nothing of those is left, and DRAM was not too fast."""
    gpu = GPUS[0]
    store = Instruction("global-store", memory=Affine(32, 1024, 1024 * 8 * 80))
    program = Program("p", (Loop(12, (store,)),))
    kernel = Kernel("k", (program,), ((0,) * 8,), 80, sms=gpu.integer("gpu.sms"))
    result = simulate(kernel, gpu)
    memory = result.memory
    assert memory.dram_sectors > 0
    assert memory.dram_sectors_left == 0
    counted = counter_table(result).value_of("dram__bytes.sum", sm=WHOLE_GPU)
    assert counted == 32 * memory.dram_sectors
    moved_at_most = gpu.number("dram.bandwidth_bytes_per_s") * result.cycles / gpu.number("clock.sm_hz")
    assert counted <= moved_at_most * (1 + EXACT)


def test_no_drawn_kernel_beats_a_bound_and_one_that_is_too_fast_is_found(seen: Simulated) -> None:
    for gpu, work in zip(GPUS, seen.work, strict=True):
        found = judge_ceilings(work, gpu)
        assert len(found.violations) == 0
        fastest = int(np.argmax(found.of_bound))
        faster = work.seconds.copy()
        faster[fastest] *= 0.9
        again = judge_ceilings(work.with_values(seconds=faster), gpu)
        assert again.violations.tolist() == [fastest]


def test_projection_onto_the_same_gpu_is_the_identity(seen: Simulated) -> None:
    found = judge_projection(seen.work[0], seen.work[0], seen.working_set_bytes, GPUS[0], GPUS[0])
    for name in METHODS:
        assert found.predicted[name] == pytest.approx(seen.work[0].seconds, rel=1e-9)
        assert found.inside(name) == 1.0


def test_the_parallelism_ceiling_helps_where_it_should(seen: Simulated) -> None:
    """Small grids and latency-bound kernels do not become faster by more SMs; a method that says so is
    closer."""
    published, with_parallelism = list(METHODS)[:2]
    chosen = np.isin(np.array(seen.regimes), ("small grid", "latency"))
    for a, b in ((0, 1), (1, 0)):
        found = judge_projection(seen.work[a], seen.work[b], seen.working_set_bytes, GPUS[a], GPUS[b])
        off, on = (
            np.median(np.abs(np.log(found.predicted[name] / found.truth_s))[chosen])
            for name in (published, with_parallelism)
        )
        assert on < off / 2


@pytest.fixture(scope="module")
def probe() -> Simulated:
    smaller = min((machine_from(gpu) for gpu in GPUS), key=lambda m: m.sms)
    return run([atomics_beside_loads(smaller)], GPUS, "compiled")


def test_shared_atomics_beside_shared_loads_pass_one_data_stage(probe: Simulated) -> None:
    """Until both took one data stage (SEMANTICS.md, 6.5), this kernel was faster than its bound, by a
    fifth."""
    for gpu, work in zip(GPUS, probe.work, strict=True):
        found = judge_ceilings(work, gpu)
        assert found.limiter[0] == "shared"
        assert 0.95 < found.of_bound[0] <= 1 + EXACT
