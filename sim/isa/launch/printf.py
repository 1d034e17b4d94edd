"""What a kernel prints: calls of ``printf``, written down by the code that stands for it
(`smlab.hw_bench.sass.runtime`), as text."""

from __future__ import annotations

import re
import struct
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass.runtime import PRINT_BYTES, PRINT_HEADER_BYTES
from smlab.sim.isa.memory.global_memory import GlobalMemory

MAX_PRINTS: Final = 1 << 14
"""Calls that are kept, 4.25 MiB; CUDA's own buffer has 1 MiB."""
PRINT_BUFFER_BYTES: Final = PRINT_HEADER_BYTES + MAX_PRINTS * PRINT_BYTES
MAX_TEXT_BYTES: Final = 1 << 12
"""Of one format or string."""
MAX_WIDTH: Final = 1 << 12
"""Characters that a conversion's width or precision may ask for."""
MAX_PRINTED: Final = 1 << 24
"""Characters of all calls together."""
_CONVERSION: Final = re.compile(
    r"%(?:%|(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d+)?(?P<dot>))?"
    r"(?P<length>hh?|ll?|[jzt])?(?P<letter>[diouxXcspaAeEfFgG]))"
)
_BITS: Final = {"hh": 8, "h": 16, "": 32, "l": 64, "ll": 64, "j": 64, "z": 64, "t": 64}


def printed(memory: GlobalMemory, buffer: int) -> str:
    """The text of all calls kept in the buffer at this address, in the order in which they were made."""
    content = _bytes_at(memory, buffer, PRINT_BUFFER_BYTES)
    calls = struct.unpack_from("<I", content)[0]
    parts: list[str] = []
    left = MAX_PRINTED
    for n in range(min(calls, MAX_PRINTS)):
        at = PRINT_HEADER_BYTES + n * PRINT_BYTES
        template, size = struct.unpack_from("<QI", content, at)
        parts.append(formatted(memory, _text_at(memory, template), content[at + 16 : at + 16 + size]))
        left -= len(parts[-1])
        if left < 0:
            break
    if calls > len(parts):
        parts.append(f"[{calls - len(parts):,} more calls of printf are not kept]\n")
    return "".join(parts)


def formatted(memory: GlobalMemory, template: str, arguments: bytes) -> str:
    """A format with arguments that lie as C passes them to ``vprintf``: each at a multiple of its size. What
    is no conversion stays as it is, and so does one without an argument.

    Raises:
        SmlabError: a width or a precision of more than `MAX_WIDTH`.
    """
    values = _Arguments(arguments)

    def conversion(match: re.Match[str]) -> str:
        letter = match["letter"]
        if letter is None:
            return "%"
        try:
            flags, width = match["flags"], _given(match["width"], values)
            precision = _given(match["precision"], values) if match["dot"] is not None else None
            if match["dot"] is not None and match["precision"] is None:
                precision = "0"
            if precision is not None and precision.startswith("-"):
                precision = None
            for what, text in (("width", width), ("precision", precision)):
                if text and (len(text) > 11 or abs(int(text)) > MAX_WIDTH):
                    raise SmlabError.at(
                        f"printf: {match[0][:40]}",
                        f"a {what} that is too large",
                        text[:40],
                        f"at most {MAX_WIDTH}",
                    )
            spec = f"%{flags}{width or ''}" + ("" if precision is None else f".{precision}")
            if letter in "eEfFgG":
                return (spec + letter) % values.take("d")
            if letter in "aA":
                text = float(values.take("d")).hex()
                return (spec.split(".")[0] + "s") % (text.upper() if letter == "A" else text)
            if letter == "c":
                return (spec + "c") % chr(int(values.take("i")) & 0xFF)
            if letter == "s":
                address = int(values.take("Q"))
                return (spec + "s") % (_text_at(memory, address) if address else "(null)")
            if letter == "p":
                return (spec.split(".")[0] + "s") % f"{int(values.take('Q')):#x}"
            bits = _BITS[match["length"] or ""]
            value = int(values.take("q" if bits == 64 else "i")) & ((1 << bits) - 1)
            if letter in "di" and value >> (bits - 1):
                value -= 1 << bits
            if letter == "o" and "#" in flags:
                return (spec.replace("#", "") + "s") % f"0{value:o}"
            return (spec + {"i": "d", "u": "d"}.get(letter, letter)) % value
        except struct.error:
            return match[0]

    return _CONVERSION.sub(conversion, template)


class _Arguments:
    """Arguments one after the other, each at a multiple of its size."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def take(self, kind: str) -> float:
        size = struct.calcsize("<" + kind)
        self._at = -(-self._at // size) * size
        value: float = struct.unpack_from("<" + kind, self._content, self._at)[0]
        self._at += size
        return value


def _given(text: str | None, values: _Arguments) -> str | None:
    return str(values.take("i")) if text == "*" else text


def _bytes_at(memory: GlobalMemory, address: int, most: int) -> bytes:
    """What lies in memory from an address on, within one allocation; nothing where there is none."""
    for allocation in memory.allocations:
        if allocation.address <= address < allocation.end:
            at = address - allocation.address
            return allocation.content[at : at + most].tobytes()
    return b""


def _text_at(memory: GlobalMemory, address: int) -> str:
    return _bytes_at(memory, address, MAX_TEXT_BYTES).split(b"\0", 1)[0].decode(errors="replace")
