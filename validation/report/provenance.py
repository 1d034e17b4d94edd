"""Where a report comes from: the code, the command, the machine and the libraries. No name or path of the
machine."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from smlab.hw_bench.sources import commit
from smlab.sim.compiled.threads import processors

LIBRARIES = ("numba", "numpy", "scipy", "simpy", "hypothesis")


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


def machine() -> str:
    """The processor, as the system names it."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
