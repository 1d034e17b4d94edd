"""The study that ``smlab whatif --example`` writes."""

from pathlib import Path
from typing import Final

EXAMPLE: Final = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
