"""``python -m smlab``: the command line."""

from smlab.cli import main

main()
