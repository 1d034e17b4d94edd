"""The five shipped studies: their files are sound, a reduced run answers, and what they say is what the
simulator does."""

import json
import math
import re

import numpy as np
import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import atomics, simulate
from smlab.sim.histogram import histogram, share_of
from smlab.validation.checks import Plan, whatif
from smlab.validation.experiments.effects.paired import variance_reduction
from smlab.validation.experiments.studies.book import CHAPTERS
from smlab.validation.experiments.studies.page import UnderAlternative, add_studies
from smlab.validation.experiments.studies.points import (
    FOLDER,
    folder_of,
    further_alternatives,
    points_of,
    read,
)
from smlab.validation.report import Report

FILES = [(c.folder, file) for c in CHAPTERS for file in c.files]


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan(gpu=load_gpu("v100"), quick=True, seed=0, processes=1)


@pytest.fixture(scope="module")
def frames(plan: Plan) -> dict:
    return {task.key: task.function(*task.arguments) for task in whatif.tasks(plan)}


@pytest.fixture(scope="module")
def told(frames: dict) -> tuple[Report, dict]:
    """The report's section and the answers."""
    page = Report("test")
    by_file = {(f, n): frames[f"whatif-{f}-{n}"] for f, n in FILES}
    return page, add_studies(page, page.section("whatif", "x"), by_file, lambda chapter: chapter.quick)


@pytest.fixture(scope="module")
def page(told: tuple[Report, dict]) -> Report:
    return told[0]


@pytest.fixture(scope="module")
def answers(told: tuple[Report, dict]) -> dict:
    return told[1]


@pytest.mark.parametrize(("folder", "file"), FILES)
def test_study_files_are_sound(folder: str, file: str) -> None:
    study = read(folder, file)
    assert study.title
    assert study.question
    assert study.design.size >= 20


@pytest.mark.parametrize("folder", [c.folder for c in CHAPTERS])
def test_readmes_have_question_method_and_answer_with_intervals(folder: str) -> None:
    text = (folder_of(folder) / "README.md").read_text()
    for part in ("**Question.**", "**Method.**", "**Answer.**"):
        assert part in text
    assert re.search(r"\([-+]?\d+(\.\d+)? to [-+]?\d+(\.\d+)?\)", text)
    assert f"]({folder_of(folder).name})" in (FOLDER / "README.md").read_text()


def test_every_point_has_an_answer_and_the_report_has_each_study(page: Report) -> None:
    assert page.ok
    assert [c.name for c in page.checks] == ["whatif-studies"]
    assert {f"whatif-{c.folder}" for c in CHAPTERS} <= set(page.tables())
    assert {"study-service-time", "study-second-pipe", "study-policies", "study-occupancy-error"} <= set(
        page.drawings()
    )
    json.dumps(page.metrics(), allow_nan=False)


def test_findings_have_intervals_where_anything_is_random(answers: dict) -> None:
    for folder, answer in answers.items():
        said = [f.name for f in answer.findings if f.words() in answer.text]
        assert len(said) >= 2, f"{folder}: an answer says its figures, with their intervals"
        with_interval = 0
        for finding in answer.findings:
            value = finding.value
            assert math.isfinite(value.estimate), finding
            if math.isfinite(value.low):
                assert value.low <= value.estimate <= value.high, finding
                with_interval += 1
        assert with_interval >= 4, folder


def test_latency_and_interval_are_all_of_s(answers: dict) -> None:
    """S is homogeneous in the two constants but for the cycles between issues, so the two shares nearly
    add up to 1."""
    found = answers["service-time"]
    for load in (2, 4, 8, 16):
        total = found[f"latency-{load}"].value.estimate + found[f"interval-{load}"].value.estimate
        assert 85 <= total <= 115
    assert found["latency-2"].value.estimate > 2 * found["latency-16"].value.estimate
    assert found["interval-16"].value.low > 80


def test_a_second_pipe_hides_no_pass(answers: dict) -> None:
    found = answers["second-pipe"]
    # An atomic on a solid image is 3.4 cycles and 32 passes. A second pipe hides the former; the passes of
    # both take the one data stage, a cycle each: 35.1 / 32 at most, and less where the unit is not always
    # busy.
    most = (3.431 + 32 * 0.989) / 32 + 0.001
    for name in ("two-solid", "shared-solid"):
        assert 0.99 < found[name].value.estimate <= most


def test_two_pipes_that_are_kept_busy_are_as_fast_as_the_data_stage() -> None:
    """The bound of the study is reached by a microbenchmark: 32 cycles an atomic in place of 35.1."""
    one, two = (
        load_gpu("titan-v").with_values({"atomic.pipes": pipes}, source="assumed: a test") for pipes in (1, 2)
    )
    kernel = atomics(warps=32, same_word=32, iterations=50)
    cycles = [simulate(kernel, gpu).cycles / (32 * 50) for gpu in (one, two)]
    assert cycles == pytest.approx([3.431 + 32 * 0.989, 32], rel=0.01)


def test_merging_lanes_beats_a_second_pipe(answers: dict) -> None:
    found = {f.name: f.value.estimate for f in answers["second-pipe"].findings}
    assert 2 < found["popc-512"] < 32  # passes go from 32 to 1
    assert found["popc-512"] > 2 * found["two-solid"]
    assert found["popc-two-128"] == pytest.approx(1.0, abs=0.05)


def test_round_robin_is_not_slower(answers: dict) -> None:
    found = answers["policies"]
    assert found["lrr-slower"].value.estimate == 0
    assert found["lrr"].value.high < 1
    assert found["resident-lrr"].value.low > found["resident-gto"].value.high


