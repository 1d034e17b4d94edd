"""``smlab claims``: the command line of the ledger of claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from smlab.cli.options import DetailsOption, JsonOption
from smlab.cli.registering import call, registers


@dataclass(frozen=True)
class ClaimsOptions:
    """What ``smlab claims`` was asked for."""

    quick: Annotated[bool, typer.Option("--quick", help="Only what is judged within seconds.")] = False
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="ID", help="Only this claim, or all whose id begins so; repeatable."),
    ] = None
    sources: Annotated[
        list[str] | None,
        typer.Option("--source", metavar="NAME", help="Only the claims of this paper; repeatable."),
    ] = None
    details: DetailsOption = False
    as_json: JsonOption = False


def claims(asked: ClaimsOptions) -> None:
    """What the papers behind smlab claim, and whether it holds here. Every verdict is computed now."""
    if not call("smlab.commands.claims.run:run_claims", asked):
        raise typer.Exit(1)


register = registers(claims, "Judge what four papers claim.", ClaimsOptions)
