"""``python -m smlab.cli``."""

from smlab.cli import main

main()
