"""What CUDA C includes of the user's: headers beside the file, and in folders that options name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import MAX_SOURCE_BYTES, check_folder, source_text

MAX_HEADERS: Final = 1000
"""Of the user's, that one source includes."""

_DIRECTIVE: Final = re.compile(r"(?:#|%:)\s*(?:include(?:_next)?|import|embed)\b[^\S\n]*(.*)")
"""What names a file, and the rest of its line."""
_UNCLEAR: Final = re.compile(r"(?:#|%:)\s*/\*|\b__has_(?:include|embed)")
"""A directive whose name stands behind a comment; a question whether a file is there."""
_OF_SYSTEM: Final = re.compile(r"<(?!/)(?!.*\.\.)[^>]*>")
"""A name that is only looked for in the folders that the compiler is given."""
_NAMED: Final = re.compile(r"[<\"]([^>\"]+)[>\"]")


def includes_files(source: str) -> bool:
    """Whether the text includes any header, or asks whether there is one."""
    joined = _joined(source)
    return _DIRECTIVE.search(joined) is not None or _UNCLEAR.search(joined) is not None


def includes_own_files(source: str) -> bool:
    """Whether the text may include a file beside it, or from anywhere on the disk; in doubt it does."""
    joined = _joined(source)
    rests = [found[1] for found in _DIRECTIVE.finditer(joined)]
    return _UNCLEAR.search(joined) is not None or not all(_OF_SYSTEM.match(rest) for rest in rests)


def _joined(source: str) -> str:
    """The text with lines put together that end with a backslash."""
    return re.sub(r"\\[ \t]*\r?\n", "", source)


@dataclass(frozen=True)
class HeaderFolders:
    """Where a source's headers are: ``beside`` it, for names in quotes, and in ``folders``, in order."""

    beside: Path | None = None
    folders: tuple[Path, ...] = ()

    @classmethod
    def of(cls, path: Path, folders: Iterable[Path] = ()) -> HeaderFolders:
        """For a source file and the folders that ``-I`` names.

        Raises:
            SmlabError: a folder that is not there.
        """
        folders = tuple(folders)
        for folder in folders:
            check_folder("-I", folder, "a folder with headers")
        return cls(path.parent.absolute(), tuple(folder.absolute() for folder in folders))

    def options(self) -> list[str]:
        """The compiler's."""
        return [f"-I{folder}" for folder in self.folders]

    def text(self, source: str) -> str:
        """The source and behind it its headers that are found here, each once, whether or not a condition
        leaves it out: for what they name.

        Raises:
            SmlabError: a header that is no file or cannot be read; too many of them.
        """
        texts, known = [source], set[Path]()
        length, places = len(source), [self.beside]
        for text, own in zip(texts, places, strict=False):  # both grow
            for found in _DIRECTIVE.finditer(_joined(text)):
                path = self._found(found[1], own)
                if path is None or path in known:
                    continue
                known.add(path)
                texts.append(source_text(path))
                places.append(path.parent)
                length += len(texts[-1])
                if len(known) > MAX_HEADERS or length > MAX_SOURCE_BYTES:
                    most = f"{MAX_HEADERS} files with {MAX_SOURCE_BYTES} characters"
                    raise SmlabError.at(str(path), "one header too many", expected=f"at most {most}")
        return "\n".join(texts)

    def _found(self, rest: str, own: Path | None) -> Path | None:
        """The file that an ``#include`` in a file of the folder ``own`` names, if it is here."""
        name = _NAMED.match(rest)
        if name is None:
            return None
        first = [own] if rest.startswith('"') and own is not None else []
        for folder in [*first, *self.folders]:
            path = folder / name[1]
            try:
                if path.exists() and not path.is_dir():
                    return path.resolve()
            except (OSError, RuntimeError, ValueError):
                continue
        return None
