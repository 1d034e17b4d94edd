"""``smlab port tune`` from files; on public searches it finds more than measuring the old card's best ten."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smlab.cli.main import run
from smlab.hw_bench.datasets.ktt import read_ktt
from smlab.hw_bench.datasets.timed_work import work_of_times
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.models.projection.projection import project

LEAST_CHANGE = np.log(1.03)


def cache(path: Path, device: str, factor: Any) -> Path:
    """A cache of Kernel Tuner over sizes and a switch."""
    configs = [(size, flag) for flag in (0, 1) for size in (1, 2, 4, 8, 16)]
    entries = {
        f"{size},{flag}": {
            "size": size,
            "flag": flag,
            "time": factor(size, flag) * (1 + 0.1 * abs(size - 4)),
            "times": [factor(size, flag) * (1 + 0.1 * abs(size - 4))] * 3,
        }
        for size, flag in configs
    }
    content = {
        "device_name": device,
        "kernel_name": "k",
        "tune_params_keys": ["size", "flag"],
        "cache": entries,
    }
    path.write_text(json.dumps(content))
    return path


@pytest.fixture
def spaces(tmp_path: Path) -> tuple[Path, Path]:
    old = cache(tmp_path / "old.json", "V100", lambda size, flag: 1 + 1.5 * flag)
    new = cache(tmp_path / "new.json", "A100", lambda size, flag: 1 - 0.5 * flag)
    return old, new


def tune(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    assert run(["port", "tune", *map(str, arguments), "--from", "v100", "--to", "a100-40", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_switch_that_turned_over_is_found(
    spaces: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    document = tune(capsys, spaces[0], "--truth", spaces[1], "--budget", 4, "--seeds", 3)
    assert len(document["tune"]) == 4
    assert document["fraction_of_optimum"] == {"median": 1.0, "low": 1.0, "high": 1.0}
    assert document["old_best"]["fraction"] < 0.6
    assert document["tune"][0]["config"] == "size=4, flag=0"
    assert document["advice"][0]["parameter"] in ("size", "flag")
    assert all(0.5 <= row["confidence"] <= 1 for row in document["advice"])


def test_a_truth_of_fewer_configurations_is_searched_alone(
    spaces: tuple[Path, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    content = json.loads(spaces[1].read_text())
    left = {key: entry for key, entry in content["cache"].items() if entry["size"] != 4}
    fewer = tmp_path / "fewer.json"
    fewer.write_text(json.dumps(content | {"cache": left}))
    document = tune(capsys, spaces[0], "--truth", fewer, "--budget", 5, "--seeds", 2)
    rows = document["tune"]
    assert len(rows) == 5
    assert not any("size=4," in row["config"] for row in rows)
    assert [row["measured_s"] for row in rows] == [
        pytest.approx(1e-3 * left[row["config"].replace("size=", "").replace(" flag=", "")]["time"])
        for row in rows
    ]
    # What was told when a configuration was chosen, not what came of it.
    assert all(row["low"] < row["predicted_s"] < row["high"] for row in rows)
    assert any(abs(row["predicted_s"] / row["measured_s"] - 1) > 0.01 for row in rows)
    assert rows[0]["high"] / rows[0]["low"] > rows[-1]["high"] / rows[-1]["low"] > 1.01


def test_without_the_truth_it_is_a_list_and_goes_on_after_what_was_measured(
    spaces: tuple[Path, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first = tune(capsys, spaces[0], "--budget", 4)
    assert [row["measured_s"] for row in first["tune"]] == [None] * 4
    few = tmp_path / "few.csv"
    lines = [f'k,"{row["config"]}",0,0.0005' for row in first["tune"][:2]]
    few.write_text("kernel,config,launch,seconds\n" + "\n".join(lines) + "\n")
    then = tune(capsys, spaces[0], "--budget", 6, "--measured", few)
    assert len(then["tune"]) == 4
    assert not {row["config"] for row in then["tune"]} & {row["config"] for row in first["tune"][:2]}
    assert all(row["low"] < row["predicted_s"] < row["high"] for row in then["tune"])
    assert run(["port", "tune", str(spaces[0]), "--from", "v100", "--to", "a100-40", "--budget", "4"]) == 0
    assert "4 of 10 configurations to measure" in capsys.readouterr().out


def test_mistakes_are_one_line(
    spaces: tuple[Path, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other = tmp_path / "other.csv"
    other.write_text("kernel,config,launch,seconds\nk,size=99,0,1\n")
    for arguments, message in (
        ([spaces[0], "--measured", other], "no configuration of the space"),
        ([spaces[0], "--truth", other], "no configuration of the space"),
        ([tmp_path / "nothing.json"], "nothing.json"),
        ([spaces[0], "--source", tmp_path / "k.cu"], "k.cu"),
    ):
        status = run(["port", "tune", *map(str, arguments), "--from", "v100", "--to", "a100-40"])
        told = capsys.readouterr().err.replace("no counters: the source's own order is the first guess\n", "")
        assert status == 2
        assert message in told
        assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("old", "new", "at_least"),
    [("A100 a100-40", "A4000 rtx-a4000", 0.839), ("A4000 rtx-a4000", "A100 a100-40", 0.723)],
)
def test_ten_measurements_find_more_than_the_old_card_s_ten_best(
    shared_data: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, at_least: float
) -> None:
    folder = shared_data / "tuning" / "kernel-tuner"
    if not folder.is_dir():
        pytest.skip("the public search (tuning/kernel-tuner) is not here")
    files = [folder / f"convolution_milo_{name.split()[0]}.json.gz" for name in (old, new)]
    gpus = ["--from", old.split()[1], "--to", new.split()[1]]
    assert run(["port", "tune", str(files[0]), "--truth", str(files[1]), *gpus, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["fraction_of_optimum"]["median"] >= at_least
    assert document["fraction_of_optimum"]["median"] >= document["old_best"]["fraction"] + 0.05


@pytest.fixture(scope="module")
def ktt(shared_data: Path) -> tuple[Any, Any]:
    folder = shared_data / "tuning" / "ktt-convolution"
    if not folder.is_dir():
        pytest.skip("the public search (tuning/ktt-convolution) is not here")
    return tuple(read_ktt(folder / f"KTConvolutionOutput_{gpu}.json.gz") for gpu in ("2080Ti", "3090"))  # type: ignore[return-value]


def pairs_of_one_change(config: list[tuple[object, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of rows that differ in one parameter, each once, the first row the lower one."""
    pairs: set[tuple[int, int]] = set()
    for column in range(len(config[0])):
        groups: dict[tuple[object, ...], list[int]] = {}
        for row, values in enumerate(config):
            groups.setdefault((*values[:column], *values[column + 1 :]), []).append(row)
        pairs |= {pair for members in groups.values() for pair in itertools.combinations(members, 2)}
    first, second = np.array(sorted(pairs)).T
    return first, second


