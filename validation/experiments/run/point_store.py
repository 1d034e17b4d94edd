"""The points of a study in the store that resumes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from smlab.validation.experiments.run.points import Point, PointResult
from smlab.validation.work.store import Entry, Store


class PointStore:
    """Finished points in ``store``, with responses in the order of ``names``."""

    def __init__(self, store: Store, names: Sequence[str]) -> None:
        self.store = store
        self.names = tuple(names)

    def add(self, finished: Iterable[tuple[Point, PointResult]]) -> None:
        """Keep points, all of them or (if the process dies) none."""
        self.store.add(
            Entry(
                point.hash,
                {"settings": point.settings, "seed": point.seed},
                dict(zip(self.names, found.responses, strict=False)),
                found.error,
            )
            for point, found in finished
        )

    def known(self, hashes: Sequence[bytes]) -> set[bytes]:
        """Which of them are stored."""
        return self.store.known(hashes)

    def get(self, hashes: Sequence[bytes]) -> dict[bytes, PointResult]:
        """The finished points among them, by hash."""
        return {
            key: PointResult(
                tuple(entry.result[name] for name in self.names) if not entry.error else (), entry.error
            )
            for key, entry in self.store.get(hashes).items()
        }
