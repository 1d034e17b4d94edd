"""The service tables that ship: those of the descriptions and the specification as they are now, and what the
engines give."""

import subprocess
import sys

import numpy as np
import pytest

from smlab.hw_bench.gpu.descriptions import list_gpus, load_gpu
from smlab.sim.machine import machine_from
from smlab.sim.service_table import batch_cycles, looped_cycles
from smlab.validation import service_tables
from smlab.validation.service_tables import MADE_BY, shipped_key, shipped_tables, write_shipped

POINTS = [(1, 1, 0), (3, 32, 1), (8, 5, 8), (17, 16, 4)]


@pytest.mark.parametrize("name", list_gpus())
def test_tables_of_every_described_gpu_ship(name: str) -> None:
    for alternative, described in load_gpu(name).variants():
        tables = shipped_tables(described)
        assert tables is not None, f"{name}, {alternative.name}: make them anew with `{MADE_BY}`"
        assert tables.looped.n_max == described.integer("sm.max_warps")
        assert tables.looped.attrs["gpu"] == name


@pytest.mark.parametrize("name", ["v100", "a100-40", "h100-pcie", "gtx-1080-ti", "b200"])
def test_they_are_what_the_reference_engine_gives(name: str) -> None:
    for _, described in load_gpu(name).variants():
        tables, machine = shipped_tables(described), machine_from(described)
        assert tables is not None
        for n, e, c in POINTS:
            for table, cycles in ((tables.batch, batch_cycles), (tables.looped, looped_cycles)):
                own = float(table.data.sel(n=n, e=e, c=c))
                assert own == cycles(machine, "add", n, e, c, "simpy"), f"make them anew with `{MADE_BY}`"


def test_a_table_is_used_only_where_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = load_gpu("v100")
    assert shipped_tables(gpu.with_values({"dram.latency_cycles": 900}, source="test")) is not None
    assert shipped_tables(gpu.with_values({"atomic.add.latency_cycles": 30}, source="test")) is None
    assert shipped_tables(gpu.with_values({"mio.front_cycles": 3}, source="test")) is None
    key = shipped_key(gpu)
    monkeypatch.setattr(service_tables, "rules_version", lambda: 0)
    assert shipped_key(gpu) != key
    assert shipped_tables(gpu) is None


def test_what_is_written_comes_back_bit_for_bit(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = load_gpu("v100")
    made = shipped_tables(gpu)
    assert made is not None
    monkeypatch.setattr(service_tables, "simulate_tables", lambda described: made)
    path = tmp_path / "tables.xz"
    assert write_shipped([gpu, load_gpu("v100-sxm2")], path) == len(gpu.variants())
    found = shipped_tables(gpu, path)
    assert found is not None
    for form in ("batch", "looped", "row"):
        np.testing.assert_array_equal(getattr(found, form).data, getattr(made, form).data)


def test_a_file_that_is_missing_or_damaged_is_done_without(tmp_path) -> None:
    assert shipped_tables(load_gpu("v100"), tmp_path / "none.xz") is None
    (tmp_path / "bad.xz").write_bytes(b"no tables")
    assert shipped_tables(load_gpu("v100"), tmp_path / "bad.xz") is None


@pytest.mark.parametrize("command", ["utilization", "roofline", "project"])
def test_the_first_answer_compiles_nothing(command: str) -> None:
    """Numba, whose import begins every compilation, is not even loaded."""
    script = (
        "import sys; from smlab.cli.main import run;"
        f"assert run([{command!r}, '--example', '--json']) == 0; assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)
