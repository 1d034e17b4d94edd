"""Structures that a kernel takes by value, with pointers and tensor maps in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Structure:
    """A structure that is passed by value: its bytes, and what lies in it from which byte on.

    ``fields`` are numpy scalars, arrays (the structure holds their addresses) and tensor maps. An array that
    they point to is an argument of the launch only so that it has a name: the kernel takes the structure.
    """

    content: bytes
    fields: Mapping[int, Any] = field(default_factory=dict)
