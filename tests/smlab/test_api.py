"""The Python functions: frozen results, data frames, short reprs, and one line for a wrong argument."""

import dataclasses
from pathlib import Path

import pytest

import smlab
from answers import document
from smlab.examples import PROFILE

STUDY = """title = "two levels"
responses = ["wait"]
base.model = "mm1-run"
base.set.customers = 50
factors.arrival_rate = [0.3, 0.8]
design = { kind = "one-at-a-time", replications = 3 }
"""


@pytest.mark.parametrize("command", ["utilization", "roofline", "project"])
def test_a_profile_gives_what_the_command_prints(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"target": "h100-pcie"} if command == "project" else {}
    result = getattr(smlab, command)(PROFILE, **options)
    frame = result.to_dataframe()
    printed = document(capsys, command, "--example")["kernels"]
    assert frame["kernel"].tolist() == [row["kernel"] for row in printed]
    key = {"utilization": "low", "roofline": "seconds", "project": "mid_s"}[command]
    assert frame[key].tolist() == pytest.approx([row[key] for row in printed])
    assert len(repr(result)) < 120
    assert "profile.csv" in repr(result)
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.profile = Path("x")


def test_a_simulation_tells_its_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    result = smlab.simulate("atomics", "v100", settings={"warps": 4, "gpu.clock.sm_hz": 1e9})
    assert result.seconds == result.cycles / 1e9
    assert len(repr(result)) < 120
    assert result.to_dataframe()["warp_instructions"].sum() == result.warp_instructions == 4
    printed = document(
        capsys, "simulate", "atomics", "--set", "warps=4", "--set", "gpu.clock.sm_hz=1000000000"
    )
    assert printed["cycles"] == result.cycles
    kernel = smlab.atomics(warps=4)
    assert smlab.simulate(kernel, smlab.load_gpu("v100")).cycles == result.cycles


def test_a_study_gives_its_points(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(STUDY)
    result = smlab.whatif(path, out=tmp_path / "out", jobs=1)
    assert len(result.to_dataframe()) == result.outcome.points
    assert "study s" in repr(result)


def test_claims_are_rows() -> None:
    result = smlab.claims("dp-spread")
    assert result.to_dataframe()["id"].tolist() == [j.claim.id for j in result.judged]
    assert len(repr(result)) < 160


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: smlab.simulate(3), "workload: a int is no workload"),
        (lambda: smlab.simulate("atomics", 7), "gpu: a int is not a GPU"),
        (lambda: smlab.simulate("atomics", seed="x"), "seed: not a whole number"),
        (lambda: smlab.simulate("atomics", settings={"warps": [1]}), "settings: warps: not a value"),
        (lambda: smlab.simulate("atomics", keep="all"), "keep: not a way to record"),
        (lambda: smlab.simulate("atomics", max_cycles="x"), "max_cycles"),
        (lambda: smlab.utilization(None), "profile: a NoneType is not a path"),
        (lambda: smlab.utilization(PROFILE, gpu=1.5), "gpu: a float is not a GPU"),
        (lambda: smlab.roofline(["a.csv"]), "profile: a list is not a path"),
        (lambda: smlab.roofline(PROFILE, maxima=3), "maxima"),
        (lambda: smlab.project(PROFILE, target=3), "a int is not a GPU"),
        (lambda: smlab.project(PROFILE, target="v100", switches="all"), "switches"),
        (lambda: smlab.advise(4), "profile: a int is not a path"),
        (lambda: smlab.advise("x.csv", top=0), "top"),
        (lambda: smlab.whatif(4), "study: a int is not a path"),
        (lambda: smlab.validate(gpu=[]), "gpu: a list is not a GPU"),
        (lambda: smlab.validate(seed="x"), "seed"),
        (lambda: smlab.claims(3), "only"),
    ],
)
def test_a_wrong_argument_is_one_line(call, said: str) -> None:
    with pytest.raises(smlab.SmlabError, match="^[^\\n]*$") as told:
        call()
    assert said in str(told.value)
