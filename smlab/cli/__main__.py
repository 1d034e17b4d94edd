"""``python -m smlab.cli``."""

from smlab.cli.main import main

main()
