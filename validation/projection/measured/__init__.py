"""How far projections are off on kernels that others measured: by kind of kernel and pair of cards, against
baselines, and what each mechanism buys on which set. Kept as a small file, made anew where the data are."""

from smlab.validation.projection.measured.records import (
    Bought,
    MeasuredRecords,
    PairRecord,
    shipped_records,
    write_records,
)

__all__ = ["Bought", "MeasuredRecords", "PairRecord", "shipped_records", "write_records"]
