"""The version of code, as a digest of its text: other code, other points."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path


@cache
def digest_of(*places: Path) -> str:
    """A digest of files and of all Python files in folders."""
    digest = hashlib.sha256()
    for place in places:
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(path.relative_to(place.parent).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
