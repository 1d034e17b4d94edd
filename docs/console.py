"""The commands in our documents: found, run in an empty folder, and compared with what the document prints.

A block of a document that begins with three backquotes and ``console`` holds commands, each on a line after
``$ ``, and below each what it prints. ``python docs/console.py FILE...`` runs them and writes anew what they
print; with ``--check`` it only compares. The commands of one file run in one temporary folder, one after the
other, as a reader's would.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COLUMNS = 100
"""How wide the terminal of the documents is."""
PROMPT = "$ "
LIMIT_S = 600
FIRST_RUN = re.compile(r"^(?:smlab: )?(?:still )?compiling the engine.*\n", re.MULTILINE)
"""What only the first run on a machine prints."""


@dataclass(frozen=True)
class Command:
    """A command of a document, its line (1 is the first), and what the document says that it prints."""

    text: str
    line: int
    printed: str


def console_blocks(document: str) -> Iterator[tuple[int, int]]:
    """First and past-the-last line (from 0) of the inside of each console block."""
    lines = document.splitlines()
    start = None
    for number, line in enumerate(lines):
        if start is None and line.strip() == "```console":
            start = number + 1
        elif start is not None and line.strip() == "```":
            yield start, number
            start = None


def commands(document: str) -> list[Command]:
    """The commands of all console blocks."""
    lines = document.splitlines()
    found = []
    for start, end in console_blocks(document):
        prompts = [i for i in range(start, end) if lines[i].startswith(PROMPT)]
        for at, following in zip(prompts, [*prompts[1:], end], strict=True):
            printed = "\n".join(lines[at + 1 : following])
            found.append(Command(lines[at].removeprefix(PROMPT), at + 1, printed))
    return found


def shell_lines(document: str) -> list[str]:
    """The commands of all ``sh`` blocks, without their remarks."""
    found = []
    for block in re.findall(r"^```sh\n(.*?)^```", document, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            command = re.sub(r"\s+#\s.*$", "", line).strip()
            if command and not command.startswith("#"):
                found.append(command)
    return found


def environment(columns: int = COLUMNS, programs: Path | None = None) -> dict[str, str]:
    """That of a reader whose terminal is ``columns`` wide and who has activated this Python's environment;
    what is in the folder ``programs`` comes before what is there."""
    folders = [str(folder) for folder in (programs, Path(sys.executable).parent) if folder is not None]
    path = os.pathsep.join([*folders, os.environ.get("PATH", "")])
    return {**os.environ, "COLUMNS": str(columns), "PATH": path, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}


def run(
    command: str, folder: Path, *, columns: int = COLUMNS, programs: Path | None = None
) -> tuple[int, str]:
    """Exit status of a command line in ``folder``, and what it prints on standard output and error."""
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=environment(columns, programs),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        timeout=LIMIT_S,
        check=False,
    )
    printed = FIRST_RUN.sub("", done.stdout)
    return done.returncode, "\n".join(line.rstrip() for line in printed.splitlines()).strip("\n")


def rerun(document: str, programs: Path | None = None) -> str:
    """The document with what its commands print now. `RuntimeError` naming the command that fails."""
    lines = document.splitlines()
    fresh: list[str] = []
    done = 0
    with tempfile.TemporaryDirectory() as folder:
        for command in commands(document):
            status, printed = run(command.text, Path(folder), programs=programs)
            if status:
                raise RuntimeError(f"line {command.line}: {command.text}: status {status}: {printed}")
            fresh += lines[done : command.line]
            fresh += printed.splitlines()
            old = len(command.printed.splitlines()) if command.printed else _blank(lines, command.line)
            done = command.line + old
    return "\n".join([*fresh, *lines[done:]]) + "\n"


def _blank(lines: list[str], start: int) -> int:
    """How many empty lines follow a command of which nothing is printed."""
    count = 0
    while not lines[start + count].strip():
        count += 1
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the commands of documents.")
    parser.add_argument("--check", action="store_true", help="compare only; status 1 where something differs")
    parser.add_argument("documents", nargs="+", type=Path, metavar="FILE")
    given = parser.parse_args()
    differ = False
    for path in given.documents:
        old = path.read_text(encoding="utf-8")
        new = rerun(old)
        if old == new:
            print(f"{path}: as printed")
        elif given.check:
            differ = True
            sys.stdout.writelines(
                difflib.unified_diff(old.splitlines(True), new.splitlines(True), str(path), "now")
            )
        else:
            path.write_text(new, encoding="utf-8")
            print(f"{path}: written anew")
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
