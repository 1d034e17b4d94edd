"""Trees of TOML and JSON, tables, listings and binaries with something wrong in them, by seed.

What mutates bytes leaves a file that cannot be parsed at all; here the file is well formed, and one or two of
its values are of another type, at a limit, missing, doubled, very long or very deep.
"""

from __future__ import annotations

import copy
import json
import math
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

Place = tuple[str | int, ...]


def nested(depth: int) -> list[Any]:
    """Lists in lists."""
    tree: list[Any] = []
    for _ in range(depth):
        tree = [tree]
    return tree


NUMBERS = (
    *(0, 1, -1, 2, 33, 65, 2**31 - 1, 2**31, -(2**31) - 1, 2**32, 2**53 + 1, 10**12, 2**62),
    *(2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 10**400, -(10**400)),
    *(0.5, -0.0, 1.9, 1e-320, 1e300, -1e300, math.inf, -math.inf, math.nan, True, False),
)
TEXTS = (
    "",
    " ",
    "x",
    "0",
    "1e5",
    "nan",
    "-1",
    "\0",
    "\x1b[2J",
    "é\u202e",
    "a" * 100_000,
    "9" * 5000,
    "../x",
    "=x()",
)
CONTAINERS: tuple[Any, ...] = (
    [],
    {},
    [[]],
    [1],
    ["x"],
    [0] * 20_000,
    {"x": 1},
    [{}],
    nested(60),
    nested(400),
)


