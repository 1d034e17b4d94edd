"""``smlab utilization``: the agreed keys, round trips through every profiler's format, comparing,
plotting, refusals."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.random import SeedSequence

from profiler_formats import write_ncu_long, write_nvprof
from smlab.commands.utilization.api import tables_for, utilization
from smlab.commands.utilization.rows import E_FROM_LANES, estimate_rows
from smlab.commands.utilization.run import UtilizationOptions, run_utilization
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles import AtomicQuantities, write_ncu_wide
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU, CounterRow, CounterTable
from smlab.models.utilization.service_table import ServiceTable
from smlab.models.utilization.trust_map import CLOSED, shipped_map
from smlab.models.utilization.verdict import BOTTLENECK, NOT, percent_range
from smlab.sim.compiled import run
from smlab.sim.counters import counter_table
from smlab.sim.lowering import lower
from smlab.sim.machine import machine_from
from smlab.sim.reference import Record
from smlab.validation.campaigns.utilization_maps.simulate import draw_kernel
from smlab.validation.service_tables import ServiceTables, tables_of

GPU = load_gpu("v100")

KEYS = [
    *("kernel", "launch", "sm", "jobs", "cas_jobs", "warps", "n", "e", "c", "occupied", "saturation"),
    *("latency", "service_cycles", "busy_cycles", "elapsed_cycles", "utilization", "low", "high"),
    *("utilization_occupancy", "verdict", "flags", "counters", "gain", "alternatives"),
]


@pytest.fixture(scope="module")
def simulated() -> ServiceTables:
    return tables_of(GPU)


@pytest.fixture(autouse=True)
def no_waiting(simulated: ServiceTables, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("smlab.validation.service_tables.tables_of", lambda gpu, progress=None: simulated)


def counters(*families: str) -> CounterTable:
    """The simulator's counters of one kernel of each family, as launches 0, 1, ..."""
    rows: list[CounterRow] = []
    for launch, family in enumerate(families):
        kernel, seed = draw_kernel(machine_from(GPU), family, SeedSequence(5))
        result = run(lower(kernel, machine_from(GPU), seed), Record.TOTALS)
        rows += counter_table(result, launch).rows()
    return CounterTable.from_rows(rows)


def whole(table: CounterTable) -> CounterTable:
    return CounterTable.from_rows(row for row in table.rows() if row.sm == WHOLE_GPU)


def command(capsys: pytest.CaptureFixture[str], *paths: Path, gpu: str | None = "v100", **options) -> str:
    given = {
        "table": None,
        "samples": None,
        "as_json": False,
        "show_how": False,
        "compare": False,
        "plot": None,
        "example": False,
        **options,
    }
    run_utilization(UtilizationOptions(profiles=tuple(paths), gpu=gpu, **given))
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], *paths: Path, **options) -> dict:
    return json.loads(command(capsys, *paths, as_json=True, **options))


def test_the_document_has_the_agreed_keys_and_adds_up(tmp_path: Path, capsys) -> None:
    path = tmp_path / "counters.csv"
    counters("work-queue", "chains").write_csv(path)
    found = document(capsys, path)
    assert list(found) == ["schema", "kernels", "skipped"]
    assert found["skipped"] == []
    assert {row["kernel"] for row in found["kernels"]} == {"work-queue", "chains"}
    for row in found["kernels"]:
        assert list(row) == KEYS
        assert 0 <= row["low"] <= row["utilization"] <= row["high"] <= 1 or row["flags"]
        assert row["busy_cycles"] == pytest.approx(row["utilization"] * row["elapsed_cycles"])
        assert row["c"] == pytest.approx(row["n"] * row["cas_jobs"] / row["jobs"])
        assert row["service_cycles"] * row["jobs"] == pytest.approx(row["busy_cycles"])
        assert 0 <= row["n"] <= row["warps"]
        assert row["latency"] == pytest.approx(max(0, row["utilization"] - row["occupied"]))
        own = row["alternatives"]
        assert [a["name"] for a in own] == [a.name for a in GPU.alternatives]
        for key in ("occupied", "saturation", "utilization"):
            assert row[key] == pytest.approx(sum(a["weight"] * a[key] for a in own))
        # A mixture is made of 200 points for each, so its ends are known to that.
        assert min(a["low"] for a in own) - 0.01 <= row["low"]
        assert row["high"] <= max(a["high"] for a in own) + 0.01


