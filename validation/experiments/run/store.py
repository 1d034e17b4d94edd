"""Where finished points are kept: an SQLite file, a row a point, safe against the death of the process at
any moment."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from smlab.hw_bench.errors import SmlabError
from smlab.validation.experiments.run.points import Point

FORMAT: Final = "1"

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS points (
    hash BLOB PRIMARY KEY,       -- of the settings, the seed, the base and the version of the code
    settings TEXT NOT NULL,      -- JSON, by key
    seed INTEGER NOT NULL,
    responses TEXT NOT NULL,     -- JSON, by name; empty where the point failed
    error TEXT NOT NULL,         -- why it failed, or empty
    runs INTEGER NOT NULL        -- how often it was run: once
) WITHOUT ROWID;
"""

ASKED_AT_ONCE: Final = 500


@dataclass(frozen=True)
class Stored:
    """A finished point: its responses in the order of the system's, or why it has none."""

    responses: tuple[float, ...]
    error: str


class Store:
    """The finished points of a study (or of several: they are told apart by their hashes).

    A transaction is on disk once its write-ahead log is; what a killed process had not committed is run
    again. One process writes at a time; another one is refused.
    """

    def __init__(self, path: Path, responses: Sequence[str]) -> None:
        self.path = path
        self.names = tuple(responses)
        with ExitStack() as undo:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                held = undo.enter_context(path.open("ab"))
                _lock(held, path)
                self._db = sqlite3.connect(path, isolation_level=None)
                undo.callback(self._db.close)
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = NORMAL")
                self._db.executescript(_SCHEMA)
                self._db.execute("INSERT OR IGNORE INTO about VALUES ('format', ?)", (FORMAT,))
                (found,) = self._db.execute("SELECT value FROM about WHERE key = 'format'").fetchone()
            except OSError as error:
                raise SmlabError(f"{path}: cannot be written: {error.strerror or error}") from error
            except sqlite3.Error as error:
                raise SmlabError(f"{path}: not a store of points: {error}") from error
            if found != FORMAT:
                raise SmlabError.at(str(path), "a store of another format", found, FORMAT)
            self._open = undo.pop_all()

    def close(self) -> None:
        """Fold the log into the file and let others in."""
        self._open.close()

    @property
    def count(self) -> int:
        """Points in the file, of whatever study."""
        (found,) = self._db.execute("SELECT COUNT(*) FROM points").fetchone()
        return int(found)

    def add(self, finished: Iterable[tuple[Point, Stored]]) -> None:
        """Keep points, all of them or (if the process dies) none."""
        rows = [
            (
                point.hash,
                json.dumps(point.settings),
                point.seed,
                json.dumps(dict(zip(self.names, stored.responses, strict=False))),
                stored.error,
            )
            for point, stored in finished
        ]
        with self._transaction():
            self._db.executemany(
                "INSERT INTO points VALUES (?, ?, ?, ?, ?, 1) ON CONFLICT (hash) DO UPDATE SET "
                "responses = excluded.responses, error = excluded.error, runs = runs + 1",
                rows,
            )

    def known(self, hashes: Sequence[bytes]) -> set[bytes]:
        """Which of them are stored."""
        return {row[0] for row in self._select("hash", hashes)}

    def get(self, hashes: Sequence[bytes]) -> dict[bytes, Stored]:
        """The finished points among them, by hash."""
        found = {}
        for key, text, error in self._select("hash, responses, error", hashes):
            values = json.loads(text)
            found[key] = Stored(tuple(values[name] for name in self.names) if not error else (), error)
        return found

    def _select(self, columns: str, hashes: Sequence[bytes]) -> Iterator[tuple[bytes, str, str]]:
        for begin in range(0, len(hashes), ASKED_AT_ONCE):
            asked = hashes[begin : begin + ASKED_AT_ONCE]
            marks = ", ".join("?" * len(asked))
            yield from self._db.execute(f"SELECT {columns} FROM points WHERE hash IN ({marks})", asked)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):  # such as a full disk
                raise SmlabError(f"{self.path}: cannot be written: {error}") from error
            raise


def _lock(file: IO[bytes], path: Path) -> None:
    """Refuse a second process; the system gives the lock back when its holder dies. Apart from SQLite's
    own locks."""
    try:
        import fcntl
    except ImportError:  # not on this platform: SQLite alone keeps the file whole
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SmlabError(
            f"{path}: another process is writing into it; wait for it, or use another --out"
        ) from None
