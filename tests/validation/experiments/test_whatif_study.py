"""The study file: what is read, and what is refused with its place."""

from collections.abc import Callable
from pathlib import Path

import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.validation.experiments.design.example import EXAMPLE
from smlab.validation.experiments.design.study import Study, read_study

Make = Callable[..., Study]


def test_dotted_keys_need_no_quotes(atomics: Make) -> None:
    plain = atomics()
    quoted = atomics(("gpu.atomic.queue_entries =", '"gpu.atomic.queue_entries" ='))
    assert [f.name for f in plain.factors] == ["warps", "gpu.atomic.queue_entries"]
    assert [f.name for f in quoted.factors] == [f.name for f in plain.factors]


def test_the_base_is_what_gpu_and_workload_have(atomics: Make) -> None:
    study = atomics()
    entries = load_gpu("v100").integer("atomic.queue_entries")
    assert study.design.values(0) == (8, entries)
    assert study.settings((2, 4)) == {"warps": 2, "gpu.atomic.queue_entries": 4}
    changed = atomics(
        ("set.iterations = 3", "set.iterations = 3\nset.warps = 5\nset.gpu.atomic.queue_entries = 3")
    )
    assert changed.design.values(0) == (5, 3)


def test_fixed_settings_reach_the_simulation(atomics: Make) -> None:
    one, many = atomics(), atomics(("set.iterations = 3", "set.iterations = 6"))
    cycles = [study.system.answer({}, 0).responses[0] for study in (one, many)]
    assert cycles[1] > 1.5 * cycles[0]


def test_a_scaled_factor_changes_all_its_keys(atomics: Make) -> None:
    intervals = [f"atomic.add.{part}_interval_cycles" for part in ("base", "pass")]
    scaled = atomics(
        (
            "gpu.atomic.queue_entries = [2, 8]",
            f"slow = {{ scale = {['gpu.' + k for k in intervals]}, values = [1, 2] }}",
        )
    )
    found = scaled.settings((1, 2.0))
    for key in intervals:
        assert found[f"gpu.{key}"] == 2 * load_gpu("v100").number(key)
    single, double = (scaled.system.answer(scaled.settings((8, x)), 0).responses[0] for x in (1.0, 2.0))
    assert 1.5 < double / single < 2.1


def test_a_factor_takes_the_values_of_other_gpus(atomics: Make) -> None:
    key = "atomic.add.latency_cycles"
    study = atomics(
        ("gpu.atomic.queue_entries = [2, 8]", f'gpu.{key} = {{ of = ["v100", "a100-40", "h100-sxm"] }}')
    )
    known = [float(load_gpu(name).number(key)) for name in ("v100", "a100-40", "h100-sxm")]
    assert list(study.factors[1].levels) == list(dict.fromkeys(known))


def test_descriptions_lie_beside_the_study(atomics: Make, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'title = "mine"\nextends = "v100"\nsame_card = true\n[sources]\nguess = "assumed: a test"\n[atomic]\n'
        'queue_entries = { value = 5, unit = "warp-instructions", kind = "assumed", source = "guess" }\n'
    )
    entries = load_gpu("v100").integer("atomic.queue_entries")
    study = atomics(("[2, 8]", '{ of = ["v100", "mine.toml"] }'))
    assert study.factors[1].levels == (entries, 5)
    assert atomics(('"v100"', '"mine.toml"')).design.values(0) == (8, 5)


def test_the_whole_gpu_is_a_factor(atomics: Make) -> None:
    study = atomics(("gpu.atomic.queue_entries = [2, 8]", 'gpu = ["v100", "a100-40"]'))
    both = [study.system.answer(study.settings((8, name)), 0).responses for name in ("v100", "a100-40")]
    assert both[0] != both[1]
    cycles, seconds = both[1][0], both[1][study.system.responses.index("seconds")]
    assert seconds == pytest.approx(cycles / load_gpu("a100-40").number("clock.sm_hz"))


