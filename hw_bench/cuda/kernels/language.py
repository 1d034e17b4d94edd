"""Numba's CUDA names, as the kernels use them. Untyped: to a type checker they are classes, in a kernel
functions."""

from __future__ import annotations

from typing import Any, Final

import numba.cuda as _cuda
from numba import types

cuda: Final[Any] = _cuda

int32: Final[Any] = types.int32
int64: Final[Any] = types.int64
uint8: Final[Any] = types.uint8
uint32: Final[Any] = types.uint32
uint64: Final[Any] = types.uint64
float32: Final[Any] = types.float32
float64: Final[Any] = types.float64
