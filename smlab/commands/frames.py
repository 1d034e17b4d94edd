"""Results as data frames, and as tables in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


class TabularResult:
    """What the functions of smlab return: prints as one line, shows as a table in a notebook."""

    def to_dataframe(self) -> pd.DataFrame:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.to_dataframe().to_html(max_rows=20, border=0)}"


def dataframe(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows of a JSON document as a data frame: a mapping within a row becomes columns ``key.inner``, a list
    of words stays a list."""
    import pandas as pd

    return pd.DataFrame([_flat(row) for row in rows])


def _flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
