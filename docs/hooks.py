"""What MkDocs generates: the reference of the commands, from the Typer application itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

MARKER = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with the commands in place of the marker."""
    return markdown.replace(MARKER, command_reference()) if MARKER in markdown else markdown


def command_reference() -> str:
    """Each command with its help, arguments and options, as Markdown."""
    import typer

    from smlab.cli.main import app

    root: Any = typer.main.get_command(app)
    return "\n".join(_command(root, "smlab"))


def _command(command: Any, name: str) -> Iterator[str]:
    nested = getattr(command, "commands", {})
    if name != "smlab":
        yield f"{'##' if name.count(' ') == 1 else '###'} {name}\n"
        yield f"{_text(command.help or '')}\n"
        rows = [row for p in command.params if not getattr(p, "hidden", False) and (row := _row(p))]
        if rows:
            yield "| option | meaning |\n|---|---|"
            yield from rows
            yield ""
    for child in sorted(nested):
        yield from _command(nested[child], f"{name} {child}")


def _row(parameter: Any) -> str:
    if parameter.name in ("help", "install_completion", "show_completion"):
        return ""
    is_option = parameter.param_type_name == "option"
    shown = ", ".join(parameter.opts) if is_option else (parameter.metavar or parameter.name.upper())
    return f"| `{shown}` | {_text(getattr(parameter, 'help', None) or '').replace('|', chr(92) + '|')} |"


def _text(help_: str) -> str:
    """Help without click's marks, safe in Markdown."""
    plain = " ".join(line.strip() for line in help_.replace("\b", "").splitlines())
    return plain.replace("<", "&lt;").replace("[", "\\[")
