"""The command line: reading options, printing, and the way out. The commands are in `smlab.commands`."""

from smlab.cli.main import main, run

__all__ = ["main", "run"]