def places(tree: Any, at: Place = ()) -> Iterator[Place]:
    """The place of each node below the root."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, inner in items:
        yield (*at, key)
        yield from places(inner, (*at, key))


def mutated_tree(tree: Any, rng: random.Random, *, null: bool) -> Any:
    """One or two nodes changed; ``null`` where the format has it."""
    out = copy.deepcopy(tree)
    for _ in range(rng.choice([1, 1, 1, 2])):
        every = list(places(out))
        if not every:
            return out
        place = rng.choice(every)
        holder = out
        for key in place[:-1]:
            holder = holder[key]
        _change(holder, place[-1], rng, null)
    return out


def _change(holder: Any, key: Any, rng: random.Random, null: bool) -> None:
    value = holder[key]
    match rng.randrange(10):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[rng.choice(["", "x", f"{key}s", "a" * 5000, "\0", str(key).upper()])] = holder.pop(key)
        case 1:
            holder.append(copy.deepcopy(value))
        case 2:
            holder[key] = rng.choice([[value], {"x": value}, str(value)[:1000], [value] * 70])
        case 3 if isinstance(value, int | float) and abs(value) < 10**300:
            holder[key] = rng.choice(
                [value + 1, value - 1, -value, value * 1000, value * 10**9, float(value)]
            )
        case 3 | 4 | 5 | 6:
            holder[key] = rng.choice(NUMBERS)
        case 7:
            holder[key] = rng.choice(TEXTS)
        case 8 if null:
            holder[key] = None
        case _:
            holder[key] = copy.deepcopy(rng.choice(CONTAINERS))


def toml_text(tables: dict[str, Any]) -> str:
    """A tree as TOML, each of its first tables on a line of its own."""
    return "".join(f"{_toml_key(key)} = {_toml(value)}\n" for key, value in tables.items())


def _toml_key(key: object) -> str:
    return json.dumps(str(key)).replace("\x7f", "\\u007f")


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return _toml_key(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_toml_key(key)} = {_toml(inner)}' for key, inner in value.items())}}}"
    return str(value)


CELLS = (
    "",
    "0",
    "-1",
    "nan",
    "inf",
    "1e400",
    "9" * 30,
    "9" * 5000,
    "1,000",
    "0x10",
    "x",
    '"',
    "\0",
    "=x()",
    "é",
    "1.5",
)


def mutated_table(rows: Sequence[Sequence[str]], rng: random.Random) -> list[list[str]]:
    """A table with a row or a column missing, doubled or moved, or with other cells."""
    out = [list(row) for row in rows]
    for _ in range(rng.choice([1, 1, 2, 3])):
        row = rng.randrange(len(out))
        column = rng.randrange(max(len(out[row]), 1))
        match rng.randrange(8):
            case 0:
                del out[row]
            case 1:
                out.insert(rng.randrange(len(out) + 1), list(out[row]))
            case 2:
                out = [cells[:column] + cells[column + 1 :] for cells in out]
            case 3:
                out = [[*cells, *cells[column : column + 1]] for cells in out]
            case 4:
                out[row] = out[row][:column]
            case 5:
                out[row] = out[row] * rng.choice([2, 1000])
            case _:
                if column < len(out[row]):
                    out[row][column] = rng.choice(CELLS)
        if not out:
            return out
    return out


OPERANDS = (
    *(
        "R0",
        "R254",
        "R255",
        "R256",
        "R99999",
        "RZ",
        "-R1",
        "|R2|",
        "~R3",
        "UR63",
        "UR64",
        "P6",
        "P7",
        "!PT",
        "B16",
    ),
    *(
        "0x0",
        "0x" + "f" * 8,
        "0x" + "f" * 9,
        "0x" + "f" * 16,
        "0x" + "f" * 22,
        "-0x80000001",
        "9" * 22,
        "9" * 5000,
    ),
    *(
        "1e39",
        "-1e400",
        "+INF",
        "-QNAN",
        "1e9",
        "1e-50",
        "1_0",
        "c[0x0][0x160]",
        "c[0x9][0x0]",
        "c[0x0][0xfffffffff]",
    ),
    *(
        "[R2]",
        "[R2.64+0x10]",
        "[R2+0x" + "f" * 17 + "]",
        "[UR4+R2.X16]",
        "[]",
        "[[",
        "`(.L_x_1)",
        "`(",
        "SR_TID.X",
        "SRZ",
    ),
    *(
        "desc[UR4][R2.64]",
        "{R0, R1}",
        "",
        " " * 3000,
        "x" * 3000,
        "&wr=0x0",
        "?trans1",
        "R0.H0_H0",
        "c[0x0][R1+-0x8]",
    ),
)
NOTES = (
    '\t.headerflags @"EF_CUDA_SM{} EF_CUDA_PTX_SM(EF_CUDA_SM70)"',
    '\t//## File "a{}.cu", line {}',
    '\t//## File "a.cu", line 1 inlined at "b.cu", line {}',
    "\t.section .text.other{},",
    ".L_x_{}:",
    "        /*{}*/  EXIT ;",
)


def hostile_listing(text: str, rng: random.Random) -> str:
    """A listing with operands, mnemonics, addresses and notes that no disassembler prints."""
    lines = text.splitlines()
    code = [n for n, line in enumerate(lines) if re.match(r"\s*/\*[0-9a-f]{4}\*/", line)]
    for _ in range(rng.choice([1, 1, 2, 5])):
        n = rng.choice(code)
        match rng.randrange(8):
            case 0:
                number = rng.choice(["7" * 100_000, "0", "70", "٣", "f" * 22, "9" * 30])
                lines.insert(rng.randrange(len(lines)), rng.choice(NOTES).replace("{}", number))
            case 1:
                word = rng.choice(["FADD", "HADD2", "MOV", "LDG.E.128", "STS", "BRA", "BAR.SYNC", "X" * 3000])
                lines[n] = re.sub(r"\b[A-Z][\w.]*", word, lines[n], count=1)
            case 2:
                lines[n] += rng.choice(["x", ";", "}", " " * 5000, "/* 0x0 */"])
            case 3:
                lines[n] = rng.choice(["{", " " * 5000]).join(lines[n].split(" ", 1))
            case _:
                head, comma, rest = lines[n].rpartition(", ")
                if not comma:
                    continue
                lines[n] = (
                    f"{head}, {rng.choice(OPERANDS)}{rest[rest.find(' ;') :] if ' ;' in rest else ' ;'}"
                )
    return "\n".join(lines) + "\n"


SOURCE_TOKENS = (
    *("0x7ffffffffffffffcULL", "-1", "1 << 31", "4294967295u", "1e39f", "(int *)0", "__trap()", "while (1);"),
    *(
        "int x[100000000];",
        "__shared__ int y[1 << 20];",
        '#include "/dev/zero"\n',
        "#error x\n",
        "#define int char\n",
    ),
    *(
        'printf("%*d", 2000000000, 1);',
        'printf("%.999999999f", 1.0);',
        'asm volatile("exit;");',
        "}",
        "{",
        "\\",
        '"',
    ),
    *(
        "((" * 2000,
        "template<int N> struct A { A<N + 1> a; }; A<0> a;",
        "__launch_bounds__(99999)",
        "\0",
        "é",
    ),
)


def hostile_source(text: str, rng: random.Random) -> str:
    """CUDA C with tokens in it that do not compile, run out of bounds, print without measure or never end."""
    for _ in range(rng.choice([1, 1, 2])):
        words = list(re.finditer(r"\w+|[^\w\s]", text))
        at = rng.choice(words)
        token = rng.choice(SOURCE_TOKENS)
        text = text[: at.start()] + token + text[at.end() if rng.random() < 0.5 else at.start() :]
    return text


def flipped(data: bytes, rng: random.Random) -> bytes:
    """A binary file: bits and words in any place, or its end cut off."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 8])):
        at = rng.randrange(len(out))
        match rng.randrange(4):
            case 0 | 1:
                out[at] ^= 1 << rng.randrange(8)
            case 2:
                out[at : at + 4] = rng.choice([b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x00\x00\x00\x80"])
            case _:
                out = out[: max(64, at)] if rng.random() < 0.3 else out
                if at >= len(out):
                    break
    return bytes(out)


BYTE_TOKENS = (
    *(b"", b"0", b"-1", b"nan", b"inf", b"1e400", b"9" * 400, b"\0", b"\xff", b'"', b",", b"[", b"null"),
    *(b"=x()", b"\x1b[2J"),
)


def mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes cut out, doubled, cut off, or one cell or value replaced; a few times over."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5, 30])):
        at = rng.randrange(len(out)) if out else 0
        match rng.randrange(5):
            case 0:
                out[at : at + 1] = rng.choice(BYTE_TOKENS)
            case 1:
                del out[at : at + rng.randrange(400)]
            case 2:
                out[at:at] = out[at : at + rng.randrange(400)] * rng.choice([1, 2, 50])
            case 3:
                del out[at:]
            case _:
                marks = [k for k, byte in enumerate(out) if byte in b',":=\n']
                if len(marks) > 1:
                    first = rng.randrange(len(marks) - 1)
                    out[marks[first] + 1 : marks[first + 1]] = rng.choice(BYTE_TOKENS)
    return bytes(out)