def test_places_in_a_workload_file(atomics: Make, tmp_path: Path, repository: Path) -> None:
    (tmp_path / "mine.toml").write_text((repository / "examples" / "two_phase.toml").read_text())
    study = atomics(
        ('workload = "atomics"', 'workload = "mine.toml"'),
        ("set.iterations = 3", "set.kernel.blocks = 2"),
        ("warps = [1, 2, 8]", "program.0.body.0.loop = [5, 10]"),
        ("gpu.atomic.queue_entries = [2, 8]", "program.0.body.2.body.1.op = ['int32', 'fp64']"),
    )
    assert study.design.values(0) == (50, "int32")
    assert study.random
    short, long = (study.system.answer(study.settings((n, "int32")), 0).responses[0] for n in (5, 10))
    assert short < long


def test_nothing_random_means_one_replication(atomics: Make, queue: Make) -> None:
    study = atomics(('kind = "grid"', 'kind = "grid"\nreplications = 5'))
    assert (study.random, study.replications) == (False, 1)
    assert any("random" in note for note in study.notes)
    assert (queue().random, queue().replications, queue().notes) == (True, 4, ())


def test_stalls_are_all_the_reasons(atomics: Make) -> None:
    study = atomics(('"utilization", "speedup"]', '"stalls"]'))
    shares = study.system.answer(study.settings((8, 4)), 0).responses[1:]
    assert len(shares) == 12
    assert sum(shares) == pytest.approx(1)


def test_the_example_is_a_study(tmp_path: Path) -> None:
    path = tmp_path / "example.toml"
    path.write_text(EXAMPLE)
    assert read_study(path).design.size == 8


