"""The real files of others: each reads, or is refused with a line that says what it is."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles import UNNAMED, atomic_quantities, read_profile

A100 = load_gpu("a100-40")


def _no_test_data(path: Path) -> bool:
    return path.name in ("LICENSE", "README.md")


def test_every_counter_file_reads(shared_data: Path) -> None:
    read = {}
    for path in sorted((shared_data / "ncu-a100").iterdir()):
        if not _no_test_data(path):
            read[path.name] = read_profile(path, gpu=A100)
    assert len(read) == 5
    assert {p.format for p in read.values()} == {"ncu-long", "ncu-wide"}
    relu = read["activation_relu_nsight_result.csv.gz"]
    assert len(relu.table) == 4237 * 21
    assert set(relu.table.kernel) == {UNNAMED}
    assert relu.table.value_of("gpu__time_duration.sum", launch=4236) == pytest.approx(4.832e-6)
    assert relu.table.values("sm__cycles_elapsed.avg", launch=3) == {-1: 17167.98}


def test_kernels_with_no_shared_atomics_are_listed(shared_data: Path) -> None:
    for name in ("conv2d_result", "conv2d_result_shared"):
        profile = read_profile(shared_data / "ncu-a100" / f"conv2d_fakepara-perf-analysis_{name}.csv.gz")
        found = atomic_quantities(profile, A100)
        assert len(found) == 0
        assert [s.reason for s in found.skipped] == ["no shared-memory atomics"]


def test_a_file_that_did_not_count_atomics_says_how_to(shared_data: Path) -> None:
    profile = read_profile(shared_data / "ncu-a100" / "activation_relu_nsight_result.csv.gz")
    with pytest.raises(
        SmlabError,
        match=r"row 2.*smsp__inst_executed_op_shared_atom.sum' is missing \(collect it with: ncu --csv",
    ):
        atomic_quantities(profile, A100)


def test_the_raw_page(shared_data: Path) -> None:
    profile = read_profile(shared_data / "ncu-source-page" / "vector_add.csv")
    assert (profile.device.name, profile.device.compute_capability) == (
        "NVIDIA GeForce RTX 3060 Laptop GPU",
        "8.6",
    )
    assert profile.table.value_of("gpu__time_duration.sum") == pytest.approx(0.013317280)
    assert profile.table.value_of("dram__bytes_read.sum") == pytest.approx(2156288000)
    with pytest.raises(SmlabError, match=r"another GPU.*RTX 3060.*8\.6.*a100-40"):
        read_profile(profile.path, gpu=A100)
    with pytest.raises(SmlabError, match=r"another GPU.*RTX 3060.*a6000"):
        read_profile(profile.path, gpu=load_gpu("a6000"))


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("vector_add_s.csv", "per-source-line export"),
        ("vector_add_sass_pcsamp.csv", "per-instruction export"),
    ],
)
def test_exports_of_lines_and_instructions_are_refused(shared_data: Path, name: str, what: str) -> None:
    with pytest.raises(SmlabError, match=rf"{name}: row 1: this is a {what}.*--page raw --csv"):
        read_profile(shared_data / "ncu-source-page" / name)


def test_a_report_equals_its_raw_page(shared_data: Path) -> None:
    path = shared_data / "ncu-source-page" / "vector_add.ncu-rep"
    if importlib.util.find_spec("ncu_report") is None:
        with pytest.raises(SmlabError, match=r"needs ncu-report, which is not installed.*smlab\[ncu\]"):
            read_profile(path)
        pytest.skip("ncu-report is not installed: the report itself was not read")
    report, page = read_profile(path), read_profile(path.with_name("vector_add.csv"))
    assert report.device == page.device
    values = {r.counter: (r.value, r.unit) for r in report.table.rows()}
    both = [r for r in page.table.rows() if r.counter in values]
    assert len(both) > 800
    given = np.array([r.value for r in both])
    np.testing.assert_allclose(given, [values[r.counter][0] for r in both], rtol=2e-3, atol=0.006)
