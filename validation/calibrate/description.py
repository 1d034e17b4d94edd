"""Writing a calibrated GPU description: the base's constants, with those that were fitted, and where they
come from."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.files import write_atomic
from smlab.hw_bench.gpu.descriptions import Gpu, list_gpus, load_gpu
from smlab.hw_bench.gpu.inherit import REQUIRED
from smlab.hw_bench.gpu.schema import KEYS_BY_NAME
from smlab.validation.calibrate.fit import Fitted


def write_description(
    path: Path, base: str, gpu: Gpu, *, title: str, source: str, same_card: bool, fitted: Sequence[Fitted]
) -> Gpu:
    """Write ``path`` as an extension of ``base`` (a name, or a description's path) and read it back.

    ``same_card`` keeps what the base says of its own card; otherwise that is only assumed of this one.

    Raises:
        SmlabError: a path that cannot be written, or values that a description cannot have.
    """
    known = [f for f in fitted if f.name in KEYS_BY_NAME]
    parent = base if base in list_gpus() or base in gpu.aliases else os.path.relpath(base, path.parent)
    lines = [
        f"title = {json.dumps(title)}",
        f"extends = {json.dumps(parent)}",
        *(["same_card = true"] if same_card else []),
        "",
        "[sources]",
        f"data-set = {json.dumps(source)}",
    ]
    groups: dict[str, list[str]] = {}
    if not same_card:  # what every board must say itself: as of the base, for want of anything better
        lines.append(
            f"as-base = {json.dumps(f'assumed: as on {gpu.name}, which the calibration began from')}"
        )
        for name in REQUIRED:
            group, _, short = name.rpartition(".")
            c = gpu[name]
            record = f'{{ value = {c.value!r}, unit = "{c.unit}", kind = "assumed", source = "as-base" }}'
            groups.setdefault(group, []).append(f"{short} = {record}")
    for f in known:
        group, _, name = f.name.rpartition(".")
        groups.setdefault(group, []).append(f"{name} = {_record(f)}")
    for group, records in groups.items():
        lines += ["", f"[{group}]", *records]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, "\n".join(lines) + "\n")
    except OSError as error:
        raise SmlabError(f"{path}: cannot be written: {error}") from error
    return load_gpu(path)


def _record(f: Fitted) -> str:
    key = KEYS_BY_NAME[f.name]
    digits = 0 if key.type is int else 4
    minimum = key.minimum if key.minimum is not None else float("-inf")
    value, low, high = (round(max(x, minimum), digits) for x in (f.value, f.low, f.high))
    if key.type is int:
        value, low, high = int(value), int(low), int(high)
    return (
        f'{{ value = {value}, unit = "{key.unit}", kind = "calibrated", source = "data-set", '
        f"low = {min(low, value)}, high = {max(high, value)} }}"
    )
