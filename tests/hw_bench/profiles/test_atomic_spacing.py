"""How far apart atomics are, from code and samples: by hand, and against what a simulated warp does."""

from pathlib import Path

import numpy as np
import pytest

from smlab.hw_bench.profiles.atomics.atomic_samples import atomic_samples
from smlab.hw_bench.profiles.atomics.atomic_spacing import EDGES_CYCLES, AtomicCode, spacing
from smlab.hw_bench.profiles.pc_samples.sample_files import read_samples


def code(kinds: str, executed: list[float], cycles: list[float], *loops: tuple[int, int]) -> AtomicCode:
    """``A`` an atomic with a result, ``a`` one without, ``B`` a barrier; ``cycles`` an execution."""
    marks = [np.array([k in which for k in kinds]) for which in ("Aa", "A", "B")]
    times = np.array(executed)
    return AtomicCode(*marks, times, np.array(cycles) * times, tuple(loops))


def test_in_a_loop_the_first_atomic_comes_after_all_that_is_between_two_turns() -> None:
    found = spacing(code("..a.a.", [1, 10, 10, 10, 10, 1], [50, 30, 2, 4, 1, 9], (1, 4)))
    assert found is not None
    first, second = found.since_atomic[:10], found.since_atomic[10:]
    np.testing.assert_allclose(second, 5)  # 4 at the one between, 1 at itself
    np.testing.assert_allclose(first[1:], 32)  # around: 30 and 2
    assert np.isinf(first[0])  # but for one turn in ten, before which there is none
    assert np.isinf(found.since_barrier).all()
    assert found.returned == 0
    assert found.weight.sum() == pytest.approx(1)


def test_what_is_executed_now_and_then_is_between_as_often() -> None:
    # An inner loop of 8 turns, a barrier and 1,000 cycles behind it.
    found = spacing(code(".AB.", [80, 80, 10, 10], [20, 5, 40, 1000], (0, 1), (0, 3)))
    assert found is not None
    np.testing.assert_allclose(np.sort(found.since_atomic), [25] * 9 + [1065])
    assert np.isfinite(found.since_barrier).sum() == 1
    assert found.since_barrier.min() == pytest.approx(1025)
    assert found.barriers == pytest.approx(1 / 8)
    assert found.returned == 1


def test_a_loop_without_atomics_counts_with_all_its_turns() -> None:
    found = spacing(code("a.a", [10, 300, 10], [1, 7, 2], (1, 1), (0, 2)))
    assert found is not None
    np.testing.assert_allclose(found.since_atomic[10:], 30 * 7 + 2)
    np.testing.assert_allclose(found.since_atomic[:10], 1)


def test_the_mean_time_between_atomics_is_the_warps_time_over_their_number() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        kinds = "".join(rng.choice(list("..a.B"), 12)) + "a"
        executed, cycles = np.full(13, 40.0), rng.integers(1, 60, 13).astype(float)
        own = code(kinds, executed.tolist(), cycles.tolist(), (0, 12))
        found = spacing(own)
        assert found is not None
        atomics = float(own.executed[own.atomic].sum())
        assert found.weight @ found.since_atomic == pytest.approx(own.spent.sum() / atomics)


def test_no_atomic_executed_tells_nothing() -> None:
    assert spacing(code(".a", [3, 0], [1, 0])) is None


PAGE = """Address,Source,Instructions Executed,stall_barrier,stall_mio,stall_short_sb,stall_selected
0x100,"BAR.SYNC.DEFER_BLOCKING 0x0 ;",100,400,0,0,10
0x110,"ATOMS.ADD R7, [R2], R3 ;",100,0,20,0,10
0x120,"@!P0 ATOMS.POPC.INC.32 RZ, [R2] ;",100,0,70,0,10
0x130,"IADD3 R10, R7, R8, RZ ;",100,0,0,300,10
0x140,"@P1 BRA 0x100 ;",100,0,0,0,10
"""


@pytest.mark.parametrize("target", ["0x100", "0x0"])  # as ncu prints it, or from the function's beginning
@pytest.mark.parametrize("times", ["100", "7000"])  # only the shares of executions count
def test_a_source_page_tells_how_far_apart_its_atomics_are(tmp_path: Path, target: str, times: str) -> None:
    path = tmp_path / "page.csv"
    path.write_text(PAGE.replace("BRA 0x100", f"BRA {target}").replace(",100,", f",{times},"))
    found = atomic_samples(read_samples(path))
    assert found is not None
    assert found.spacing is not None
    row = found.spacing.row()
    near = len(EDGES_CYCLES)
    # 8 cycles behind the other (70 + 10 samples for 10 issues), 3 behind a barrier; around it is 75 cycles.
    np.testing.assert_allclose(row[:near], [0, 0.5, 0.5, 0.5, 0.5, 1, 1, 1])
    np.testing.assert_allclose(row[near : 2 * near], [0.5, 0.5, 1, 1, 1, 1, 1, 1])
    np.testing.assert_allclose(row[-2:], [0.5, 0.5])
