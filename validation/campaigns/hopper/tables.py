"""Tables of the measured data set from what `replay` wrote:
``python -m smlab.validation.campaigns.hopper.tables FOLDER CALL=OUT.jsonl [CALL=OUT.jsonl ...]``.

``launches.csv.gz`` has a row a launch, ``pipes.csv`` and ``instruction-caches.csv`` what the readings of the
clock say in the launches of `pipes`.
"""

from __future__ import annotations

import argparse
import base64
import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.files import replacing, write_atomic
from smlab.validation.campaigns.hopper.pipes import STRAIGHT, TURNS, cycles_a_link, probes

_LAUNCHES: Final = (
    *("call", "list", "launch", "group", "registers", "local_bytes", "resident_blocks", "launches"),
    *("median_us", "least_us", "most_us", "in_one_go_us", "l2_overwritten_us", "l2_read_over_us", "first_us"),
    *("nvml_mhz", "clock_behind_mhz"),
)
_PIPES: Final = ("link", "chains", "warps", "cycles_a_link")
_CACHES: Final = (
    *("instructions", "warps", "first_launch_first_turn", "first_launch_later_turns"),
    *("later_launch_first_turn", "later_launch_later_turns"),
)


def read_replay(path: Path) -> Iterator[dict[str, Any]]:
    """The launches that a replay has timed."""
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if "warm_s" in row:
            yield row


def launch_row(call: str, name: str, row: dict[str, Any]) -> list[Any]:
    """A launch as `launches.csv` has it; times in microseconds, empty where there is none."""

    def us(seconds: Any) -> str:
        found = float(np.median(seconds)) if seconds else float("nan")
        return "" if np.isnan(found) else f"{1e6 * found:.3f}"

    warm = row["warm_s"]
    times = [warm, min(warm), max(warm), row.get("back_to_back_s"), row.get("flushed_s"), row.get("clean_s")]
    return [
        *(call, name, row["name"], row["group"], row["registers"], row["local_bytes"]),
        *(row["resident_blocks"], len(warm), *(us(t) for t in times), us(row["first_s"])),
        *(int(row["clock_after"].get("sm", 0)), row.get("measured_mhz", "")),
    ]


def pipe_rows(rows: Sequence[dict[str, Any]]) -> Iterator[list[Any]]:
    """What the launches of `pipes.probes` say."""
    by_name = {row["name"]: row for row in rows}
    for probe in probes():
        if probe.name in by_name:
            times = _readings(by_name[probe.name], "kept")
            yield [
                *(probe.link, probe.chains, probe.warps),
                round(cycles_a_link(times, probe.warps, probe.links), 4),
            ]


def cache_rows(rows: Sequence[dict[str, Any]]) -> Iterator[list[Any]]:
    """What the launches of `pipes.straight` say: cycles an instruction in the first turn and in later ones,
    of the first launch and of a later one."""
    by_name = {row["name"]: row for row in rows}
    for count in STRAIGHT:
        for warps in (1, 4):
            row = by_name.get(f"core/straight/{count}/warps{warps}")
            if row is None:
                continue
            columns: list[float] = []
            for launch in ("kept_first", "kept"):
                cycles = np.diff(_readings(row, launch)[: 2 * TURNS].reshape(-1, 2).astype(np.int64))[:, 0]
                each = (cycles / count).round(3)
                columns += [float(each[0]), float(np.median(each[1:]))]
            yield [count, warps, *columns]


def _readings(row: dict[str, Any], launch: str) -> NDArray[np.uint32]:
    return np.frombuffer(zlib.decompress(base64.b64decode(row[launch]["times"])), np.uint32)


def _table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("replays", nargs="+", metavar="CALL=OUT.jsonl")
    options = parser.parse_args()
    read = [(call, Path(path)) for call, _, path in (text.partition("=") for text in options.replays)]
    launches = [(call, path.stem, row) for call, path in read for row in read_replay(path)]
    rows = [row for _, _, row in launches]
    packed = gzip.compress(_table(_LAUNCHES, (launch_row(*one) for one in launches)).encode(), mtime=0)
    with replacing(options.folder / "launches.csv.gz") as partial:
        partial.write_bytes(packed)
    write_atomic(options.folder / "pipes.csv", _table(_PIPES, pipe_rows(rows)))
    write_atomic(options.folder / "instruction-caches.csv", _table(_CACHES, cache_rows(rows)))


if __name__ == "__main__":
    main()
