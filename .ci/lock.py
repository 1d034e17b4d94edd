"""Write the locked requirements in `.ci/locked`: the versions of `constraints.txt` and `.ci/toolchain.txt`
with the digests of all files of each release, so that `pip install --require-hashes` takes nothing else.

    make lock

Run it when a version or an extra has changed. It asks the package index through uv
(`pip install uv`), for every platform and Python that `pyproject.toml` names. A test holds the files to the
versions.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKED = ROOT / ".ci" / "locked"
PYTHON = "3.11.5"
"""The oldest one; mkdocs-material needs its fifth patch."""
PINS = ("--constraint", "constraints.txt", "--constraint", ".ci/toolchain.txt")
BUILD = "setuptools\n"
"""What builds the package itself, which pip must not fetch beside the list."""
ABOUT = {
    "run": "What smlab needs, and what builds it.",
    "dev": "What its tests and checks need beyond that.",
    "docs": "What its site needs beyond that.",
    "toolchain": "What `.ci/toolchain.txt` names; installed without what these ask for.",
    "extras": "What the extras ncu, cuda12, triton, cupy and warp need beyond `run.txt`.",
}
EXTRAS = ("ncu", "cuda12", "triton", "cupy", "warp")
BELOW = {"dev": "run", "docs": "dev", "extras": "run"}


def compiled(*arguments: str, given: str | None = None) -> dict[str, str]:
    """The requirements with their digests, a text for each name; ``-`` in the arguments is ``given``."""
    command = [
        *("uv", "pip", "compile", "--quiet", "--universal", "--python-version", PYTHON),
        *("--generate-hashes", "--no-header", "--no-annotate", *arguments),
    ]
    done = subprocess.run(
        command, cwd=ROOT, input=given, capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        sys.exit(done.stderr)
    blocks = re.split(r"^(?=\S)", done.stdout, flags=re.MULTILINE)
    return {re.split(r"[=\s\[]", block)[0]: block for block in blocks if block.strip()}


def main() -> None:
    if shutil.which("uv") is None:
        sys.exit("uv: no such program (expected one on PATH, by `pip install uv`)")
    names = {"dev": ("dev", "cluster"), "docs": ("dev", "cluster", "docs"), "extras": EXTRAS}
    found = {"run": compiled("pyproject.toml", "-", *PINS, given=BUILD)}
    for file, extras in names.items():
        options = [option for extra in extras for option in ("--extra", extra)]
        found[file] = compiled("pyproject.toml", "-", *PINS, *options, given=BUILD)
    found["toolchain"] = compiled(".ci/toolchain.txt", "--no-deps")
    LOCKED.mkdir(exist_ok=True)
    for file, blocks in found.items():
        below = found.get(BELOW.get(file, ""), {})
        head = f"# {ABOUT[file]} Made by .ci/lock.py.\n"
        if below:
            head += f"-r {BELOW[file]}.txt\n"
        # What is below for one system alone may be needed on all.
        own = "".join(block for name, block in blocks.items() if below.get(name) != block)
        (LOCKED / f"{file}.txt").write_text(head + own, encoding="utf-8")


if __name__ == "__main__":
    main()
