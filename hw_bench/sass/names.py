"""Names of kernels and of the functions that they call, as profilers, listings and compilers write them."""

from __future__ import annotations


def plain_name(name: str) -> str:
    """A kernel's name without return type, namespace, template arguments and parameters."""
    head = name.split("(")[0].split("<")[0].strip()
    return head.split(" ")[-1].split("::")[-1]


def mangled_name(name: str) -> str | None:
    """The innermost name in an Itanium-mangled one (``_Z5saxpyifPfS_``, ``_ZN2ns5saxpyEi``)."""
    if not name.startswith("_Z"):
        return None
    rest = name[2:].removeprefix("N")
    found = None
    while rest[:1].isdigit():
        digits = len(rest) - len(rest.lstrip("0123456789"))
        length = int(rest[:digits])
        found, rest = rest[digits : digits + length], rest[digits + length :]
    return found


def short_name(name: str) -> str:
    """``div_rn_f64_full`` of ``$__internal_1_$__cuda_sm20_div_rn_f64_full``."""
    last = name.split("$")[-1]
    head, _, tail = last.removeprefix("__cuda_").partition("_")
    return tail if head.startswith("sm") and tail else last
