"""Single measurements that others published, each with what it takes to make it again on the simulator.

The figures lie in ``hw_bench/datasets/published/memory_path.toml``. A row names an experiment (a function of
`smlab.validation.evidence`) and its parameters, says under which conditions the value was measured, how far
it is to be trusted, and whether a constant was fitted to it or it judges.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from smlab.hw_bench.gpu.toml_files import read_toml

EVIDENCE_FILE: Final = Path(__file__).parent / "published" / "memory_path.toml"

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Evidence(BaseModel):
    """One measured value, in ``unit``.

    ``bound`` says that the value is only an upper bound of the time (a whole kernel, a loop of unknown form):
    a simulation may be quicker, and nothing else follows. ``low`` and ``high`` are a range, where several are
    published. ``within`` is the relative error that the simulator shall keep on judged rows; 0.05 if not
    said.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[a-z0-9.-]+$")
    gpu: str
    quantity: str = Field(min_length=1)
    unit: str
    value: _Positive
    low: _Positive | None = None
    high: _Positive | None = None
    bound: bool = False
    used: Literal["fitted", "judged", "reported"]
    trust: Literal["high", "medium", "low"]
    source: str
    conditions: str
    experiment: str
    parameters: dict[str, Any] = {}
    within: _Positive = 0.05


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    sources: dict[str, str]
    evidence: list[Evidence] = Field(min_length=1)


def load_evidence(path: Path = EVIDENCE_FILE) -> list[Evidence]:
    """The rows, with their sources written out; `SmlabError` naming file and key of what is wrong."""
    content = read_toml(path, _File)
    return [row.model_copy(update={"source": content.sources[row.source]}) for row in content.evidence]


def judged_rows(gpu: str) -> list[Evidence]:
    """The rows that judge a GPU's description."""
    return [row for row in load_evidence() if row.gpu == gpu and row.used == "judged"]
