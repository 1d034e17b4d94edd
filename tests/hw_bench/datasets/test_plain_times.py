"""The plainest table of times."""

from pathlib import Path

import pytest

from smlab.hw_bench.datasets.plain_times import read_plain
from smlab.hw_bench.datasets.tuning import TuningTimes
from smlab.hw_bench.errors import SmlabError


def read(tmp_path: Path, text: str) -> TuningTimes:
    path = tmp_path / "times.csv"
    path.write_text(text)
    return read_plain(path)


def test_rows_by_kernel_and_configuration_in_the_order_of_launches(tmp_path: Path) -> None:
    text = "kernel,config,launch,seconds\nf,a=1,1,0.5\nf,a=1,0,0.75\ng,a=1,0,2\n"
    found = read(tmp_path, text)
    assert found.labels() == ["f a=1", "g a=1"]
    assert found.runs == ((0.75, 0.5), (2.0,))


def test_the_unit_is_in_the_column(tmp_path: Path) -> None:
    found = read(tmp_path, "kernel,device,microseconds\nf,V100,5\nf,V100,7\n")
    assert found.runs[0] == pytest.approx((5e-6, 7e-6))
    assert found.device == "V100"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernel,time\nf,1\n", "row 1: not a table of times"),
        ("kernel,seconds,milliseconds\nf,1,1\n", "row 1: not a table of times"),
        ("kernel,block,seconds\nf,1,1\n", "row 1: columns that are not known"),
        ("kernel,seconds\n", "no time in it"),
        ("kernel,seconds\nf\n", "row 2: not a whole row"),
        ("kernel,seconds\nf,-1\n", "row 2: seconds: unusable time"),
        ("kernel,seconds\nf,fast\n", "row 2: seconds: unusable time"),
        ("kernel,launch,seconds\nf,one,1\n", "row 2: launch: not a number"),
        ("kernel,launch,seconds\nf,0,1\nf,0,1\n", "row 3: launch: stands twice"),
        ("kernel,device,seconds\nf,V100,1\nf,A100,1\n", "times of several GPUs"),
    ],
)
def test_what_is_none_is_told_with_its_row(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SmlabError, match=message):
        read(tmp_path, text)
