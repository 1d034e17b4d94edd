"""The store: what is in it stays in it, once."""

import json
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.validation.work.store import Entry, Store


def entry(number: int, **result: object) -> Entry:
    return Entry(number.to_bytes(16, "big"), {"number": number}, result or {"y": number / 3})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "points.sqlite") as opened:
        yield opened


def test_what_is_added_is_found_again(tmp_path: Path) -> None:
    entries = [entry(1, wait=0.1, jobs=3), entry(2), Entry(b"3", {}, {}, "no steady state")]
    with Store(tmp_path / "points.sqlite") as store:
        store.add(entries)
    with Store(tmp_path / "points.sqlite") as store:
        keys = [e.key for e in entries]
        assert store.known([*keys, b"unknown"]) == set(keys)
        assert store.get([*keys, b"unknown"]) == {e.key: e for e in entries}
        assert store.count == 3
        assert type(store.get(keys)[keys[0]].result["jobs"]) is int


def test_many_are_asked_for_at_once(store: Store) -> None:
    entries = [entry(number) for number in range(1234)]
    store.add(iter(entries))
    assert store.get([e.key for e in entries]) == {e.key: e for e in entries}


def test_a_row_can_be_read_by_anybody(tmp_path: Path) -> None:
    with Store(tmp_path / "points.sqlite") as store:
        store.add([entry(7, wait=0.25)])
    with sqlite3.connect(tmp_path / "points.sqlite") as plain:
        ((asked, result, runs),) = plain.execute("SELECT asked, result, runs FROM results")
    plain.close()
    assert (json.loads(asked), json.loads(result), runs) == ({"number": 7}, {"wait": 0.25}, 1)


def test_running_again_is_counted(tmp_path: Path) -> None:
    with Store(tmp_path / "points.sqlite") as store:
        for value in (1.0, 2.0):
            store.add([entry(1, y=value)])
        assert store.get([entry(1).key])[entry(1).key].result == {"y": 2.0}
    with sqlite3.connect(tmp_path / "points.sqlite") as plain:
        assert plain.execute("SELECT runs FROM results").fetchall() == [(2,)]
    plain.close()


def test_beginning_drops_what_was_there_and_remembers_what_with(tmp_path: Path) -> None:
    with Store(tmp_path / "points.sqlite") as store:
        assert store.made_with == ""
        store.add([entry(1)])
        store.begin_with("version 2")
        assert store.count == 0
        store.add([entry(2)])
    with Store(tmp_path / "points.sqlite") as store:
        assert (store.made_with, store.count) == ("version 2", 1)


def test_a_full_disk_is_told_and_leaves_the_store_whole(store: Store) -> None:
    store.add([entry(0)])
    store._db.execute("PRAGMA max_page_count = 4")
    with pytest.raises(SmlabError, match="points.sqlite: cannot be written: .*full"):
        store.add(entry(number) for number in range(1, 2000))
    assert store.count == 1


def test_two_do_not_write_into_one_store(store: Store) -> None:
    with pytest.raises(SmlabError, match="another process is writing into it"):
        Store(store.path)
    store.close()
    Store(store.path).close()


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "points.sqlite"
    path.write_text("this is not a database, and long enough to be seen as such by anybody who looks at it")
    with pytest.raises(SmlabError, match="points.sqlite: not a store of results"):
        Store(path)
    with pytest.raises(SmlabError, match="cannot be written"):
        Store(path / "inside.sqlite")


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "points.sqlite"
    Store(path).close()
    with sqlite3.connect(path) as plain:
        plain.execute("UPDATE about SET value = '99'")
    plain.close()
    with pytest.raises(SmlabError, match="made by another version of smlab .*99"):
        Store(path)


def damage(path: Path, old: bytes, new: bytes) -> None:
    """Bytes of the file changed, as by a disk."""
    content = path.read_bytes()
    assert content.count(old) == 1
    path.write_bytes(content.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'{"y": 1111}', b'{"y": 1811}'),
        (b'{"y": 1111}', b'{"y": 11\xff1}'),
        (b'{"y": 1111}', b'{"y": 1111!'),
        (b'{"number": 1}', b'{"number": 9}'),
    ],
)
def test_a_damaged_row_is_told_and_computed_again(
    old: bytes, new: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "points.sqlite"
    rows = [entry(1, y=1111), entry(2, y=2222)]
    with Store(path) as store:
        store.add(rows)
    damage(path, old, new)
    keys = [row.key for row in rows]
    with Store(path) as store:
        assert store.known(keys) == {keys[1]}
        assert store.get(keys) == {keys[1]: rows[1]}
        store.add([rows[0]])
        assert store.get(keys) == {row.key: row for row in rows}
    said = (
        f"points.sqlite: 1 of the stored results is damaged and will be computed again: {keys[0].hex()[:12]}"
    )
    assert [record.getMessage().endswith(said) for record in caplog.records] == [True]


def test_damage_anywhere_is_one_line_or_rows_that_are_right(tmp_path: Path) -> None:
    whole = tmp_path / "whole.sqlite"
    rows = [entry(number, y=number) for number in range(200)]
    with Store(whole) as store:
        store.add(rows)
    content = whole.read_bytes()
    refused = 0
    for seed in range(60):
        rng = random.Random(seed)
        path = tmp_path / f"{seed}.sqlite"
        changed = bytearray(content)
        for _ in range(rng.choice([1, 10, 1000])):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        path.write_bytes(changed)
        try:
            with Store(path) as store:
                found = store.get([row.key for row in rows])
                assert all(found[row.key] == row for row in rows if row.key in found)
                store.add(rows)
        except SmlabError:
            refused += 1
    assert 0 < refused < 60