LEVELS = "gpu.atomic.queue_entries = [2, 8]"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "small"', "", "atomics.toml: title: missing"),
        ('title = "small"', 'titel = "small"', "titel: unknown key .*perhaps title"),
        ('gpu = "v100"', 'gpu = "v1000"', "base.gpu: GPU: unknown GPU .*perhaps v100"),
        ('gpu = "v100"', "", "base.gpu: missing"),
        ('gpu = "v100"', 'gpu = "v100"\ngqu = 3', "base.gqu: unknown key .*perhaps gpu"),
        ('workload = "atomics"', 'workload = "atomic"', "base.workload: no such workload"),
        ('workload = "atomics"', 'model = "ishigami"', "base.model|base.gpu|responses"),
        (
            "set.iterations = 3",
            "set.iteration = 3",
            "base.set.iteration: atomics has no such key .*iterations",
        ),
        ("set.iterations = 3", 'set.iterations = "3"', "base.set.iterations: not a value of iterations"),
        ("set.iterations = 3", "set.iterations = 0", "base: cannot run: atomics: iterations: out of range"),
        ("set.iterations = 3", "set.gpu.sm.max_warps = 60.5", "set.gpu.sm.max_warps: not a value"),
        ("set.iterations = 3", "set.gpu.sm.max_warps = 60", "base: cannot run: gpu .*sm.max_threads"),
        ('"utilization"', '"utilisation"', r"responses\[1\]: unknown response .*perhaps utilization"),
        ("[1, 2, 8]", "[1, 2, 0]", "factors.warps: impossible at 0: atomics: warps: out of range"),
        ("[1, 2, 8]", "[1, 2, 2000]", "factors.warps: impossible at 2000: .*expected 1 to 1024"),
        ("[1, 2, 8]", "[]", "factors.warps.values"),
        ("[1, 2, 8]", "{}", "factors.warps: does not say over what it goes"),
        ("[1, 2, 8]", "{ ragne = [1, 2] }", "factors.warps.ragne"),
        ("[1, 2, 8]", "{ range = [1, 2], level = 3 }", "factors.warps.level: unknown key .*perhaps levels"),
        ("[1, 2, 8]", "3", "factors.warps: not a factor"),
        (
            "warps = [1, 2, 8]",
            "wraps = [1, 2, 8]",
            "factors.wraps: atomics has no such key .*perhaps warps",
        ),
        (LEVELS, "gpu.atomic.queue_entry = [2]", "unknown key of a GPU .*perhaps gpu.atomic.queue_entries"),
        (
            LEVELS,
            "gpu.atomic.queue_entries = [0]",
            "gpu.atomic.queue_entries: impossible at 0: .*out of range",
        ),
        (LEVELS, "gpu.l1.latency_cycles = [9000]", "impossible at 9000.0: .*must exceed l1.latency_cycles"),
        (LEVELS, "gpu.atomic.popc_inc.latency_cycles = [30]", "no one value in the base"),
        (LEVELS, "gpu = ['v100', 'v1000']", r"factors.gpu.values\[1\]: GPU: unknown GPU"),
        (LEVELS, "gpu.sm.registers = { of = ['v1000'] }", "factors.gpu.sm.registers.of: GPU: unknown GPU"),
        (LEVELS, "lanes = { of = ['v100'] }", "factors.lanes.of: only a constant of a GPU"),
        (LEVELS, "same_word = [1, 2]", "factors.same_word: has no one value in the base"),
        (
            LEVELS,
            "again = { keys = ['warps'], values = [1] }",
            "factors.again: is set by factor warps already",
        ),
        (LEVELS, "seed = { keys = ['lanes'], values = [1] }", "factors.seed: a factor needs another name"),
        (
            LEVELS,
            "cycles = { keys = ['lanes'], values = [1] }",
            "factors.cycles: a factor needs another name",
        ),
        ('kind = "grid"', 'kind = "gird"', "design.kind"),
        ('kind = "grid"', 'kind = "grid"\nsamples = 3', "design.samples: has no meaning for grid"),
        ('kind = "grid"', 'kind = "grid"\nsecond_order = true', "design.second_order: has no meaning"),
        ('kind = "grid"', 'kind = "sobol"', "design.samples: missing"),
        ('kind = "grid"', 'kind = "sobol"\nsamples = 12', "design.samples: not a power of two"),
        ('kind = "grid"', 'kind = "grid"\nreplications = 0', "design.replications"),
        ('kind = "grid"', 'kind = "grid"\nseed = -1', "design.seed"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(atomics: Make, old: str, new: str, message: str) -> None:
    with pytest.raises(SmlabError, match=message) as refused:
        atomics((old, new))
    assert "\n" not in str(refused.value)
    assert "atomics.toml" in str(refused.value)


STOP = '\n[stop]\nresponse = "wait"\nhalf_width = 0.1\nmost_replications = 9\n'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('model = "mm1-run"', 'model = "mm2"', "base.model: unknown model"),
        ('model = "mm1-run"', 'model = "mm1-run"\ngpu = "v100"', "base.gpu: has no meaning with a model"),
        ("seed = 7", "seed = 7" + STOP.replace('"wait"', '"waits"'), "stop.response: is not asked for"),
        ("seed = 7", "seed = 7" + STOP.replace("half_width = 0.1", ""), "stop: needs half_width or relative"),
        ("seed = 7", "seed = 7" + STOP.replace("half_width = 0.1", "half_width = 0"), "stop.half_width"),
        ("seed = 7", "seed = 7" + STOP.replace("9", "3"), "design.replications: out of range"),
        ('kind = "grid"', STOP.join(['kind = "sobol"\nsamples = 4', "[design.x]"]), "stop|design"),
    ],
)
def test_what_is_wrong_with_stopping_is_told(queue: Make, old: str, new: str, message: str) -> None:
    with pytest.raises(SmlabError, match=message):
        queue((old, new))


def test_speedup_cannot_stop_a_study(atomics: Make) -> None:
    with pytest.raises(SmlabError, match="stop.response: is itself a ratio to the base"):
        atomics(('kind = "grid"', 'kind = "grid"\nreplications = 2' + STOP.replace("wait", "speedup")))


def test_a_level_that_only_other_levels_allow_is_tried_with_them(atomics: Make) -> None:
    # 16 lanes on a word cannot be with the base's 8 lanes, but with 32.
    study = atomics(
        ("set.iterations = 3", "set.lanes = 8\nset.same_word = 8"),
        ("warps = [1, 2, 8]", "lanes = [8, 32]"),
        (LEVELS, "same_word = [8, 16]"),
    )
    assert study.design.size == 4
    with pytest.raises(SmlabError, match="factors.same_word: impossible at 16"):
        atomics(
            ("set.iterations = 3", "set.lanes = 8\nset.same_word = 8"),
            ("warps = [1, 2, 8]", "lanes = [8, 32]"),
            (LEVELS, "same_word = [8, 16]"),
            ('"grid"', '"one-at-a-time"'),
        )
