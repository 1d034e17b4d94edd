"""What a calibration simulates: the shortcuts of the predictor against single simulations."""

import numpy as np
import pytest

from smlab.hw_bench.cuda.measuring import plan
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.sim import Record, simulate
from smlab.sim.address_patterns import Grouped
from smlab.sim.instructions import Unit
from smlab.sim.workloads.atomics_benchmark import atomics
from smlab.sim.workloads.workload import Instruction, Kernel, Loop, Program
from smlab.validation.calibrate import predict
from smlab.validation.calibrate.cases import Cases
from smlab.validation.calibrate.predict import CAS_LINK, FRAME, ISSUE_FRAME, LINK, Predictor

GPU = load_gpu("a100-40").with_values(
    {"atomic.queue_entries": 11, "shared.interval_cycles_per_pass": 1.5, "atomic.cas.latency_cycles": 40},
    source="assumed: test",
)


def values_of(gpu: Gpu) -> dict[str, float]:
    constants = {key: float(c.value) for key, c in gpu.constants.items() if not isinstance(c.value, str)}
    return {**constants, FRAME: 0.0, ISSUE_FRAME: 0.0, CAS_LINK: 0.0, LINK: 0.0}


VALUES = values_of(GPU)


def case(
    operation: str,
    form: str,
    warps: int = 1,
    cas: int = 0,
    lanes: int = 32,
    same_word: int = 1,
    same_bank: int = 1,
    iterations: int = 1,
) -> Cases:
    where = np.array([[warps], [cas], [lanes], [same_word], [same_bank], [iterations]])
    return Cases.build([operation], form, where, np.ones(1), 1.0)


def predicted(cases: Cases, **changed: float) -> float:
    return float(Predictor(GPU, cases).cycles({**VALUES, **changed})[0])


