"""The version of code, as a digest of its text: other code, other results. For all rooms."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import subprocess
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[1]


def digest_of(*places: Path, data: bool = False) -> str:
    """A digest (16 hexadecimal digits) of files and of all Python files in folders, with their names; with
    ``data``, of the other files in the folders as well."""
    digest = hashlib.sha256()
    for place in places:
        for path in [place] if place.is_file() else sorted(place.rglob("*" if data else "*.py")):
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            digest.update(path.relative_to(place.parent).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def package_folder(name: str) -> Path:
    """The folder of a package, without importing it (only the packages that it is in).

    Raises:
        ModuleNotFoundError: there is no such package.
    """
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no package {name}", name=name)
    return Path(spec.origin).parent


def cache_key(*parts: object) -> str:
    """A digest (16 hexadecimal digits) of plain values: what a cached result depends on."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def installed_version() -> str:
    """The version of the installed package; ``0+unknown`` in a checkout that is not installed."""
    try:
        return importlib.metadata.version("smlab")
    except importlib.metadata.PackageNotFoundError:
        return "0+unknown"


def commit() -> str:
    """The commit of the checkout that the code runs from, "+ changes" where files differ from it; or "no
    checkout"."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        return head + (" + changes" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return "no checkout"


def _git(*arguments: str) -> str:
    if not (_ROOT / ".git").exists():  # never that of a folder around an installed package
        raise FileNotFoundError(_ROOT / ".git")
    done = subprocess.run(
        ["git", "-C", str(_ROOT), *arguments], check=True, capture_output=True, text=True, timeout=10
    )
    return done.stdout.strip()
