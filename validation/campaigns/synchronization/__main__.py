"""``python -m smlab.validation.campaigns.synchronization``: judge all published figures, under both
policies."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from smlab.validation.campaigns.synchronization.judge import Judged, judge, judge_grids, summary
from smlab.validation.campaigns.synchronization.operations import (
    OPERATIONS,
    SOURCE,
    published,
    published_grids,
)
from smlab.validation.service_tables import rules_version

POLICIES = ("glr", "gto")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.json"))
    parser.add_argument("--operation", choices=OPERATIONS, action="append", help="only this one")
    chosen = parser.parse_args()
    rows = [row for row in published() if not chosen.operation or row.operation in chosen.operation]
    parts = {policy: judge(rows, policy, _tell) for policy in POLICIES}
    stored: dict[str, Any] = {"source": SOURCE, "rules": rules_version()}
    for policy, judged in parts.items():
        print(policy, json.dumps(summary(judged)))
        stored[policy] = {"all": summary(judged), "rows": [_row(one) for one in judged]}
        for name in OPERATIONS:
            mine = [one for one in judged if one.measured.operation == name]
            if mine:
                stored[policy][name] = summary(mine)
                print(f"  {name:28}", json.dumps(summary(mine)))
    for policy in POLICIES:
        grids = judge_grids(published_grids(), policy)
        stored[policy]["grids"] = [
            [*asdict(row).values(), round(median, 1), round(slowest, 1)] for row, median, slowest in grids
        ]
        for row, median, slowest in grids:
            print(f"{policy} {row}: {median:.1f}, {slowest:.1f}")
    chosen.out.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def _row(one: Judged) -> list[Any]:
    m = one.measured
    return [m.gpu, m.operation, m.type, m.threads, m.cycles, round(one.cycles, 3)]


def _tell(one: Judged) -> None:
    m = one.measured
    print(f"{m.gpu} {m.operation} {m.type} {m.threads}: {one.cycles:.1f} for {m.cycles:g}", file=sys.stderr)


if __name__ == "__main__":
    main()
