"""The reader of NeuSight's latencies on small files of its layout, on broken ones, and on the set itself
where it is there."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from smlab.hw_bench.datasets import DATASETS, OperatorTimes, read_dataset, read_neusight
from smlab.hw_bench.datasets.operator_times import match, named_as
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu

HEADER = "OPName,Latency,Device,Kernel Name,Grid x,Grid y,Grid z,Block x,Block y,Block z,B,H\n"
PRODUCTS = "OPName,Latency,Device,Kernel Name,Grid x,Grid y,Grid z,Block x,Block y,Block z,B,M,N,K\n"
ADD = 'add,0.5,Tesla T4,"k<4, Functor, at::detail::Array<char*, 3> >",1024,1,1,128,1,1,4096,1024\n'
RELU = 'relu,0.25,Tesla T4,"k<4, at::detail::Array<char*, 2> >",512,1,1,128,1,1,2048,1024\n'
LINEAR = "linear,1.5,Tesla V100-PCIE-32GB,volta_sgemm_128x64_tn,20,16,2,128,1,1,1,1024,2560,768\n"


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_rows_are_read_with_shape_launch_and_seconds(tmp_path: Path) -> None:
    write(tmp_path, "elem.csv", HEADER + ADD + RELU)
    with gzip.open(tmp_path / "linear.csv.gz", "wt") as file:
        file.write(PRODUCTS + LINEAR)
    times = read_neusight(tmp_path)
    assert times.operator.tolist() == ["elementwise", "elementwise", "linear"]
    assert times.variant.tolist() == ["add", "relu", "linear"]
    assert times.gpu.tolist() == ["t4", "t4", "v100"]
    assert times.tensors.tolist() == [3, 2, 3]
    assert times.seconds.tolist() == pytest.approx([0.5e-3, 0.25e-3, 1.5e-3])
    assert [x.tolist() for x in (times.batch, times.m, times.n, times.k)] == [
        [1, 1, 1],
        [4096, 2048, 1024],
        [1024, 1024, 2560],
        [1, 1, 768],
    ]
    assert times.blocks.tolist() == [1024, 512, 640]
    assert times.threads_per_block.tolist() == [128, 128, 128]
    assert times.skipped == ()


def test_the_grid_tells_which_column_is_summed(tmp_path: Path) -> None:
    """768 / 128 x 1,024 / 64 blocks sum over N; 2,560 / 128 across would sum over K; without a tile it is
    N."""
    other = LINEAR.replace(",20,16,2,", ",6,16,1,")
    unnamed = LINEAR.replace("volta_sgemm_128x64_tn", "gemm").replace(",20,16,2,", ",6,16,1,")
    write(tmp_path, "linear.csv", PRODUCTS + LINEAR + other + unnamed)
    times = read_neusight(tmp_path)
    assert times.n.tolist() == [2560, 768, 768]
    assert times.k.tolist() == [768, 2560, 2560]


def test_batched_products_are_read(tmp_path: Path) -> None:
    """64 products of 512 x 128 by 128 x 512: the grid's third size is the batch, and N is summed over."""
    kernels = {
        "Tesla P4": "maxwell_sgemm_128x64_nn,4,8,64,128",
        "Tesla P100-PCIE-16GB": "maxwell_sgemm_128x128_nn,4,4,64,256",
        "NVIDIA L4": "ampere_sgemm_128x64_nn,4,8,64,128",
        "NVIDIA A100 80GB PCIe": "cutlass_80_simt_sgemm_128x64_8x5_nn_align1,4,8,64,128",
        "NVIDIA H100 80GB HBM3": ",,,,",
    }
    lines = [f"bmm,0.5,{device},{launch},1,1,64,512,128,512\n" for device, launch in kernels.items()]
    write(tmp_path, "bmm.csv", PRODUCTS + "".join(lines))
    times = read_neusight(tmp_path)
    assert times.operator.tolist() == ["bmm"] * 5
    assert times.gpu.tolist() == ["p4", "p100", "l4", "a100-80", "h100-sxm"]
    for name, size in (("batch", 64), ("m", 512), ("n", 512), ("k", 128)):
        assert getattr(times, name).tolist() == [size] * 5
    assert times.blocks.tolist() == [2048, 1024, 2048, 2048, 0]


def test_rows_that_cannot_be_used_are_listed_with_the_reason(tmp_path: Path) -> None:
    other = RELU.replace("Tesla T4", "Some GPU"), RELU.replace("relu", "fft")
    write(tmp_path, "elem.csv", HEADER + ADD + other[0] + other[1] + other[1])
    times = read_neusight(tmp_path)
    assert times.gpu.tolist() == ["t4", "Some GPU"]
    assert [reason for _, reason in times.skipped] == ["2 rows: operator whose work is not known (fft)"]


