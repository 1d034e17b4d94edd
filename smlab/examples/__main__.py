"""Make the example profile anew: ``python -m smlab.examples [--out FILE]``."""

from __future__ import annotations

import argparse
from pathlib import Path

from smlab.examples import PROFILE
from smlab.examples.making import write_profile


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m smlab.examples", description=__doc__)
    parser.add_argument("--out", type=Path, default=PROFILE, help="where to write it (the one that ships)")
    path = parser.parse_args().out
    write_profile(path)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