@pytest.mark.parametrize("same_word, same_bank", [(32, 1), (1, 1), (4, 1), (1, 8), (2, 4)])  # noqa: PT006
@pytest.mark.parametrize("warps", [1, 7, 33])
def test_a_batch_depends_on_its_pattern_by_the_passes_alone(
    warps: int, same_word: int, same_bank: int
) -> None:
    result = simulate(
        atomics(warps=-(-warps // 2) if warps > 32 else warps, blocks=2 if warps > 32 else 1,
        same_word=same_word,
                same_bank=same_bank, returns=True, cas_warps=warps // 3),
        GPU,
    )  # fmt: skip
    assert result.jobs is not None
    simulated = result.jobs.completion.max() - result.jobs.issue.min()
    warps = len(result.jobs.issue)
    cases = case("add-result", "batch", warps, warps // 3 if warps < 34 else 11, 32, same_word, same_bank)
    assert predicted(cases) == simulated


def shared_loads(warps: int, same_bank: int, iterations: int) -> Kernel:
    again = ("load",) if iterations > 1 else ()
    load = Instruction("shared-load", name="load", after=again, shared=Grouped(1, same_bank))
    program = Program("loads", (load,) if iterations == 1 else (Loop(iterations, (load,)),))
    return Kernel("loads", (program,), ((0,) * warps,), 1, 4096)


@pytest.mark.parametrize("warps, same_bank", [(1, 1), (1, 8), (8, 2), (32, 32)])  # noqa: PT006
def test_the_shared_memory_pipe_is_a_unit_of_the_same_kind(warps: int, same_bank: int) -> None:
    result = simulate(shared_loads(warps, same_bank, 1), GPU, keep=Record.ALL)
    assert result.jobs is not None
    jobs = result.jobs.of_unit(Unit.SHARED)
    simulated = jobs.completion.max() - jobs.issue.min()
    assert predicted(case("load", "batch", warps, same_bank=same_bank)) == pytest.approx(simulated, abs=1)
    rounds = [simulate(shared_loads(warps, same_bank, k), GPU, keep=Record.TOTALS).cycles for k in (40, 80)]
    looped = predicted(case("load", "looped", warps, same_bank=same_bank))
    # Half a cycle is how a pass of 1.5 cycles is rounded.
    assert looped == pytest.approx((rounds[1] - rounds[0]) / 40, rel=0.02, abs=0.5)


@pytest.mark.parametrize(
    ("gpu", "warps", "cas", "same_word"),
    [
        (GPU, 1, 0, 1),
        (GPU, 4, 0, 32),
        (GPU, 8, 3, 8),
        (load_gpu("h100-sxm"), 8, 0, 1),  # two pipes: bound by the address units,
        (load_gpu("h100-sxm"), 8, 0, 8),  # and by the pipes
        (load_gpu("h100-sxm"), 8, 4, 8),
        (load_gpu("rtx-2080-ti"), 8, 0, 8),  # the data stage is slower than the additions,
        (load_gpu("rtx-2080-ti"), 32, 16, 8),  # the unit than the compare-and-swaps
    ],
)
def test_a_stream_keeps_its_slowest_stage_busy(gpu: Gpu, warps: int, cas: int, same_word: int) -> None:
    times = [
        simulate(
            atomics(warps=warps, cas_warps=cas, same_word=same_word, iterations=k), gpu, keep=Record.TOTALS
        ).cycles
        for k in (64, 192)
    ]
    cases = case("add", "stream", warps, cas, 32, same_word)
    found = float(Predictor(gpu, cases).cycles(values_of(gpu))[0])
    assert found == pytest.approx((times[1] - times[0]) / 128, rel=0.005)


def test_a_loop_of_two_kinds_ends_with_the_slower() -> None:
    gpu = GPU.with_values({"atomic.cas.latency_cycles": 90}, source="assumed: test")
    times = [
        simulate(
            atomics(warps=16, cas_warps=8, same_word=1, iterations=k, returns=True), gpu, keep=Record.TOTALS
        ).cycles
        for k in (64, 192)
    ]
    found = float(Predictor(gpu, case("add-result", "looped", 16, 8)).cycles(values_of(gpu))[0])
    assert found == pytest.approx((times[1] - times[0]) / 128, rel=0.01)


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("iterations", [16, 40])
def test_a_burst_tells_the_queue(warps: int, iterations: int) -> None:
    """The last operation is issued when all earlier ones but what the sub-cores hold have left them."""
    result = simulate(atomics(warps=warps, same_word=32, iterations=iterations), GPU)
    assert result.jobs is not None
    span = result.jobs.issue.max() - result.jobs.issue.min()
    cases = case("add", "burst", warps, 0, 32, 32, 1, iterations)
    assert predicted(cases) == pytest.approx(span, abs=3)
    # The data stage is the slower here: one place more in each sub-core saves 32 passes a sub-core.
    saved = warps * 32 * VALUES["shared.interval_cycles_per_pass"]
    assert predicted(cases, **{predict.QUEUE: 6.0}) == pytest.approx(predicted(cases) - saved)


def depth_error(gpu: Gpu, points: list[tuple[int, int, int]]) -> float:
    """The standard error that half of these bursts (warps, lanes, operations of a warp) at 3 % noise leave of
    the unit's queue, when other forms tell the unit's interval."""
    where = np.array([(n, 0, e, e, 1, k) for n, e, k in points]).T
    cases = Cases.build(["add"] * len(points), "burst", where, np.ones(len(points)), 1.0)
    steps = {predict.UNIT_QUEUE: 1.0, predict.QUEUE: 1.0, ISSUE_FRAME: 0.1}
    values = {**values_of(gpu), ISSUE_FRAME: 4.0}
    slopes = Predictor(gpu, cases).derivatives(values, steps, dict.fromkeys(steps, -1.0)) / 0.03
    return float(np.sqrt(np.linalg.inv(slopes.T @ slopes / 2)[0, 0]))


@pytest.mark.parametrize("name", ["v100-sxm2", "rtx-4090"])
def test_the_bursts_of_a_run_tell_the_depth_of_a_queue(name: str) -> None:
    """An interval of three standard errors to either side is at most three entries wide, up to 32 entries;
    bursts in powers of two by one, two and four warps leave a quarter more. (Hopper's atomics wait in the
    data stage's queue, and the unit's own tells nothing there.)"""
    chosen = plan.profile("quick")
    planned = [
        (p.warps, p.pattern.same_word, k)
        for launch in plan.point_launches("shared-atomics", ["add/burst"], chosen, 64)
        if launch.kernel == "add/burst"
        for k, points in [(launch.iterations, launch.points)]
        for p in points
    ]
    powers = [point for point in planned if point[0] != 3 and point[1] != 16 and point[2] % 3 != 0]
    for depth in (8, 16, 23, 32):
        gpu = load_gpu(name).with_values({predict.UNIT_QUEUE: depth}, source="assumed: test")
        assert 3 * depth_error(gpu, planned) < 3
        assert depth_error(gpu, powers) > 1.25 * depth_error(gpu, planned)


def test_the_looped_form_has_the_link_as_a_delay() -> None:
    """A logical instruction between an atomic and the next, simulated as one, against the delay that
    stands for it."""
    link = int(GPU.number("pipe.int32.latency_cycles"))
    atomic = Instruction(
        "atomic-add", name="atomic", after=("link",), lanes=8, shared=Grouped(8), returns=True
    )
    logical = Instruction("int32", name="link", after=("atomic",))
    for warps in (1, 6, 20):
        times = []
        for iterations in (40, 80):
            program = Program("chain", (Loop(iterations, (atomic, logical)),))
            kernel = Kernel("chain", (program,), ((0,) * warps,), 1, 128)
            times.append(simulate(kernel, GPU, keep=Record.TOTALS).cycles)
        found = predicted(case("add-result", "looped", warps, 0, 8, 8), **{LINK: float(link)})
        assert found == pytest.approx((times[1] - times[0]) / 40, rel=0.03)


def test_between_whole_latencies_times_are_interpolated_while_fitting() -> None:
    cases = Cases.join([case("add-result", "batch", 4, 1, 4, 4), case("add-result", "looped", 1, 0, 4, 4)])
    predictor = Predictor(GPU, cases)
    name, values = "atomic.add.latency_cycles", {**VALUES, "atomic.cas.latency_cycles": 90.0}
    low, middle, high = (predictor.cycles({**values, name: x}, smooth=True) for x in (24.0, 24.25, 25.0))
    assert middle[1] == pytest.approx(low[1] + (high[1] - low[1]) / 4)
    assert (predictor.cycles({**values, name: 24.25}) == predictor.cycles({**values, name: 24.0})).all()
    # Its result is the last here, so the addition's latency does not show.
    assert low[0] == high[0]
