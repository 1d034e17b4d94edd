"""TOML files read into pydantic models, with one line where they are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import load_toml

Model = TypeVar("Model", bound=BaseModel)


def read_toml(path: Path, model: type[Model]) -> Model:
    """The file's content as ``model``; `SmlabError` naming the file and the key of what is wrong."""
    try:
        return model.model_validate(load_toml(path))
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(str(part) for part in problem["loc"])
        raise SmlabError.of_value(f"{path}: {key}", problem) from error
