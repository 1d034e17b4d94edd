"""Count how often projected intervals hold, anew: ``python -m smlab.validation.projection``."""

from smlab.validation.projection.counting import count_held
from smlab.validation.projection.held import HELD, write_held

if __name__ == "__main__":
    write_held(count_held())
    print(f"wrote {HELD}")
