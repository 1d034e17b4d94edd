"""``smlab claims``: the command line of the ledger of claims."""

from __future__ import annotations

from typing import Annotated

import typer

from smlab.cli.loading import loading
from smlab.cli.options import DetailsOption, JsonOption
from smlab.cli.registering import registers


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
    details: DetailsOption = False,
    as_json: JsonOption = False,
) -> None:
    """What the papers behind smlab claim, and whether it holds here. Every verdict is computed now."""
    with loading():
        from smlab.commands.claims.run import ClaimsOptions, run_claims

    if not run_claims(ClaimsOptions(quick, tuple(only or ()), tuple(source or ()), as_json, details)):
        raise typer.Exit(1)


register = registers(claims, "Judge what four papers claim.")
