"""How a command gets to the front door."""

from __future__ import annotations

from collections.abc import Callable

import typer


def registers(command: Callable[..., None], short_help: str) -> Callable[[typer.Typer, str], None]:
    """What adds ``command`` to the front door, under the heading of a panel of its help."""

    def register(app: typer.Typer, panel: str) -> None:
        app.command(short_help=short_help, rich_help_panel=panel)(command)

    return register
