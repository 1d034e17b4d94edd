"""Headers of the C library, as far as device code uses what is in them.

The run-time compiler has no host's headers, and kernels are written for nvcc, which reads some of them
before the first line. What a kernel takes from them are integer types, limits and numbers; functions of the
host stay undeclared. Sizes are those of 64-bit Linux.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

_INTEGERS: Final = {8: "char", 16: "short", 32: "int", 64: "long"}

_STDINT: Final = "\n".join(
    [
        "#pragma once",
        *(f"typedef signed {kind} int{bits}_t;" for bits, kind in _INTEGERS.items()),
        *(f"typedef unsigned {kind} uint{bits}_t;" for bits, kind in _INTEGERS.items()),
        "typedef long intptr_t;",
        "typedef unsigned long uintptr_t;",
        *(f"#define INT{bits}_MAX {(1 << bits - 1) - 1}{'L' * (bits > 32)}" for bits in _INTEGERS),
        *(f"#define INT{bits}_MIN (-INT{bits}_MAX - 1)" for bits in _INTEGERS),
        *(
            f"#define UINT{bits}_MAX {(1 << bits) - 1}{'U' * (bits > 16)}{'L' * (bits > 32)}"
            for bits in _INTEGERS
        ),
    ]
)
_MATH: Final = """#pragma once
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define HUGE_VAL __longlong_as_double(0x7ff0000000000000LL)
#define HUGE_VALF __int_as_float(0x7f800000)
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
"""
_FLOAT: Final = """#pragma once
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define FLT_DIG 6
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#define DBL_DIG 15
"""
_LIMITS: Final = """#pragma once
#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define SHRT_MIN (-32768)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MIN (-2147483647 - 1)
#define INT_MAX 2147483647
#define UINT_MAX 4294967295U
#define LONG_MIN (-9223372036854775807L - 1)
#define LONG_MAX 9223372036854775807L
#define ULONG_MAX 18446744073709551615UL
#define LLONG_MIN (-9223372036854775807LL - 1)
#define LLONG_MAX 9223372036854775807LL
#define ULLONG_MAX 18446744073709551615ULL
"""
_EMPTY: Final = "#pragma once\n"
_ASSERT: Final = """#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) \\
    ((condition) ? (void)0 : __assertfail(#condition, __FILE__, __LINE__, __func__, sizeof(char)))
#endif
"""
_TARGET: Final = """#pragma once
#ifndef NV_IF_TARGET
#error this release of NVRTC lacks the macros of nv/target: take release 12.9 or later
#endif
#if !__has_include(<cuda/std/type_traits>)
#define _CG_LIMIT_INCLUDED_DEPENDENCIES
#endif
"""
"""Macros by architecture, which the run-time compiler has before the first line: what is missing is the name.
``cooperative_groups.h`` asks for it first, and for libcu++, which comes with another wheel; the macro has
it take its own traits instead (no update of an atomic by a group, no groups' functions of libcu++)."""

_BY_C_NAME: Final = {
    "stdint": _STDINT,
    "math": _MATH,
    "float": _FLOAT,
    "limits": _LIMITS,
    "assert": _ASSERT,
    **dict.fromkeys(("stddef", "stdio", "stdlib", "string", "time"), _EMPTY),
}
HEADERS: Final = {name: text for c, text in _BY_C_NAME.items() for name in (f"{c}.h", f"c{c}")} | {
    "stdbool.h": _EMPTY,
    "nv/target": _TARGET,
}
"""Texts by the name in the ``#include``."""

READ_FIRST: Final = "smlab-read-by-nvcc.h"
"""What nvcc has read before the first line: integer types and the numbers of ``math.h``."""


def read_first(source: str) -> str:
    """The text of `READ_FIRST` for a source that names something of it, less what it says itself; else
    empty."""
    named, own = set(re.findall(r"[A-Za-z_]\w*", source)), _said(source)
    lines = [line for text in (_STDINT, _MATH) for line in text.splitlines()[1:] if _name(line) not in own]
    return "\n".join([*lines, ""]) if any(_name(line) in named for line in lines) else ""


def _name(line: str) -> str:
    return line.split()[1] if line.startswith("#") else line.rstrip(";").split()[-1]


def _said(source: str) -> Collection[str]:
    """Names that a source defines as macros or types."""
    macros = re.findall(r"#\s*define\s+(\w+)", source)
    types = re.findall(r"\btypedef\b[^;]*?(\w+)\s*;", source) + re.findall(r"\busing\s+(\w+)\s*=", source)
    return {*macros, *types}
