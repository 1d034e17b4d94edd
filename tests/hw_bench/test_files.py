"""Files are whole or untouched, whatever happens while they are written; digests tell sources apart."""

import os
import threading
from pathlib import Path

import pytest

from smlab.hw_bench.files import cache_folder, replacing, write_atomic
from smlab.hw_bench.sources import cache_key, digest_of, package_folder


@pytest.mark.parametrize("durable", [False, True])
def test_content_arrives(tmp_path: Path, durable: bool) -> None:
    write_atomic(tmp_path / "a", b"\x00\xff", durable=durable)
    write_atomic(tmp_path / "b", "größer", durable=durable)
    assert (tmp_path / "a").read_bytes() == b"\x00\xff"
    assert (tmp_path / "b").read_text(encoding="utf-8") == "größer"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    assert path.read_text() == "old"


def test_an_interrupt_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("old")

    def interrupted() -> None:
        with replacing(path) as partial:
            assert partial.suffix == ".csv"
            partial.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]
    assert path.read_text() == "old"


def test_the_longest_name_and_the_mode_are_kept(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 251 + ".csv")
    write_atomic(path, "old")
    path.chmod(0o640)
    write_atomic(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_stays_one_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_atomic(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    write_atomic(tmp_path / "pipe", "through")
    reader.join(10)
    assert read == ["through"]
    assert (tmp_path / "pipe").is_fifo()


def test_a_folder_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError), replacing(tmp_path):
        raise AssertionError
    assert list(tmp_path.iterdir()) == []


def test_the_cache_folder_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder("tables", "a") == tmp_path / "smlab" / "tables" / "a"


def test_a_digest_sees_content_names_and_nothing_but_sources(tmp_path: Path) -> None:
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    first = digest_of(folder)
    assert digest_of(folder) == first
    (folder / "notes.txt").write_text("no source")
    assert digest_of(folder) == first
    (folder / "a.py").write_text("x = 2\n")
    second = digest_of(folder)
    (folder / "a.py").rename(folder / "b.py")
    assert len({first, second, digest_of(folder)}) == 3


def test_packages_are_found_without_importing_them() -> None:
    assert (package_folder("smlab.sim") / "SEMANTICS.md").is_file()
    with pytest.raises(ModuleNotFoundError):
        package_folder("smlab.no_such_room")


def test_cache_keys_differ_with_their_parts() -> None:
    assert cache_key({"a": 1, "b": 2}) == cache_key({"b": 2, "a": 1})
    assert len({cache_key(1, 2), cache_key(2, 1), cache_key("1", 2), cache_key([1, 2])}) == 4