def test_what_the_evidence_leaves_open_is_told_where_it_matters(
    tmp_path: Path, capsys, simulated: ServiceTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit that takes four times as long under the second alternative: other shares, and no verdict."""
    slow = ServiceTables(
        *(ServiceTable(t.data.copy(data=4 * t.data.values)) for t in (simulated.batch, simulated.looped))
    )

    def tables(gpu, progress=None):
        return slow if gpu.number("atomic.round_gap_cycles") else simulated

    monkeypatch.setattr("smlab.validation.service_tables.tables_of", tables)
    path = tmp_path / "counters.csv"
    counters("work-queue").write_csv(path)
    row = document(capsys, path)["kernels"][0]
    first, second, _ = row["alternatives"]
    assert second["occupied"] == pytest.approx(min(1, 4 * first["occupied"]))
    assert row["verdict"] == (first["verdict"] if first["verdict"] == second["verdict"] else "cannot tell")
    printed = " ".join(command(capsys, path, details=True).split())
    assert "by alternative: occupancy: occupied" in printed
    assert "rounds: occupied" in printed


def test_counters_survive_every_format(tmp_path: Path, capsys) -> None:
    """The simulator's own table, ncu long and wide, and nvprof give identical tables and identical
    estimates."""
    table = whole(counters("exponential", "histogram", "producers", "lookups"))
    own = tmp_path / "own.csv"
    table.write_csv(own)
    expected = document(capsys, own)
    assert len(expected["kernels"]) == 4
    for write in (write_ncu_long, write_ncu_wide, write_nvprof):
        path = tmp_path / f"{write.__name__}.csv"
        write(table, path, gpu=GPU)
        assert document(capsys, path) == expected


def test_counters_of_each_sm_survive_nvprof(tmp_path: Path, capsys) -> None:
    table = counters("uneven-blocks", "chains")
    own, nvprof = tmp_path / "own.csv", tmp_path / "nvprof.csv"
    table.write_csv(own)
    write_nvprof(table, nvprof, gpu=GPU)
    expected = document(capsys, own)
    assert len({row["sm"] for row in expected["kernels"]}) > 1
    assert document(capsys, nvprof) == expected


def launch(name: str, number: int, jobs: float, elapsed: float, passes: float) -> list[CounterRow]:
    """The whole-GPU counters of a kernel on 80 SMs with 32 warps each."""
    values = {
        "smsp__inst_executed_op_shared_atom.sum": (80 * jobs, "inst"),
        "smsp__inst_executed_op_shared_atom_dot_cas.sum": (0.0, "inst"),
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum": (80 * jobs * passes, ""),
        "sm__cycles_elapsed.max": (elapsed, "cycle"),
        "sm__cycles_active.avg": (elapsed, "cycle"),
        "sm__warps_active.avg.per_cycle_active": (32.0, "warp"),
    }
    return [CounterRow(name, number, WHOLE_GPU, c, v, u) for c, (v, u) in values.items()]


@pytest.fixture
def before_and_after(tmp_path: Path) -> tuple[Path, Path]:
    """A histogram before and after privatising: a full unit, and one with room."""
    paths = tmp_path / "before.csv", tmp_path / "after.csv"
    hot = launch("histogram", 0, 1000, 1000 * 35.5, 32)
    cool = launch("histogram", 0, 1000, 160_000, 2)
    write_ncu_long(CounterTable.from_rows([*hot, *launch("scan", 1, 0, 1000, 1)]), paths[0], gpu=GPU)
    write_ncu_long(CounterTable.from_rows([*cool, *launch("other", 1, 500, 90_000, 1)]), paths[1], gpu=GPU)
    return paths


def test_kernels_without_atomics_are_listed_as_skipped(before_and_after, capsys) -> None:
    found = document(capsys, before_and_after[0])
    (row,) = found["kernels"]
    assert row["sm"] is None
    assert row["verdict"] == BOTTLENECK
    assert found["skipped"] == [{"kernel": "scan", "reason": "no shared-memory atomics"}]
    printed = command(capsys, before_and_after[0])
    for words in ("histogram", "bottleneck", "privatise", "no shared-memory atomics: scan"):
        assert words in printed


def test_a_profile_without_atomics_is_answered(tmp_path: Path, capsys) -> None:
    path = tmp_path / "p.csv"
    write_ncu_long(CounterTable.from_rows(launch("scan", 0, 0, 1000, 1)), path, gpu=GPU)
    printed = command(capsys, path)
    assert f"{NOT}: no launch in it uses shared-memory atomics" in " ".join(printed.split())
    assert "no shared-memory atomics: scan" in printed
    assert document(capsys, path)["kernels"] == []


def test_comparing_says_whether_the_bottleneck_moved(before_and_after, capsys) -> None:
    found = document(capsys, *before_and_after, compare=True)
    by_kernel = {row["kernel"]: row for row in found["compare"]}
    assert by_kernel["histogram"]["moved"] == "away from the atomic unit"
    assert by_kernel["histogram"]["before"]["verdict"] == BOTTLENECK
    assert by_kernel["histogram"]["after"]["verdict"] == NOT
    assert by_kernel["other"]["moved"] == "only in the second profile"
    assert {row["profile"] for row in found["kernels"]} == {str(path) for path in before_and_after}
    assert "away from the atomic unit" in command(capsys, *before_and_after, compare=True)
    backwards = document(capsys, *reversed(before_and_after), compare=True)["compare"]
    assert backwards[0]["moved"] == "to the atomic unit"


def test_a_plot_is_drawn(before_and_after, tmp_path: Path, capsys) -> None:
    for suffix in ("png", "svg"):
        path = tmp_path / f"u.{suffix}"
        command(capsys, *before_and_after, plot=path)
        assert path.stat().st_size > 2000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compare": True}, r"--compare: wrong number of profiles .got 1; expected two"),
        ({"plot": Path("u.txt")}, r"--plot: not a picture's name"),
        ({"plot": Path("nowhere/u.png")}, r"the folder to write into does not exist"),
        ({"gpu": "a100-40"}, r"the profile is of another GPU"),
        ({"gpu": "nonesuch"}, r"nonesuch"),
        ({"table": Path("none.csv")}, r"none\.csv"),
    ],
)
def test_unusable_options_are_refused(before_and_after, options, message: str, capsys) -> None:
    with pytest.raises(SmlabError, match=message):
        command(capsys, before_and_after[0], **options)


def test_no_profile_is_refused_and_how_needs_none(capsys) -> None:
    with pytest.raises(SmlabError, match="no profile given"):
        command(capsys)
    printed = command(capsys, show_how=True)
    assert "ncu --csv" in printed
    assert "nvprof --csv" in printed
    asked = document(capsys, gpu="a100-40", show_how=True)
    assert [tool["tool"] for tool in asked["how"]] == ["ncu"]


def test_print_leads_with_the_interval_and_the_verdict(before_and_after, capsys) -> None:
    """n and c have no interval, so they are in the document only; how often such intervals held is said."""
    printed = command(capsys, before_and_after[0], details=True)
    assert "the bottleneck of 1 of 1 kernel" in " ".join(" ".join(printed.splitlines()[:2]).split())
    header = next(line for line in printed.splitlines() if line.split()[:1] == ["kernel"])
    columns = ["kernel", "launch", "verdict", "busy %", "guess %"]
    places = [header.index(name) for name in columns]
    assert places == sorted(places)
    assert not {"n", "c"} & set(header.split())
    held = shipped_map().held()
    assert held.families == len(shipped_map().estimators[CLOSED].left_out)
    assert f"cover the truth of {held.mean:.0f} % of simulated kernels" in " ".join(printed.split())
    assert 60 < held.least < 89 < held.mean < 95


def test_the_interval_is_said_once_and_with_a_width(before_and_after, capsys) -> None:
    """The reason names the interval of the table: over elapsed cycles, with a decimal where it is narrow."""
    for path in before_and_after:
        row = document(capsys, path)["kernels"][0]
        said = percent_range(row["low"], row["high"])
        assert f"(busy {said} % of the time)" in " ".join(command(capsys, path, details=True).split())
    assert percent_range(0.3, 0.41) == "30 to 41"
    assert percent_range(0.981, 0.983) == "98.1 to 98.3"
    assert percent_range(0.98101, 0.98102) == "98.1"


def test_many_sms_are_one_row_of_print(tmp_path: Path, capsys) -> None:
    path = tmp_path / "counters.csv"
    table = counters("uneven-blocks")
    table.write_csv(path)
    rows = document(capsys, path)["kernels"]
    assert len(rows) > 1
    printed = command(capsys, path, details=True)
    (line,) = [line for line in printed.splitlines() if line.strip().startswith("uneven-blocks  ")]
    assert percent_range(np.mean([r["low"] for r in rows]), np.mean([r["high"] for r in rows])) in line
    assert f" {len(rows)} " in line


def test_a_profile_that_names_no_gpu_is_refused_without_one(tmp_path: Path, capsys) -> None:
    path = tmp_path / "p.csv"
    write_nvprof(whole(counters("histogram")), path)
    with pytest.raises(SmlabError, match=r"p\.csv: the profile does not name its GPU .expected --gpu with"):
        command(capsys, path, gpu=None)
    assert document(capsys, path, gpu="v100")["kernels"]


def test_the_gpu_is_found_in_the_profile(before_and_after) -> None:
    found = utilization(before_and_after[0])
    assert found.gpu.compute_capability == "7.0"
    assert any("--gpu tells" in note for note in found.notes)


def test_a_table_from_a_file_is_used_in_its_form(
    before_and_after, simulated: ServiceTables, tmp_path: Path, capsys
) -> None:
    default = document(capsys, before_and_after[1])["kernels"][0]
    simulated.looped.write(tmp_path / "looped.nc")
    looped = document(capsys, before_and_after[1], table=tmp_path / "looped.nc")["kernels"][0]
    assert looped["utilization"] == default["utilization"]
    assert looped["utilization_occupancy"] is None
    simulated.batch.write(tmp_path / "batch.nc")
    batch = document(capsys, before_and_after[1], table=tmp_path / "batch.nc")["kernels"][0]
    assert batch["utilization"] > default["utilization"]
    assert batch["utilization_occupancy"] == default["utilization_occupancy"]
    assert any("batch table" in flag for flag in batch["flags"])


def quantities(count: int, **changes: object) -> AtomicQuantities:
    rng = np.random.default_rng(8)
    jobs = np.exp(rng.uniform(3, 10, count))
    values: dict[str, object] = {
        "kernel": np.array([f"k{i}" for i in range(count)], dtype=object),
        "launch": np.arange(count),
        "sm": np.full(count, WHOLE_GPU),
        "sms": np.full(count, 80.0),
        "jobs": 80 * jobs,
        "cas_jobs": 80 * jobs * rng.choice([0.0, 0.3], count),
        "wavefronts": 80 * jobs * rng.uniform(1, 32, count),
        "thread_operations": np.full(count, np.nan),
        "elapsed_cycles": np.full(count, 1e6),
        "active_cycles": np.full(count, 9e5),
        "mean_active_warps": rng.uniform(1, 64, count),
        "peak_warps": np.where(rng.random(count) < 0.5, np.nan, 64.0),
        "derivation": np.full(count, "", dtype=object),
        "row": np.arange(count),
    }
    return AtomicQuantities(**{**values, **changes})  # type: ignore[arg-type]


def test_many_kernels_are_estimated_together() -> None:
    many = quantities(2_000)
    rows = estimate_rows(many, tables_for(GPU, None), GPU)
    assert len(rows) == 2_000
    assert max(row.utilization for row in rows) <= 0.9 + 1e-9  # active for 90 % of the elapsed cycles


def test_odd_rows_are_flagged() -> None:
    plain = quantities(3)
    odd = quantities(
        3,
        wavefronts=np.array([np.nan, plain.jobs[1] * 40, plain.wavefronts[2]]),
        thread_operations=plain.jobs * 20,
        mean_active_warps=np.array([8.0, 8.0, 64.5]),
    )
    rows = estimate_rows(odd, tables_for(GPU, None), GPU)
    assert E_FROM_LANES in rows[0].flags
    assert rows[0].e == 20
    assert any("outside the table" in flag for flag in rows[1].flags)
    assert any("more warps than the table" in flag for flag in rows[2].flags)


def test_an_sm_without_jobs_is_idle() -> None:
    plain = quantities(2)
    zero = np.array([0.0, 1.0])
    rows = estimate_rows(
        quantities(2, jobs=plain.jobs * zero, cas_jobs=plain.cas_jobs * zero, active_cycles=9e5 * zero),
        tables_for(GPU, None),
        GPU,
    )
    assert (rows[0].utilization, rows[0].low, rows[0].high, rows[0].verdict) == (0, 0, 0, NOT)
    assert rows[1].utilization > 0
