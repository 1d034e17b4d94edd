"""How a command gets to the front door; its options can be the fields of a frozen dataclass, written once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from importlib import import_module
from typing import Any, TypeVar, cast, get_type_hints

import typer

from smlab.cli.loading import loading

Asked = TypeVar("Asked")


def registers(
    command: Callable[..., None], short_help: str, options: type[Any] | None = None
) -> Callable[[typer.Typer, str], None]:
    """What adds ``command`` to the front door, under the heading of a panel of its help. With ``options`` it
    takes all that it is asked for as one object of that class."""

    def register(app: typer.Typer, panel: str) -> None:
        asked = command if options is None else with_options(command, options)
        app.command(short_help=short_help, rich_help_panel=panel)(asked)

    return register


def with_options(command: Callable[[Asked], None], options: type[Asked]) -> Callable[..., None]:
    """``command`` as typer reads one: a parameter for each field of ``options``, annotated as that is."""

    def called(**given: Any) -> None:
        command(options(**given))

    hints = get_type_hints(options, include_extras=True)
    made: Any = called  # typer asks for what a plain function is not known to have
    made.__name__, made.__doc__, made.__annotations__ = command.__name__, command.__doc__, hints
    made.__signature__ = inspect.Signature(
        [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.default is MISSING else field.default,
                annotation=hints[field.name],
            )
            for field in fields(cast(Any, options))
        ]
    )
    return called


def call(place: str, *asked: object) -> Any:
    """What ``module:function`` makes of the options: imported now, after they were read and found usable."""
    module, _, name = place.partition(":")
    with loading():
        function = getattr(import_module(module), name)
    return function(*asked)
