"""``smlab claims``: the command line of the ledger of claims."""

from __future__ import annotations

from typing import Annotated

import typer

from smlab.cli.loading import loading
from smlab.cli.options import JsonOption


def claims(
    quick: Annotated[bool, typer.Option("--quick", help="Only what is judged within seconds.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="ID", help="Only this claim, or all whose id begins so; repeatable."),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option("--source", metavar="NAME", help="Only the claims of this paper; repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """What the papers behind smlab claim, and whether it holds here: verdicts computed in this run."""
    with loading():
        from smlab.commands.claims.run import ClaimsOptions, run_claims

    if not run_claims(ClaimsOptions(quick, tuple(only or ()), tuple(source or ()), as_json)):
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add the command to the front door."""
    app.command(short_help="What four papers claim, and whether it holds here.")(claims)
