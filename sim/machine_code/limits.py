"""Numbers that both meanings of machine code share."""

from __future__ import annotations

from typing import Final

TURNS: Final = 64
"""Backward branches of a part before another part of its warp gets a turn, so that spin locks end."""
SHARED_WINDOW: Final = 0x7F4A
"""The high word of generic addresses in shared memory."""
LOCAL_WINDOW: Final = 0x7F4B
"""And of those in local memory."""
LOCAL_PAD: Final = 4608
"""Bytes between the local memories of warps for the caches: a stride that is no power of two, so that the
same few bytes of each warp's stack lie in all sets, as in caches that hash their addresses."""
LOCAL_AT: Final = 1 << 46
"""Where local memory lies for the caches: each word of a warp's threads side by side."""
