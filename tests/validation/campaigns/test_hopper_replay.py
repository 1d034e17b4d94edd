"""What runs on the machine with the GPU makes the arrays that a launch file makes, and its results become the
tables of the data set."""

import argparse
import base64
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smlab.sim.isa.launch.launch_file import arguments_of
from smlab.validation.campaigns.hopper import replay
from smlab.validation.campaigns.hopper.judge import MEASURED, read_pipes
from smlab.validation.campaigns.hopper.pipes import PipeProbe
from smlab.validation.campaigns.hopper.tables import launch_row, pipe_rows, read_replay


@pytest.mark.parametrize(
    "row",
    [
        {"dtype": "float32", "make": "uniform", "low": -1.0, "high": 2.0, "seed": 3},
        {"dtype": "float64", "make": "uniform"},
        {"dtype": "int32", "make": "uniform", "low": 5, "high": 900, "seed": 1},
        {"dtype": "uint8", "make": "uniform", "high": 256},
        {"dtype": "uint64", "make": "uniform", "high": 1 << 40},
        {"dtype": "int32", "make": "arange"},
        {"dtype": "float32", "make": "zeros"},
    ],
    ids=str,
)
def test_the_card_makes_the_numbers_of_a_launch_file(
    row: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    count = replay.CHUNK + 77  # more than are drawn at a time
    described = {"argument": [{"name": "a", "shape": [count], **row}]}
    (ours,) = arguments_of("a test", described, Path()).values
    there = replay.made_array(row, ours.nbytes)
    assert there.dtype == ours.dtype
    assert np.array_equal(there, ours)


def test_what_is_no_pack_is_one_line_and_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pack.zip").write_bytes(b"no zip")
    for name in ("pack.zip", "nothing.zip"):
        with pytest.raises(SystemExit) as ended:
            replay._rows(argparse.Namespace(pack=tmp_path / name))
        assert ended.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"{name}: is no pack of launches (" in line


def test_launches_that_have_begun_are_not_begun_again(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert replay._done(argparse.Namespace(out=out)) == set()
    out.write_text(
        '{"name": "a", "began": true}\n{"name": "b", "began": true}\n{"name": "b", "warm_s": [1]}\n'
    )
    assert replay._done(argparse.Namespace(out=out)) == {"a", "b"}


def test_readings_of_the_clock_become_rows(tmp_path: Path) -> None:
    probe = PipeProbe("iadd3", 1, 4)
    times = np.zeros(64, np.uint32)
    begins = np.array([10, 12, 0xFFFFFFF0, 14], dtype=np.uint32)  # one clock goes round
    times[:8:2], times[1:8:2] = begins, begins + np.uint32(4 * probe.links)
    row = {
        "name": probe.name,
        "group": "core",
        "registers": 16,
        "local_bytes": 0,
        "resident_blocks": 8,
        "warm_s": [3e-6, 1e-6, 2e-6],
        "first_s": 5e-6,
        "flushed_s": [4e-6],
        "clock_after": {"sm": 1980.0},
        "kept": {"times": base64.b64encode(zlib.compress(times.tobytes())).decode()},
    }
    out = tmp_path / "core.jsonl"
    out.write_text(json.dumps({"name": probe.name, "began": True}) + "\n" + json.dumps(row) + "\n")
    rows = list(read_replay(out))
    assert list(pipe_rows(rows)) == [["iadd3", 1, 4, 4.0]]
    told = launch_row("1", "core", rows[0])
    assert told[7:] == [3, "2.000", "1.000", "3.000", "", "4.000", "", "5.000", 1980, ""]


def test_the_data_set_has_every_probe() -> None:
    measured = read_pipes()
    assert len(measured) > 200
    assert measured[PipeProbe("bar", 1, 1)] == pytest.approx(14.44, abs=0.01)
    assert (MEASURED / "launches.csv.gz").is_file()