def test_the_sign_of_a_change_is_right_more_often_than_the_old_card_s(ktt: tuple[Any, Any]) -> None:
    """Pairs that differ in one parameter and by 3 % on the 3090: 81.6 % right by copying the 2080 Ti's
    sign, 89 % from its counters, 91 % with the registers that the 3090's compiler gave."""
    old, new = ktt
    at = {config: row for row, config in enumerate(new.config)}
    rows = np.array([row for row, config in enumerate(old.config) if config in at])
    there = np.array([at[old.config[row]] for row in rows])
    gpus = load_gpu("rtx-2080-ti"), load_gpu("rtx-3090")
    work = work_of_times(old, rows, old.seconds[rows], gpus[0])
    compiled = replace(work, registers_per_thread=new.registers_per_thread[there])
    first, second = pairs_of_one_change([old.config[row] for row in rows])

    def share_right(seconds: np.ndarray) -> float:
        predicted = np.log(seconds[second] / seconds[first])
        true = np.log(new.seconds[there][second] / new.seconds[there][first])
        clear = np.abs(true) > LEAST_CHANGE
        return float((np.sign(predicted) == np.sign(true))[clear].mean())

    assert 0.80 < share_right(old.seconds[rows]) < 0.82
    assert share_right(project(work, *gpus).mid_s) > 0.885
    assert share_right(project(work, *gpus, target_work=compiled).mid_s) >= 0.90
