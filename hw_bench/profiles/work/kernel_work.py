"""What a roofline needs to know of a kernel: its operations, its traffic at each level of memory, its
time, its launch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.rows import Rows

Floats = NDArray[np.float64]

PRECISIONS: Final = ("fp16", "fp32", "fp64")
"""The order of the columns of ``add``, ``mul`` and ``fma``."""

LEVELS: Final = ("l1", "l2", "dram")
"""The levels of memory, from the SM outwards."""

_OPERATIONS: Final = ("add", "mul", "fma")
_OTHERS: Final = (
    *("seconds", "tensor_flops", "l1_bytes", "l2_bytes", "dram_bytes", "shared_bytes", "shared_wavefronts"),
    *("shared_ideal_wavefronts", "instructions", "thread_instructions", "blocks", "threads_per_block"),
    *("registers_per_thread", "shared_bytes_per_block", "cycles", "clock_hz", "working_set_bytes"),
    *("stored_bytes", "dram_peak_bytes_per_s", "integer_operations", "memory_requests", "resident_warps"),
    *("alu_instructions", "xu_instructions"),
)


@dataclass(frozen=True, eq=False)
class KernelWork(Rows):
    """One element a launch; arrays of shape (kernels,) unless said otherwise, NaN where a number is not
    known.

    Operations: ``add``, ``mul`` and ``fma`` are thread operations by precision, shape (kernels, 3) in the
    order of `PRECISIONS`; a packed half2 instruction counts twice, an ``fma`` once (it is two FLOPs).
    ``tensor_flops`` are FLOPs of tensor cores.

    Traffic in bytes that *traverse* a level (hits and misses): ``l1_bytes`` (global and local memory),
    ``l2_bytes``, ``dram_bytes``. Shared memory: ``shared_wavefronts`` are its passes, bank conflicts
    included, ``shared_ideal_wavefronts`` those without, ``shared_bytes`` what the threads accessed.

    ``instructions`` are warp-instructions, ``thread_instructions`` the sum of their active threads. The
    launch: ``blocks``, ``threads_per_block``, ``registers_per_thread``, ``shared_bytes_per_block``.
    ``seconds`` is the measured time, ``cycles`` the same in SM cycles, ``clock_hz`` the SM clock while it
    ran. ``integer_operations`` are thread operations on integers; ``memory_requests`` are warp-instructions
    that access memory of any kind, ``alu_instructions`` and ``xu_instructions`` those of two pipes:
    comparisons and integers (but for multiply-adds), and special functions with conversions;
    ``resident_warps`` are the warps of an SM, mean over the time that it works. ``working_set_bytes`` is the
    memory in use at a time that a kernel comes back to, where somebody knows; ``stored_bytes`` what its
    global stores write. ``dram_peak_bytes_per_s`` is the rating of the memory that the profile's own
    percentage implies, or more.

    ``flags`` holds for each kernel the notes on the provenance of its numbers; ``row`` is the file's row, 0
    where there is none.
    """

    kernel: NDArray[np.object_]
    launch: NDArray[np.int64]
    seconds: Floats
    add: Floats
    mul: Floats
    fma: Floats
    tensor_flops: Floats
    l1_bytes: Floats
    l2_bytes: Floats
    dram_bytes: Floats
    shared_bytes: Floats
    shared_wavefronts: Floats
    shared_ideal_wavefronts: Floats
    instructions: Floats
    thread_instructions: Floats
    blocks: Floats
    threads_per_block: Floats
    registers_per_thread: Floats
    shared_bytes_per_block: Floats
    cycles: Floats
    clock_hz: Floats
    working_set_bytes: Floats
    stored_bytes: Floats
    dram_peak_bytes_per_s: Floats
    integer_operations: Floats
    memory_requests: Floats
    resident_warps: Floats
    alu_instructions: Floats
    xu_instructions: Floats
    flags: NDArray[np.object_]
    row: NDArray[np.int64]

    @classmethod
    def of(cls, kernel: Sequence[str], seconds: ArrayLike, **given: Any) -> KernelWork:
        """From what is known: every other array may be left out, or be a number for all kernels.

        ``fp32_fma=...`` and its like set one column of ``add``, ``mul`` or ``fma``; operations that are not
        given are 0, all else is NaN. `SmlabError` for an unknown name, a wrong length or an impossible
        number.
        """
        names = np.empty(len(kernel), dtype=object)
        names[:] = list(kernel)
        count = len(names)
        arrays: dict[str, Any] = {name: np.full(count, np.nan) for name in _OTHERS}
        arrays |= {name: np.zeros((count, len(PRECISIONS))) for name in _OPERATIONS}
        arrays["tensor_flops"] = np.zeros(count)
        columns = {f"{p}_{o}": (o, i) for i, p in enumerate(PRECISIONS) for o in _OPERATIONS}
        for name, value in {"seconds": seconds, **given}.items():
            try:
                if name in columns:
                    operation, column = columns[name]
                    arrays[operation][:, column] = value
                elif name in arrays:
                    arrays[name][...] = value
                elif name not in ("launch", "flags", "row"):
                    raise SmlabError.at("KernelWork", "unknown quantity", name)
            except (ValueError, TypeError) as error:
                raise SmlabError.at(
                    f"KernelWork: {name}", f"does not fit {count} kernels: {error}"
                ) from error
        launch = np.asarray(given.get("launch", np.arange(count)), dtype=np.int64)
        flags = given.get("flags")
        work = cls(
            kernel=names,
            launch=launch,
            flags=object_array([()] * count if flags is None else flags),
            row=np.asarray(given.get("row", np.zeros(count)), dtype=np.int64),
            **arrays,
        )
        work.check()
        return work

    def __len__(self) -> int:
        return len(self.kernel)

    @property
    def level_bytes(self) -> Floats:
        """Bytes that traverse each of `LEVELS`, shape (kernels, 3)."""
        return np.stack([self.l1_bytes, self.l2_bytes, self.dram_bytes], axis=1)

    def with_values(self, **values: Any) -> KernelWork:
        """The same kernels with other numbers, checked again."""
        changed = replace(self, **values)
        changed.check()
        return changed

    def flagged(self, which: NDArray[np.bool_], note: str) -> KernelWork:
        """The same with ``note`` added to the flags of the kernels of a mask."""
        return replace(self, flags=add_flag(self.flags, which, note))

    def check(self) -> None:
        """`SmlabError` for the first number that cannot be: a time not above 0, anything negative or
        infinite."""
        for name in (*_OPERATIONS, *_OTHERS):
            values = getattr(self, name)
            wanted = (len(self), len(PRECISIONS)) if name in _OPERATIONS else (len(self),)
            if values.shape != wanted:
                raise SmlabError.at(f"KernelWork: {name}", "wrong shape", values.shape, str(wanted))
            wrong = np.isinf(values) | (values < 0)
            if name in _POSITIVE:
                wrong |= values == 0
            if name == "seconds":
                wrong |= np.isnan(values)
            if wrong.any():
                first = int(np.flatnonzero(wrong.reshape(len(self), -1).any(axis=1))[0])
                expected = "above 0" if name in _POSITIVE else "0 or more, and finite"
                shown = values[first][wrong[first]][0] if values.ndim > 1 else values[first]
                place = f"kernel {self.kernel[first]!r}, launch {self.launch[first]}: {name}"
                raise SmlabError.at(place, "an impossible number", float(shown), expected)


_POSITIVE: Final = ("seconds", "blocks", "threads_per_block", "cycles", "clock_hz", "dram_peak_bytes_per_s")


def object_array(items: Iterable[Any]) -> NDArray[np.object_]:
    """Items, tuples among them, as a flat array of objects."""
    items = list(items)
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        array[i] = item
    return array


def add_flag(flags: NDArray[np.object_], which: NDArray[np.bool_], note: str) -> NDArray[np.object_]:
    """``flags`` with ``note`` added where ``which`` holds and it is not there yet."""
    if not which.any():
        return flags
    flagged = flags.copy()
    for i in np.flatnonzero(which).tolist():
        if note not in flagged[i]:
            flagged[i] = (*flagged[i], note)
    return flagged
