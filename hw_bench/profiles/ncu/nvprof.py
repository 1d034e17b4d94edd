"""nvprof's ``--csv`` summaries of events and metrics: a row for each counter of each kernel, over its
invocations.

With ``--aggregate-mode off`` a counter is given for each of its instances, ``active_cycles (3)``, which for
the counters of the SMs are the SMs. nvprof numbers instances; that it numbers SMs as ``%smid`` does is not
documented.
"""

from __future__ import annotations

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.profiles.counter_table import WHOLE_GPU
from smlab.hw_bench.profiles.ncu.long_form import device_of
from smlab.hw_bench.profiles.ncu.records import column_numbers, split
from smlab.hw_bench.profiles.ncu.table_part import Part, drop_repeats, skipped_texts
from smlab.hw_bench.profiles.ncu.wide_tables import INSTANCE, nvprof_value
from smlab.hw_bench.profiles.profile import UNNAMED, Skipped, at_row, short, text_array
from smlab.hw_bench.profiles.source import Segment


def read_nvprof_summary(path: str, segment: Segment, cut: bool) -> Part:
    """The table of one segment: the mean over the invocations, as launch 0 of its kernel (or the GPU's rank
    in the file).

    ``cut`` tells that the file does not end with a line end.
    """
    place = {name: i for i, name in reversed(list(enumerate(segment.cells)))}
    name_column = next((n for n in ("Event Name", "Metric Name") if n in place), "Metric Name")
    for needed in (name_column, "Avg", "Kernel"):
        if needed not in place:
            header = short(", ".join(segment.cells), 200)
            place_ = at_row(path, segment.header_row)
            raise SmlabError.at(
                place_, f"no column {needed!r}", header, "nvprof --csv --events ... --metrics ..."
            )
    columns = split(path, segment)
    kernel, name, mean = (columns[place[n]] for n in ("Kernel", name_column, "Avg"))
    filled = ~(kernel.empty() & name.empty() & mean.empty())
    records = np.flatnonzero(filled)
    if not len(records):
        raise SmlabError.at(
            at_row(path, segment.header_row), "truncated: no row below the header", expected="nvprof's rows"
        )
    last = int(records[-1])
    if (cut and not columns[-1][last]) or not (mean[last] and name[last]):
        raise SmlabError.at(at_row(path, segment.row(last)), "truncated: the last row is cut off")

    skipped: list[Skipped] = []
    odd = records[(name.empty() | mean.empty())[records]]
    for record in odd.tolist():
        what = f"line {short(','.join(c[record] for c in columns if c[record]))!r}"
        skipped.append(Skipped(what, "no row of the table: output of the program?", row=segment.row(record)))
    records = records[~(name.empty() | mean.empty())[records]]

    values = column_numbers(path, segment, mean)[records]
    units = np.empty(len(records), dtype=object)
    names = [INSTANCE.fullmatch(t) for t in name.texts]
    stems = [m[1] if m else t for t, m in zip(name.texts, names, strict=True)]
    for i, record in enumerate(records.tolist()):
        (up, down, unit), row_value = nvprof_value(stems[name.codes[record]], mean[record])
        values[i] = (row_value if np.isnan(values[i]) else values[i]) * up / down
        units[i] = unit
    good = ~np.isnan(values)
    bad = records[~good]
    skipped += skipped_texts(
        text_array(stems, name.codes[bad]),
        text_array(mean.texts, mean.codes[bad]),
        segment.rows(bad.astype(np.int64)),
    )
    kept = records[good]
    device = columns[place["Device"]] if "Device" in place else None
    devices = [device_of(t, "") for t in device.texts] if device else []
    order: dict[int, int] = {}
    launch = np.zeros(len(kept), dtype=np.int64)
    if device:
        launch[:] = [order.setdefault(c, len(order)) for c in device.codes[kept].tolist()]
    notes = _invocations(columns[place["Invocations"]].texts) if "Invocations" in place else []
    if len(order) > 1:
        notes.append("several GPUs: a launch's number is the rank of its GPU in the file")
    part = Part(
        text_array([t or UNNAMED for t in kernel.texts], kernel.codes[kept]),
        launch,
        np.array([int(m[2]) if m else WHOLE_GPU for m in names], dtype=np.int64)[name.codes[kept]],
        text_array(stems, name.codes[kept]),
        values[good],
        units[good],
        segment.rows(kept.astype(np.int64)),
        {devices[c] for c in order},
        notes,
        skipped,
    )
    drop_repeats(path, part)
    return part


def _invocations(texts: list[str]) -> list[str]:
    counts = sorted({t.strip() for t in texts} - {"", "1"})
    if not counts:
        return []
    many = short(", ".join(counts))
    return [
        f"values are means over a kernel's launches ({many} of them); --print-gpu-trace gives each launch"
    ]
