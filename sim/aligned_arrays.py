"""Arrays of zeros that share no cache line with anything else, in large pages where they are large.

Two threads that write to words of one line wait for each other. And an engine goes from one warp's words to
another's all over its arrays, so that with small pages most accesses would look up a page first.
"""

from __future__ import annotations

import contextlib
import mmap
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_LINE: Final = 128
"""Bytes that processors fetch together: two lines."""
_LARGE_PAGE: Final = 1 << 21
_ADVICE: Final[int] = getattr(mmap, "MADV_HUGEPAGE", -1)


def aligned(count: int, kind: Any) -> NDArray[Any]:
    """``count`` zeros of a kind."""
    size = count * np.dtype(kind).itemsize
    large = _ADVICE >= 0 and size >= _LARGE_PAGE // 2
    room = size + (_LARGE_PAGE if large else 2 * _LINE)
    whole = _mapped(room) if large else np.zeros(room, dtype=np.uint8)
    first = -int(whole.ctypes.data) % (_LARGE_PAGE if large else _LINE)
    return whole[first : first + size].view(kind)


def _mapped(size: int) -> NDArray[np.uint8]:
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without large pages is only slower
        memory.madvise(_ADVICE)
    return np.frombuffer(memory, dtype=np.uint8)
