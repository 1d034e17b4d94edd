"""The store: what is in it stays in it, once."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from smlab.hw_bench.errors import SmlabError
from smlab.validation.experiments.design.study import Study
from smlab.validation.experiments.run.points import Numbering
from smlab.validation.experiments.run.store import Store, Stored

Make = Callable[..., Study]


def test_what_is_added_is_found_again(queue: Make, tmp_path: Path) -> None:
    numbering = Numbering(queue())
    points = [numbering.point(case, 0) for case in range(4)]
    stored = [Stored((0.1 + case, 1 / 3), "") for case in range(3)] + [Stored((), "no steady state")]
    store = Store(tmp_path / "points.sqlite", ("wait", "response_time"))
    store.add(zip(points, stored, strict=True))
    store.close()
    store = Store(tmp_path / "points.sqlite", ("wait", "response_time"))
    hashes = [point.hash for point in points]
    unknown = numbering.point(5, 0).hash
    assert store.known([*hashes, unknown]) == set(hashes)
    assert store.get([*hashes, unknown]) == dict(zip(hashes, stored, strict=True))
    assert store.count == 4
    store.close()


def test_many_are_asked_for_at_once(queue: Make, tmp_path: Path) -> None:
    numbering = Numbering(queue())
    points = [numbering.point(1, r) for r in range(1234)]
    store = Store(tmp_path / "points.sqlite", ("wait", "response_time"))
    store.add((point, Stored((float(point.replication), 0.0), "")) for point in points)
    found = store.get([point.hash for point in points])
    assert [found[point.hash].responses[0] for point in points] == list(range(1234))
    store.close()


def test_a_row_can_be_read_by_anybody(queue: Make, tmp_path: Path) -> None:
    point = Numbering(queue()).point(1, 0)
    store = Store(tmp_path / "points.sqlite", ("wait", "response_time"))
    store.add([(point, Stored((0.25, 1.5), ""))])
    store.close()
    with sqlite3.connect(tmp_path / "points.sqlite") as plain:
        ((settings, seed, responses, runs),) = plain.execute(
            "SELECT settings, seed, responses, runs FROM points"
        )
    plain.close()
    assert json.loads(settings) == {"arrival_rate": 0.3, "service_rate": 1.0}
    assert (seed, json.loads(responses), runs) == (point.seed, {"wait": 0.25, "response_time": 1.5}, 1)


def test_running_a_point_again_is_counted(queue: Make, tmp_path: Path) -> None:
    point = Numbering(queue()).point(1, 0)
    store = Store(tmp_path / "points.sqlite", ("wait", "response_time"))
    for value in (1.0, 2.0):
        store.add([(point, Stored((value, 0.0), ""))])
    store.close()
    with sqlite3.connect(tmp_path / "points.sqlite") as plain:
        assert plain.execute("SELECT runs FROM points").fetchall() == [(2,)]
    plain.close()


def test_a_full_disk_is_told_and_leaves_the_store_whole(queue: Make, tmp_path: Path) -> None:
    numbering = Numbering(queue())
    store = Store(tmp_path / "points.sqlite", ("wait", "response_time"))
    store.add([(numbering.point(1, 0), Stored((1.0, 2.0), ""))])
    store._db.execute("PRAGMA max_page_count = 4")
    with pytest.raises(SmlabError, match="points.sqlite: cannot be written: .*full"):
        store.add((numbering.point(1, r), Stored((1.0, 2.0), "")) for r in range(1, 2000))
    assert store.count == 1
    store.close()


def test_two_processes_do_not_write_into_one_store(tmp_path: Path) -> None:
    store = Store(tmp_path / "points.sqlite", ("y",))
    with pytest.raises(SmlabError, match="another process is writing into it"):
        Store(tmp_path / "points.sqlite", ("y",))
    store.close()
    Store(tmp_path / "points.sqlite", ("y",)).close()


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "points.sqlite"
    path.write_text("this is not a database, and long enough to be seen as such by anybody who looks at it")
    with pytest.raises(SmlabError, match="points.sqlite: not a store of points"):
        Store(path, ("y",))
    with pytest.raises(SmlabError, match="cannot be written"):
        Store(path / "inside.sqlite", ("y",))


def test_a_store_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "points.sqlite"
    Store(path, ("y",)).close()
    with sqlite3.connect(path) as plain:
        plain.execute("UPDATE about SET value = '99'")
    plain.close()
    with pytest.raises(SmlabError, match="a store of another format .*99"):
        Store(path, ("y",))
