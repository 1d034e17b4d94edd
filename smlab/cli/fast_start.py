"""What is wrong with a command line and can be told at once, before the imports that its work needs.

The work checks its input again, where it knows more; nothing here reads more than a GPU description.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from smlab.hw_bench.errors import SmlabError, nearest
from smlab.hw_bench.inputs import check_file, check_folder, resolved

PROFILE_OR_HOW = "a profiler's output; --how tells how to collect it"
PROFILE_OR_DATASET = "a profiler's output, or --dataset"


def check_profiles(profiles: Sequence[Path] | None, example: bool, expected: str) -> None:
    """`SmlabError` unless there is a profile, or ``--example`` instead, and each can be opened."""
    if example and profiles:
        raise SmlabError.at("--example", "takes no profile", str(profiles[0]), "one or the other")
    if not example and not profiles:
        raise SmlabError(f"PROFILE: no profile given (expected {expected}, or --example to try)")
    for path in profiles or ():
        check_file(path, "a profile")


def check_gpus(*names: str | None) -> None:
    """`SmlabError` for a name or a description that `load_gpu` refuses; None is no name."""
    from smlab.hw_bench.gpu.descriptions import load_gpu

    for name in names:
        if name is not None:
            load_gpu(name)


def check_inputs(*paths: Path | None) -> None:
    """`SmlabError` for a file that cannot be opened; None is no file."""
    for path in paths:
        if path is not None:
            check_file(path)


def check_includes(folders: Sequence[Path] | None) -> None:
    """`SmlabError` for a folder of ``-I`` that is not there."""
    for folder in folders or ():
        check_folder("-I", folder, "a folder with headers")


def check_outputs(*paths: Path | None) -> None:
    """`SmlabError` for a file to write into a folder that is not there; None is no file."""
    for path in paths:
        if path is None:
            continue
        try:
            there = path.parent.is_dir()
        except (OSError, ValueError) as error:
            raise SmlabError(f"{path}: cannot be written: {error}") from error
        if path.is_symlink():
            resolved(path)
        if not there:
            raise SmlabError.at(str(path), "the folder to write into does not exist", str(path.parent))


def check_choice(option: str, value: str | None, known: Sequence[str]) -> None:
    """`SmlabError` for a word that the option does not know; None is no word."""
    if value is not None and value not in known:
        guess = nearest(value, known)
        among = ", ".join(known)
        raise SmlabError.at(option, "unknown", value, f"perhaps {guess}; one of {among}" if guess else among)
