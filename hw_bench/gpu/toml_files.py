"""TOML files read into pydantic models, with one line where they are wrong."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from smlab.hw_bench.errors import SmlabError

Model = TypeVar("Model", bound=BaseModel)


def read_toml(path: Path, model: type[Model]) -> Model:
    """The file's content as ``model``; `SmlabError` naming the file and the key of what is wrong."""
    try:
        with path.open("rb") as file:
            return model.model_validate(tomllib.load(file))
    except (OSError, UnicodeDecodeError) as error:
        raise SmlabError(f"{path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise SmlabError(f"{path}: is not valid TOML: {error}") from error
    except ValidationError as error:
        problem = error.errors()[0]
        key = ".".join(str(part) for part in problem["loc"])
        raise SmlabError.at(f"{path}: {key}", problem["msg"], problem["input"]) from error
