"""Control codes: what the assembler tells the scheduler with each instruction. No tool prints them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_FIRST_BIT: Final = 41
NO_BARRIER: Final = 7
"""The barrier field's value for an instruction that sets none."""


@dataclass(frozen=True)
class ControlCode:
    """The scheduling fields of one instruction, Volta (``sm_70``) to Hopper (``sm_90``).

    ``stall_cycles`` is how long the scheduler waits before the warp's next instruction; ``yields`` hints that
    it may take another warp meanwhile. An instruction of variable latency frees ``write_barrier`` (0 to 5)
    when its result is there and ``read_barrier`` when its operands are read; ``wait_mask`` says which of the
    six barriers must be free before this instruction issues, one bit each. ``reuse`` has a bit for each
    source operand that stays in the operand cache.
    """

    stall_cycles: int
    yields: bool
    write_barrier: int | None
    read_barrier: int | None
    wait_mask: int
    reuse: int

    @classmethod
    def decode(cls, second_word: int) -> ControlCode:
        """Read the fields from the second 64-bit word of an instruction."""
        code = second_word >> _FIRST_BIT

        def barrier(field: int) -> int | None:
            return None if field == NO_BARRIER else field

        return cls(
            stall_cycles=code & 0xF,
            yields=not code >> 4 & 1,
            write_barrier=barrier(code >> 5 & 7),
            read_barrier=barrier(code >> 8 & 7),
            wait_mask=code >> 11 & 0x3F,
            reuse=code >> 17 & 0xF,
        )

    def waits_for(self, barrier: int) -> bool:
        """Whether the instruction issues only when this barrier (0 to 5) is free."""
        return bool(self.wait_mask >> barrier & 1)

    def __str__(self) -> str:
        """The usual short form: wait mask, read barrier, write barrier, yield, stall."""
        waits = "".join(str(i) if self.waits_for(i) else "-" for i in range(6))
        read = "-" if self.read_barrier is None else str(self.read_barrier)
        write = "-" if self.write_barrier is None else str(self.write_barrier)
        return f"{waits}:{read}:{write}:{'Y' if self.yields else '-'}:{self.stall_cycles}"
