"""Measurements that others published, against which the validation is held: figures, source and error.

The figures lie in ``hw_bench/datasets/published``; a reading error stated in another unit (bandwidth read off
a chart) is converted here, so that every point comes with an interval in its own unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.toml_files import read_toml

ATOMICS_FILE: Final = Path(__file__).parent / "published" / "jia_vansandt_gtc2021.toml"

_GIB: Final = 2**30


@dataclass(frozen=True)
class PublishedSeries:
    """Time between shared-memory atomics of one SM against the lanes on each word.

    One block of ``warps`` warps loops over an atomic with ``lanes`` active lanes, ``same_word[i]`` of them on
    each word, and takes ``cycles_per_instruction[i]`` SM cycles a warp-instruction; the reading error leaves
    ``low[i]`` to ``high[i]``. ``gpu`` names a description, ``op`` is as on the command line.
    """

    gpu: str
    op: Literal["add", "popc-inc"]
    warps: int
    lanes: int
    clock_hz: float
    same_word: tuple[int, ...]
    cycles_per_instruction: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    source: str
    note: str


_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=1, strict=True)]


class _Series(BaseModel):
    model_config = ConfigDict(extra="forbid")

    gpu: str
    op: Literal["add", "popc-inc"]
    warps: _Count
    lanes: _Count
    clock_hz: _Positive
    same_word: list[_Count] = Field(min_length=1)
    cycles_per_instruction: list[_Positive] = Field(min_length=1)


class _PublicationFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    source: str = Field(min_length=1)
    note: str
    bytes_per_operation: _Count
    digitisation_gib_per_s: _Positive
    series: list[_Series] = Field(min_length=1)


def load_published_atomics(path: Path = ATOMICS_FILE) -> list[PublishedSeries]:
    """The published series on shared-memory atomics; `SmlabError` naming file and key of what is wrong."""
    content = read_toml(path, _PublicationFile)
    return [_with_interval(f"{path}: series.{i}", content, series) for i, series in enumerate(content.series)]


def _with_interval(where: str, content: _PublicationFile, series: _Series) -> PublishedSeries:
    cycles = series.cycles_per_instruction
    if len(series.same_word) != len(cycles):
        what = "same_word and cycles_per_instruction differ in length"
        raise SmlabError.at(where, what, len(cycles), f"{len(series.same_word)} points")
    if max(series.same_word) > series.lanes:
        raise SmlabError.at(
            f"{where}.same_word",
            "more lanes on a word than are active",
            max(series.same_word),
            f"at most {series.lanes}",
        )
    # cycles = scale / rate with the rate in GiB/s, so that the higher rate is the shorter time
    scale = series.lanes * content.bytes_per_operation * series.clock_hz / _GIB
    error = content.digitisation_gib_per_s
    slowest = scale / max(cycles)
    if slowest <= error:
        raise SmlabError.at(
            f"{where}.cycles_per_instruction",
            "the reading error exceeds the rate in GiB/s",
            slowest,
            f"above {error}",
        )
    return PublishedSeries(
        gpu=series.gpu,
        op=series.op,
        warps=series.warps,
        lanes=series.lanes,
        clock_hz=series.clock_hz,
        same_word=tuple(series.same_word),
        cycles_per_instruction=tuple(cycles),
        low=tuple(scale / (scale / c + error) for c in cycles),
        high=tuple(scale / (scale / c - error) for c in cycles),
        source=content.source,
        note=content.note,
    )