def test_the_closed_network_beats_the_occupancy_estimate_where_warps_are_independent(answers: dict) -> None:
    found = answers["occupancy-error"]
    assert found["closed-mean"].value.high < found["occupancy-mean"].value.low
    assert found["occupancy-mean"].value.high < found["constant-mean"].value.low


def test_a_faster_clock_cannot_give_more_than_its_ratio(answers: dict) -> None:
    gains = {f.name: f.value for f in answers["newer-sm"].findings}
    bound = 1980 / 1380
    for kernel in ("gather", "tile"):
        found = gains[f"{kernel}-H100-gpu.clock.sm_hz"]
        assert found.estimate > 1.2
        assert found.estimate <= bound + 1e-9 or found.contains(bound)
    # One run of the histogram, without chance: what meets what in its queues changes with the clock, for
    # better or worse.
    assert 1.2 < gains["histogram-H100-gpu.clock.sm_hz"].estimate < 1.03 * bound
    assert gains["stream-H100-gpu.dram.sustained_bandwidth_bytes_per_s"].estimate > 1.2
    assert gains["gather-H100-gpu.dram.latency_cycles"].estimate < 0.95


def test_a_histogram_that_beats_the_ratio_of_clocks_does_so_by_chance() -> None:
    """Slower memory, in cycles, can save cycles (Graham's anomaly); over sizes of the image it does not."""
    gpus = [
        load_gpu("v100").with_values(
            {"clock.sm_hz": hz, "dram.bandwidth_bytes_per_s": 2400e9}, source="assumed: a test"
        )
        for hz in (1380e6, 1980e6)
    ]
    ratios = []
    for pixels in (65536, 98304, 131072, 196608, 262144):
        cycles = [
            simulate(histogram(g, pixels=pixels, image="uniform", sms=4), share_of(g, 4)).cycles for g in gpus
        ]
        ratios.append(cycles[1] / cycles[0])
    assert min(ratios) > 1 / 1.03
    assert np.mean(ratios) > 1


def test_the_pairing_saves_what_the_paired_runs_say_it_does() -> None:
    """The variance reduction is told from paired runs alone. Here independent runs are made as well, and
    their differences vary that much more."""
    runs = {common: _cycles(common) for common in (True, False)}
    paired = variance_reduction(*runs[True])
    assert paired is not None
    difference = {common: np.var(v - b, ddof=1) for common, (v, b) in runs.items()}
    real = difference[False] / difference[True]
    # Both are ratios of variances from 40 runs: within a factor of two of each other.
    assert 0.5 < real / paired.estimate < 2
    assert real > 3


def _cycles(common: bool) -> tuple[np.ndarray, np.ndarray]:
    """Cycles of scattered reads with the A100's L2 latency, and with the V100's, over 40 seeds."""
    from smlab.hw_bench.inputs import load_toml
    from smlab.sim.workload_file import parse_workload

    tables = load_toml(folder_of("newer-sm") / "kernel-gather.toml")
    tables["kernel"].update(blocks=4, sms=1)
    tables["program"][0]["body"][0]["loop"] = 40
    kernel = parse_workload(tables, "gather")
    base = load_gpu("v100")
    variant = base.with_values({"l2.latency_cycles": 200}, source="assumed: a test")
    seeds = np.random.SeedSequence(7).generate_state(80).tolist()
    a = [simulate(kernel, variant, seed=s).cycles for s in seeds[:40]]
    b = [simulate(kernel, base, seed=s).cycles for s in (seeds[:40] if common else seeds[40:])]
    return np.array(a, dtype=float), np.array(b, dtype=float)


def test_a_study_is_answered_under_a_further_alternative_as_well(frames: dict) -> None:
    """Beside the description as it stands; what cannot be asked under it says why."""
    here = {(f, n): frames[f"whatif-{f}-{n}"] for f, n in FILES}
    chapter = next(c for c in CHAPTERS if c.folder == "service-time")
    place = (chapter.folder, "study.toml")
    assert further_alternatives(*place, chapter.quick) == {"rounds": "", "two-pipes": ""}
    refused = further_alternatives("occupancy-error", "study.toml")["rounds"]
    assert refused.startswith("factors.interval: impossible at 0.5")
    there = points_of(*place, chapter.quick, alternative="rounds")
    assert not np.allclose(there["service_cycles"], here[place]["service_cycles"])
    other = UnderAlternative("rounds", {place: there}, {("occupancy-error", "study.toml"): refused})
    page = Report("test")
    add_studies(page, page.section("whatif", "x"), here, lambda chapter: chapter.quick, [other])
    table = page.tables()["whatif-service-time-rounds"]
    assert len(table.rows) > 5
    assert "whatif-policies-rounds" not in page.tables()


def test_a_study_about_what_an_alternative_sets_is_not_asked_under_it() -> None:
    """Its levels hold the description's own value, and not the alternative's."""
    said = further_alternatives("second-pipe", "study-popc-inc.toml")
    assert said["rounds"] == ""
    assert "is about gpu.atomic.pipes = 1, which is 2 under 'two-pipes'" in said["two-pipes"]
    said = further_alternatives("second-pipe", "study.toml")
    assert (
        "factors.banks: is about gpu.atomic.add.base_interval_cycles = 3.431, which is 0.0" in said["rounds"]
    )


@pytest.mark.thorough
def test_the_report_sized_run_answers_too() -> None:
    page = Report("test")
    frames = {(c.folder, f): points_of(c.folder, f, c.report) for c in CHAPTERS for f in c.files}
    answers = add_studies(page, page.section("whatif", "x"), frames, lambda chapter: chapter.report)
    assert page.ok
    assert "study-pairing" in page.drawings()
    assert answers["second-pipe"]["two-solid"].value.half_width < 0.05
