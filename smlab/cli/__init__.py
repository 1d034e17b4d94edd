"""The command line: reading options, printing, and the way out. The commands are in `smlab.commands`."""

from __future__ import annotations

from smlab.cli.loading import loading


def main() -> None:
    """The command ``smlab``: run it and end the process with its exit status."""
    with loading():
        from smlab.cli.main import main as run_main
    run_main()
