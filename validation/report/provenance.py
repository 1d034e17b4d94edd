"""Where a report comes from: the code, the command, the machine and the libraries. No name or path of the
machine."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from smlab.sim.compiled.threads import processors

LIBRARIES = ("numba", "numpy", "scipy", "simpy", "hypothesis")
ROOT = Path(__file__).resolve().parents[2]


def provenance(command: str) -> dict[str, object]:
    """What any report of a run tells of itself; ``command`` makes it again."""
    return {
        "smlab": _version("smlab"),
        "commit": commit(),
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{machine()}, {processors()} processors, {platform.system()}",
        **libraries(),
    }


def libraries() -> dict[str, str]:
    """The versions of Python and of the libraries that numbers depend on."""
    return {"Python": platform.python_version(), **{name: _version(name) for name in LIBRARIES}}


def commit() -> str:
    """The commit of the checkout that the code runs from, "+ changes" where files differ from it; or "no
    checkout"."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        return head + (" + changes" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return "no checkout"


def machine() -> str:
    """The processor, as the system names it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _git(*arguments: str) -> str:
    if not (ROOT / ".git").exists():  # never that of a folder around an installed package
        raise FileNotFoundError(ROOT / ".git")
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True, timeout=10
    )
    return done.stdout.strip()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