def test_a_missing_latency_is_listed_and_a_missing_launch_is_unknown(tmp_path: Path) -> None:
    write(tmp_path, "elem.csv", HEADER + ADD.replace("0.5", "") + RELU.replace("512,1,1", ",,"))
    times = read_neusight(tmp_path)
    assert times.variant.tolist() == ["relu"]
    assert (times.blocks.tolist(), times.threads_per_block.tolist()) == ([0], [0])
    assert [reason for _, reason in times.skipped] == ["1 rows: no latency (add)"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER.replace("Latency", "Time") + ADD, "column Latency: is missing"),
        (
            HEADER + ADD.replace("0.5", "-1"),
            "line 2: Latency: unusable value (got '-1'; expected a time above 0",
        ),
        (HEADER + ADD + RELU.replace("0.25", "nan"), "line 3: Latency: unusable value (got 'nan'"),
        (
            HEADER + ADD.replace("4096", "40.5"),
            "line 2: B: unusable value (got '40.5'; expected a whole number",
        ),
        (HEADER + ADD.replace("1024\n", "0\n"), "line 2: H: unusable value (got '0'"),
        (HEADER + RELU.replace("relu", "fft") + ADD.replace("0.5", "?"), "line 3: Latency"),
        (HEADER.replace(",H\n", "\n") + ADD.replace(",1024\n", "\n"), "column H: is missing"),
        (HEADER + ADD.replace("\n", ",7\n"), "cannot be read as CSV"),
        ("", "cannot be read as CSV"),
        (HEADER + RELU.replace("relu", "fft"), "no usable row"),
        (PRODUCTS + LINEAR + LINEAR.replace("linear", "add"), "matrix products and other operators"),
    ],
)
def test_bad_files_are_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, "elem.csv", text)
    with pytest.raises(SmlabError) as caught:
        read_neusight(tmp_path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress((HEADER + ADD * 50).encode())
    (tmp_path / "elem.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SmlabError, match="elem.csv.gz: truncated or damaged gzip"):
        read_neusight(tmp_path)


def test_names_of_sets_are_checked(tmp_path: Path) -> None:
    write(tmp_path, "elem.csv", HEADER + ADD)
    assert len(read_dataset(f"neusight:{tmp_path}")) == 1
    for spec in ("neusight", "neusight:", f"nosuch:{tmp_path}", ""):
        with pytest.raises(SmlabError, match="unknown set of measurements"):
            read_dataset(spec)
    with pytest.raises(SmlabError, match="no such folder"):
        read_dataset(f"neusight:{tmp_path / 'not'}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SmlabError, match="no CSV file"):
        read_dataset(f"neusight:{tmp_path / 'empty'}")
    assert set(DATASETS) == {"neusight"}


def test_a_users_own_description_finds_its_rows(tmp_path: Path) -> None:
    """Of a device that nobody described, and of one that ships a description."""
    write(tmp_path, "elem.csv", HEADER + ADD + RELU.replace("Tesla T4", "Some GPU"))
    some, mine = (
        replace(load_gpu("t4"), name=n, title=t, aliases=()) for n, t in (("a", "Some GPU"), ("b", "T4"))
    )
    assert named_as(read_neusight(tmp_path), (some, load_gpu("v100"))).gpu.tolist() == ["t4", "a"]
    assert named_as(read_neusight(tmp_path), (mine, some)).gpu.tolist() == ["b", "a"]
    assert named_as(read_neusight(tmp_path), (load_gpu("t4"), mine)).gpu.tolist() == ["t4", "Some GPU"]


def test_matching_takes_common_shapes_in_one_order_and_tells_what_is_left(tmp_path: Path) -> None:
    rows = [ADD, RELU, RELU.replace("0.25", "0.75"), RELU.replace("0.25", "0.35")]
    v100 = [row.replace("Tesla T4", "Tesla V100-PCIE-32GB") for row in (RELU, ADD.replace("4096", "8192"))]
    write(tmp_path, "elem.csv", HEADER + "".join(rows + v100))
    here, there, notes = match(read_neusight(tmp_path), "t4", "v100")
    assert here.labels() == there.labels() == ["relu 1x2048x1024x1 (32 bit)"]
    assert here.seconds.tolist() == pytest.approx([0.35e-3])  # the median of three
    assert there.seconds.tolist() == pytest.approx([0.25e-3])
    assert notes == (
        "t4: 1 shapes measured more than once, taken at the median",
        "1 shapes only on t4, not used (such as add 1x4096x1024x1 (32 bit))",
        "1 shapes only on v100, not used (such as add 1x8192x1024x1 (32 bit))",
    )


@pytest.fixture(scope="module")
def measured(shared_data: Path) -> OperatorTimes:
    return read_neusight(shared_data / "neusight")


def test_the_set_itself(measured: OperatorTimes) -> None:
    assert len(measured) == 5604
    assert measured.skipped == ()
    assert set(measured.gpu) == {"v100", "a100-40", "t4"}
    assert np.all(measured.seconds > 50e-6)
    linear = measured.take(measured.operator == "linear")
    rates = 2.0 * linear.m * linear.n * linear.k * linear.batch / linear.seconds
    assert rates.max() < 19.5e12  # no time that beats an A100's FP32 peak: not on tensor cores
