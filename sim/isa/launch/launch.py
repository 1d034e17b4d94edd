"""A launch of a kernel image: grid, block, arguments, and the memory behind them, with bounds."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass.image import KernelImage, KernelParameter, reserved_shared_bytes
from smlab.hw_bench.sass.runtime import HEAP_AT, HEAP_HEADER_BYTES, PRINTS_AT
from smlab.sim.aligned_arrays import aligned
from smlab.sim.execution.address_slice import changes_maps, rows_to_clear
from smlab.sim.execution.early_execution import early_execution_flags
from smlab.sim.instruction_source import FIRST_RUN
from smlab.sim.isa import memory_layout
from smlab.sim.isa.decode.decode import decode
from smlab.sim.isa.decode.micro import MicroOperation
from smlab.sim.isa.decode.operands import OperandRows, Unknown
from smlab.sim.isa.launch.printf import MAX_PRINTS, PRINT_BUFFER_BYTES, printed
from smlab.sim.isa.launch.structure import Structure
from smlab.sim.isa.launch.tensor_map import MOST_ASKED_PIECES, TensorMap
from smlab.sim.isa.memory.constant_bank import ABSENT_WORDS, BANK_ZERO, WORKSPACE_BYTES, BankZero
from smlab.sim.isa.memory.global_memory import Allocation, GlobalMemory
from smlab.sim.isa.operation_codes import (
    BULK_COPY,
    LOAD,
    LOCAL_WINDOW,
    MEMORY_BARRIER,
    MMA_SCALED,
    SHARED_WINDOW,
    STORE,
    TENSOR_PRODUCT,
)

MAX_DIMENSION: Final = (2**31 - 1, 65535, 65535)
MAX_BLOCK: Final = (1024, 1024, 64)
DEFAULT_STACK: Final = 1024
MOST_CLUSTER_BLOCKS: Final = 16
ADDRESS_BYTES: Final = 8
PARAMETER_ALIGNMENT: Final = 64
MAX_LOCAL_BYTES: Final = 1 << 19
HEAP_BYTES: Final = 8 << 20
"""Of a kernel that calls ``malloc``, CUDA's own default; what it keeps there, later launches find."""

BULK_PIECE_BYTES: Final = 16
MOST_CHECKS: Final = 1 << 18

Dim = tuple[int, int, int]


@dataclass(frozen=True)
class ArrayView:
    """An array that is passed by its address, among other words of Numba's calling convention."""

    array: NDArray[Any]


@dataclass
class MachineLaunch:
    """A kernel image with everything that a launch gives it. Arrays are changed in place by the run.

    ``arguments`` are scalars, as numpy scalars or bytes of the parameter's own size, structures of them, and
    C-contiguous arrays, which are passed by address. ``constants`` are contents of ``__constant__`` variables
    by name.
    ``ordered`` keeps the order of plain accesses to one place by several SMs, too (a data race); that of
    atomics with a result and of strong loads is kept anyway, at some cost of time. ``sm_hz`` is the SM's
    clock, by which ``%globaltimer`` tells nanoseconds; lowering for a machine sets it, and
    ``network_cycles`` from an SM of a cluster to another, and ``cluster_barrier_cycles`` from the last
    arrival at a cluster's barrier. ``cluster_shape`` is for kernels that were compiled
    for clusters of any shape.
    ``most_checks``: after so many failed checks of barriers in shared memory, without a change of one, a
    block is stuck.
    """

    image: KernelImage
    grid: Dim
    block: Dim
    arguments: Sequence[Any] = ()
    names: Sequence[str] = ()
    dynamic_shared_bytes: int = 0
    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    check_shared: bool = True
    ordered: bool = False
    memory: GlobalMemory = field(default_factory=GlobalMemory)
    sm_hz: int = 1_000_000_000
    network_cycles: int = 0
    cluster_barrier_cycles: int = 0
    cluster_shape: Dim | None = None
    most_checks: int = MOST_CHECKS

    def __post_init__(self) -> None:
        _check_shape(self.where, self.grid, self.block)
        asked, compiled = self.cluster_shape, self.image.cluster
        if asked and compiled not in ((1, 1, 1), asked):
            shapes = ("x".join(map(str, shape)) for shape in (asked, compiled))
            raise SmlabError.at(f"{self.where}: cluster", "not what the kernel was compiled for", *shapes)
        for axis, (blocks, size) in enumerate(zip(self.grid, self.cluster, strict=True)):
            if size < 1 or blocks % size:
                what = f"{'xyz'[axis]} of the grid is no multiple of the cluster's {size}"
                raise SmlabError.at(f"{self.where}: grid", what, blocks, "whole clusters of blocks")
        if self.cluster_blocks > MOST_CLUSTER_BLOCKS:
            expected = f"at most {MOST_CLUSTER_BLOCKS}"
            raise SmlabError.at(f"{self.where}: cluster", "too many blocks", self.cluster_blocks, expected)
        self._globals = self._module_variables()
        self._prints = 0
        if "vprintf" in self.image.function.parts:
            room = np.zeros(PRINT_BUFFER_BYTES, dtype=np.uint8)
            self._prints = self.memory.allocate("the buffer of printf", room)
        self._heap = 0
        if "malloc" in self.image.function.parts:
            content = self.memory.variables("the heap", bytes(HEAP_HEADER_BYTES + HEAP_BYTES))
            self._heap = self.memory.allocate("the heap of malloc", content)
        self._workspace = 0
        if self.waits_for_itself:
            room = np.zeros(WORKSPACE_BYTES, dtype=np.uint8)
            self._workspace = self.memory.allocate("the workspace of a cooperative launch", room)
        self.parameter_bytes = self._parameters()
        self._constants = 0
        if self._takes_address_of_constants():
            three = np.frombuffer(bytearray(self._bank_three or b"\0"), dtype=np.uint8)
            self._constants = self.memory.allocate("the module's constants", three)

    def _module_variables(self) -> int:
        """Where the variables of the kernel's module lie in global memory; 0 without any."""
        image = self.image
        if not image.global_content:
            return 0
        module = (image.globals, image.global_content, image.global_addresses)
        content = self.memory.variables(module, image.global_content)
        address = self.memory.allocate("the module's variables", content)
        for offset, place in image.global_addresses:
            if content[offset : offset + 8].tobytes() == image.global_content[offset : offset + 8]:
                content[offset : offset + 8].view("<u8")[:] = address + place
        return address

    @property
    def printed(self) -> str:
        """What the kernel printed with ``printf`` so far."""
        return printed(self.memory, self._prints) if self._prints else ""

    @property
    def where(self) -> str:
        return self.image.function.name

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps_per_block(self) -> int:
        return -(-self.threads // 32)

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def cluster(self) -> Dim:
        """Blocks of a cluster in each direction of the grid: as the kernel was compiled for, else as the
        launch asks for."""
        compiled = self.image.cluster
        return self.cluster_shape if self.cluster_shape and compiled == (1, 1, 1) else compiled

    @property
    def cluster_blocks(self) -> int:
        return math.prod(self.cluster)

    @cached_property
    def launch_order(self) -> NDArray[np.int64] | None:
        """The grid's blocks in the order in which they are launched, those of a cluster one after the other,
        by their rank; None: in the order of their index."""
        if self.cluster_blocks == 1:
            return None
        (gx, gy, gz), (cx, cy, cz) = self.grid, self.cluster
        index = np.arange(self.blocks, dtype=np.int64).reshape(gz // cz, cz, gy // cy, cy, gx // cx, cx)
        return np.ascontiguousarray(index.transpose(0, 2, 4, 1, 3, 5).reshape(-1))

    @cached_property
    def uses_tensor_memory(self) -> bool:
        return any(i.opcode == "UTCATOMSWS" for i in self.image.function.instructions)

    @cached_property
    def system_shared_bytes(self) -> int:
        """What code reaches of the system's shared memory, from address 0 on: what allocates tensor memory
        notes there what a block has."""
        return reserved_shared_bytes(self.image.architecture) if self.uses_tensor_memory else 0

    @cached_property
    def shared_first(self) -> int:
        """The first shared address that a kernel reaches; its own ones begin behind the system's."""
        return 0 if self.uses_tensor_memory else reserved_shared_bytes(self.image.architecture)

    @property
    def shared_bytes(self) -> int:
        return self.image.shared_bytes + self.dynamic_shared_bytes

    @property
    def shared_room(self) -> int:
        """Bytes of shared memory that the addresses from `shared_first` on reach."""
        return self.system_shared_bytes + self.shared_bytes

    @property
    def local_bytes(self) -> int:
        """A thread's local memory. What calls itself has no stack that the compiler could tell, so a kernel
        with calls that may reach a stack has the driver's default at least. (The slow path of a division is
        called, and has no stack.)"""
        needed = max(self.image.local_bytes, DEFAULT_STACK if self._calls else 0)
        return min(-(-needed // 16) * 16, MAX_LOCAL_BYTES)

    @cached_property
    def _calls(self) -> bool:
        opcodes = {i.opcode for i in self.image.function.instructions}
        return "CALL" in opcodes and not opcodes.isdisjoint({"LDL", "STL", "LD", "ST", "ATOM"})

    @property
    def allocations(self) -> list[Allocation]:
        return self.memory.allocations

    def allocate_array(self, name: str, array: NDArray[Any]) -> int:
        """The same for an array of any type; the run changes the array itself."""
        if not (array.flags.c_contiguous or array.flags.f_contiguous):
            raise SmlabError.at(
                f"{self.where}: {name}", "is not contiguous in memory", array.strides, "a contiguous array"
            )
        flat = array if array.flags.c_contiguous else array.T
        if not array.flags.writeable:
            raise SmlabError.at(f"{self.where}: {name}", "cannot be written to", None, "a writable array")
        return self.memory.allocate(name, flat.reshape(-1).view(np.uint8))

    def _parameters(self) -> bytes:
        arrays: dict[str, tuple[NDArray[Any], int]] = {}
        fields = chain(*(a.fields.values() for a in self.arguments if isinstance(a, Structure)))
        inside = [value.array if isinstance(value, TensorMap) else value for value in fields]
        given: list[tuple[str, Any]] = []
        for n, argument in enumerate(self.arguments):
            name = self.names[n] if n < len(self.names) else f"argument {n + 1}"
            if isinstance(argument, ArrayView):
                argument = argument.array
            if isinstance(argument, np.ndarray):
                arrays[name] = argument, self.allocate_array(name, argument)
                if any(argument is array for array in inside):
                    continue
            given.append((name, argument))
        parameters = self.image.parameters
        if parameters is None:
            sizes = [self._value(name, argument, arrays, ADDRESS_BYTES) for name, argument in given]
            parameters = _natural([len(value) for value in sizes])
        if len(given) != len(parameters):
            raise SmlabError.at(self.where, "wrong number of arguments", len(given), f"{len(parameters)}")
        size = max((p.offset + p.size for p in parameters), default=0)
        content = bytearray(size)
        for (name, argument), parameter in zip(given, parameters, strict=True):
            value = self._value(name, argument, arrays, parameter.size)
            if len(value) != parameter.size:
                raise SmlabError.at(
                    f"{self.where}: {name}",
                    "has the wrong size",
                    f"{len(value)} bytes",
                    f"{parameter.size} bytes",
                )
            content[parameter.offset : parameter.offset + parameter.size] = value
        return bytes(content)

    def _value(
        self, name: str, argument: Any, arrays: dict[str, tuple[NDArray[Any], int]], room: int
    ) -> bytes:
        """An argument's bytes, for a parameter or a place of ``room`` bytes."""
        if isinstance(argument, np.ndarray):
            address = next((at for array, at in arrays.values() if array is argument), None)
            if address is None:
                address = self.allocate_array(name, argument)
                arrays[name] = argument, address
            return struct.pack("<Q", address)
        if isinstance(argument, TensorMap):
            return self._tensor_map(argument, arrays, room == ADDRESS_BYTES)
        if isinstance(argument, Structure):
            content = bytearray(argument.content)
            for at, value in argument.fields.items():
                inner = f"{name}, byte {at}"
                part = self._value(inner, value, arrays, len(content))
                if at < 0 or at + len(part) > len(content):
                    raise SmlabError.at(
                        f"{self.where}: {inner}",
                        "ends behind the structure",
                        f"{len(part)} bytes",
                        f"a structure of {len(content)} bytes",
                    )
                content[at : at + len(part)] = part
            return bytes(content)
        if isinstance(argument, bytes):
            return argument
        if isinstance(argument, np.generic):
            return argument.tobytes()
        raise SmlabError.at(
            f"{self.where}: {name}", "has no type", argument, "a numpy scalar, an array, bytes or a structure"
        )

    def _tensor_map(
        self, described: TensorMap, arrays: dict[str, tuple[NDArray[Any], int]], by_address: bool
    ) -> bytes:
        """A tensor map as a parameter: its bytes, or where they lie."""
        if isinstance(described.array, str):
            if described.array not in arrays:
                known = ", ".join(arrays) or "there are none"
                raise SmlabError.at(f"{self.where}: tensor map", "of no array", described.array, known)
            array, address = arrays[described.array]
        else:
            array = described.array
            (address,) = struct.unpack("<Q", self._value("the array of a tensor map", array, arrays, 8))
        content = described.content(address, described.type_of(array))
        if not by_address:
            return content
        place = np.frombuffer(bytearray(content), dtype=np.uint8)
        return struct.pack("<Q", self.memory.allocate("a tensor map", place))

    @cached_property
    def _bank_zero(self) -> BankZero:
        return next(found for first, found in BANK_ZERO if self.image.architecture >= first)

    @cached_property
    def _bank_three(self) -> bytes:
        """The module's ``__constant__`` variables."""
        three = bytearray(self.image.banks.get(3, b""))
        for name, value in self.constants.items():
            variable = next((v for v in self.image.symbols if v.name == name), None)
            if variable is None:
                known = ", ".join(v.name for v in self.image.symbols) or "there are none"
                raise SmlabError.at(self.where, "no such __constant__ variable", name, known)
            content = np.ascontiguousarray(value).tobytes()
            if len(content) > variable.size:
                raise SmlabError.at(
                    f"{self.where}: {name}",
                    "is too large",
                    f"{len(content)} bytes",
                    f"{variable.size} bytes",
                )
            three[variable.offset : variable.offset + len(content)] = content
        return bytes(three)

    def _takes_address_of_constants(self) -> bool:
        return self._reads(self._bank_zero.constants)

    def _reads(self, at: int) -> bool:
        """Whether the code reads an address from bank 0."""
        words = tuple(f"{before}{place:#x}]" for before in ("c[0x0][", "+") for place in (at, at + 4))
        operands = (o.text for i in self.image.function.instructions for o in i.operands)
        return any(text.endswith(words) and "c[0x0][" in text for text in operands)

    @cached_property
    def waits_for_itself(self) -> bool:
        """Whether the blocks of the grid wait for each other (``grid.sync()``): then all must be resident."""
        return self._reads(self._bank_zero.workspace)

    @cached_property
    def banks(self) -> dict[int, bytes]:
        """The constant banks as the kernel sees them."""
        banks = dict(self.image.banks)
        at = self.image.parameters_at
        places = self._bank_zero
        zero = bytearray(max(at + len(self.parameter_bytes), places.stack, PRINTS_AT + 16) + 8)
        struct.pack_into("<3I", zero, places.block, *self.block)
        struct.pack_into("<3I", zero, places.grid, *self.grid)
        struct.pack_into("<I", zero, places.local_window, LOCAL_WINDOW)
        if places.shared_window is not None:
            struct.pack_into("<I", zero, places.shared_window, SHARED_WINDOW)
        struct.pack_into("<I", zero, places.stack, self.local_bytes)
        struct.pack_into("<I", zero, places.dynamic_shared, self.dynamic_shared_bytes)
        if self._workspace:
            words = self._workspace >> 32, self._workspace & 0xFFFFFFFF
            struct.pack_into("<2I", zero, places.workspace, *words)
        if self._prints:
            stack = (LOCAL_WINDOW, self.local_bytes)
            struct.pack_into("<Q3I", zero, PRINTS_AT, self._prints, MAX_PRINTS, *stack)
        if self._heap:
            struct.pack_into("<QI", zero, HEAP_AT, self._heap, HEAP_BYTES)
        if self._constants:
            struct.pack_into("<Q", zero, places.constants, self._constants)
        if places.explicit_cluster is not None:
            grid = tuple(g // c for g, c in zip(self.grid, self.cluster, strict=True))
            inverse = tuple(_least_inverse(c) for c in self.cluster)
            explicit = int(self.cluster_blocks > 1)
            struct.pack_into("<I", zero, places.explicit_cluster, explicit)
            struct.pack_into("<3I", zero, places.cluster, *self.cluster)
            struct.pack_into("<3f", zero, places.cluster_inverse, *inverse)
            struct.pack_into("<3I", zero, places.cluster_grid, *grid)
            struct.pack_into("<I", zero, places.cluster_blocks, self.cluster_blocks)
        zero[at : at + len(self.parameter_bytes)] = self.parameter_bytes
        if places.parameters is not None and self._reads(places.parameters):
            # Parameters that code takes the address of (``__grid_constant__``) keep their alignment.
            before = at % PARAMETER_ALIGNMENT
            content = bytearray(before) + zero[at:]
            address = self.memory.allocate("the kernel's parameters", np.frombuffer(content, dtype=np.uint8))
            struct.pack_into("<Q", zero, places.parameters, address + before)
        banks[0] = bytes(zero)
        if 3 in banks or self.constants:
            banks[3] = self._bank_three
        if self.image.addresses:
            four = bytearray(banks.get(4, b""))
            for offset, place in self.image.addresses:
                if offset + 8 <= len(four):
                    struct.pack_into("<Q", four, offset, self._globals + place)
            banks[4] = bytes(four)
        return banks

    def constant(self, bank: int, offset: int) -> int:
        """A word of a constant bank; beyond a bank's end there are zeros, as far as an instruction can
        reach.

        Raises:
            Unknown: a word that the driver fills and a launch here does not have.
        """
        if bank == 0 and offset in self._absent:
            raise Unknown(self._absent[offset])
        content = self.banks.get(bank, b"")
        if offset + 4 > len(content):
            return 0
        return int(struct.unpack_from("<I", content, offset)[0])

    @cached_property
    def _absent(self) -> Mapping[int, str]:
        return next(words for first, words in ABSENT_WORDS if self.image.architecture >= first)

    @cached_property
    def rows(self) -> OperandRows:
        return OperandRows(self.constant, {v.name: self._globals + v.offset for v in self.image.globals})

    @cached_property
    def code(self) -> tuple[MicroOperation, ...]:
        """The kernel's micro-operations; constants are already in them."""
        return decode(self.image.function, self.rows)

    @cached_property
    def uses_tensor_cores(self) -> bool:
        return any(micro.cls == "tensor" for micro in self.code)

    @cached_property
    def code_words(self) -> NDArray[np.int64]:
        """The words of the micro-operations (operations, words), before anything has its place."""
        return np.array([micro.words() for micro in self.code], dtype=np.int64)

    @cached_property
    def rows_to_clear(self) -> tuple[int, ...] | None:
        """The rows of a warp that must be zeros when it starts (`smlab.sim.execution.address_slice`); None:
        all, which few warps have done sooner than it is told which."""
        pays = self.blocks * self.warps_per_block > WARPS_AN_INSTRUCTION * len(self.code)
        return rows_to_clear(self.code) if pays else None

    @cached_property
    def early_execution_flags(self) -> NDArray[np.int64]:
        return early_execution_flags(self.code)

    @cached_property
    def changes_maps(self) -> bool:
        """Whether the kernel makes or changes tensor maps."""
        return changes_maps(self.code)

    @cached_property
    def most_bulk_sectors(self) -> int:
        """What a bulk copy may ask of global memory at most, in sectors of 32 bytes: a box, or all of shared
        memory, or what L2 may be asked for at once."""
        structures = [a.fields.values() for a in self.arguments if isinstance(a, Structure)]
        maps = [a for a in chain(self.arguments, *structures) if isinstance(a, TensorMap)]
        bulk = [micro for micro in self.code if micro.code == BULK_COPY]
        unknown = [
            micro for micro in bulk if not maps or self.changes_maps or micro.fields["dimensions"] == 0
        ]
        if any(micro.fields.get("to_l2") for micro in unknown):
            return 2 * MOST_ASKED_PIECES + 2
        if unknown:
            return 2 * self.shared_bytes // BULK_PIECE_BYTES + 2
        sizes = []
        for m in maps:
            each = m.element_bytes or (m.array.itemsize if isinstance(m.array, np.ndarray) else ADDRESS_BYTES)
            sizes.append(math.prod(m.box[1:]) * (m.box[0] * each // 32 + 2))
        return max(sizes)

    def place(self, address: int) -> str:
        """An address in words, for messages: what it lies in or behind."""
        nearest = None
        for allocation in self.allocations:
            if allocation.address <= address < allocation.end:
                return f"byte {address - allocation.address} of {allocation.name}"
            if allocation.address <= address:
                nearest = allocation
        if nearest is None or address - nearest.end > 1 << 32:
            return "in no allocation"
        over = address - nearest.end
        bytes_ = "byte" if over == 0 else "bytes"
        return f"{over + 1} {bytes_} behind the end of {nearest.name} ({len(nearest.content)} bytes)"


def _check_shape(where: str, grid: Dim, block: Dim) -> None:
    for what, shape, limits in (("grid", grid, MAX_DIMENSION), ("block", block, MAX_BLOCK)):
        for axis, (size, limit) in enumerate(zip(shape, limits, strict=True)):
            if not 1 <= size <= limit:
                raise SmlabError.at(
                    f"{where}: {what}", f"{'xyz'[axis]} is out of range", size, f"1 to {limit}"
                )
    threads = block[0] * block[1] * block[2]
    if threads > 1024:
        raise SmlabError.at(f"{where}: block", "too many threads", threads, "at most 1024")


def _least_inverse(count: int) -> float:
    """The least single that is no less than 1 / ``count``, so that truncated products are whole quotients."""
    found = np.float32(1 / count)
    return float(found if found * count >= 1 else np.nextafter(found, np.float32(2)))


def _natural(sizes: list[int]) -> tuple[KernelParameter, ...]:
    """Parameters one after the other, each aligned to its size, as C lays them out."""
    at, placed = 0, []
    for size in sizes:
        align = min(8, size) if size in (1, 2, 4, 8) else 8
        at = -(-at // align) * align
        placed.append(KernelParameter(at, size))
        at += size
    return tuple(placed)


WARPS_AN_INSTRUCTION: Final = 20
"""All rows of so many warps are cleared while one instruction is asked what it reads: some 10 us."""
_FIRST_UNIFORM: Final = memory_layout.uniform_at(0)
_OF_MEMORY: Final = "scale_choice"
"""The word that has the register of a product's scales in tensor memory, too."""
_FIRST_REGISTER: Final = memory_layout.register_at(0)


def _close_up(ops: NDArray[np.int64]) -> int:
    """Let registers follow the uniform registers that micro-operations can reach, those behind one named
    among them; the bytes by which they have moved. A warp's words then fill as few pages as they can."""
    codes, places, last = ops[:, memory_layout.PLACE["code"]], [], 0
    for name in ("dst", "a", "b", "c", "swap_value", "first_scales", "second_scales", "scale_choice"):
        at = ops[:, memory_layout.PLACE[name]]
        rows = at if name == "dst" else np.where(ops[:, memory_layout.PLACE[f"{name}_reg"]] == -1, at, 0)
        if "scale" in name:  # words that other kinds have for something else
            rows = np.where((codes == MMA_SCALED) | ((codes == TENSOR_PRODUCT) & (name == _OF_MEMORY)), at, 0)
        uniform = rows[(rows >= _FIRST_UNIFORM) & (rows < _FIRST_REGISTER)]
        last = max(last, int(uniform.max(initial=0)))
        places.append((at, rows >= _FIRST_REGISTER))
    seconds = np.isin(codes, (LOAD, STORE))
    at = ops[:, memory_layout.PLACE["second_dst"]]  # or that of what is stored
    places.append((at, seconds & (at >= _FIRST_REGISTER)))
    used = (last - _FIRST_UNIFORM) // memory_layout.ROW_BYTES + 4 if last else 0
    used = min(memory_layout.UNIFORM_ROWS, used)
    moved = (memory_layout.UNIFORM_ROWS - used) * memory_layout.ROW_BYTES
    for at, registers in places:
        at[registers] -= moved
    return moved


def _cleared(rows: tuple[int, ...] | None, moved: int, warp_bytes: int) -> NDArray[np.int64]:
    """Ranges of a warp's words, (ranges, 2) offsets and bytes, that hold zeros when it starts: what comes
    before all rows, and ``rows``, or all."""
    first, size = memory_layout.barrier_at(0), memory_layout.ROW_BYTES
    if rows is None:
        return np.array([(0, warp_bytes)], dtype=np.int64)
    at = np.array(rows, dtype=np.int64)
    at = at[(at < _FIRST_REGISTER - moved) | (at >= _FIRST_REGISTER)]
    at[at >= _FIRST_REGISTER] -= moved
    at = at[at < warp_bytes]
    begins = at[np.diff(at, prepend=-1) != size]
    ends = at[np.diff(at, append=1 << 40) != size] + size
    return np.concatenate([[(0, first)], np.column_stack([begins, ends - begins])])


class MachineMemory:
    """A launch as it lies in memory, for machine code: micro-operations, rows of constants, tables, and
    room for blocks.

    ``resident`` blocks have their warps' words, shared and local memory at the same time. Each of ``sms`` has
    a tensor memory, where the kernel uses it; without SMs each resident block has one.
    """

    def __init__(
        self, launch: MachineLaunch, resident: int, warp_slots: int | None = None, sms: int | None = None
    ) -> None:
        self.launch = launch
        self.resident = resident
        code = launch.code
        self.length = len(code)
        words = np.array(launch.rows.words or [0], dtype=np.uint32)
        self.constant_rows = aligned(32 * len(words), np.uint32)
        self.constant_rows[:] = np.repeat(words, 32)
        ops = aligned(len(code) * memory_layout.WORDS, np.int64).reshape(len(code), memory_layout.WORDS)
        ops[:] = launch.code_words
        ops[:, memory_layout.PLACE["early_execution"]] = launch.early_execution_flags
        for name in "abc":
            place, register = memory_layout.PLACE[name], memory_layout.PLACE[f"{name}_reg"]
            fixed = (ops[:, register] == 0) & (ops[:, memory_layout.PLACE[f"{name}_and"]] != 0)
            # A source that an operation does not have is a row of zeros: whatever reads it reads inside the
            # warp.
            absent = (ops[:, register] == 0) & ~fixed
            ops[absent, place], ops[absent, register] = memory_layout.zero_at(), -1
            ops[fixed, place] = self.constant_rows.ctypes.data + memory_layout.ROW_BYTES * ops[fixed, place]
        self._fix_swaps(ops)
        self.ops = ops
        moved = _close_up(ops)
        registers = max(launch.image.registers, launch.image.registers_named)
        self.warp_bytes = memory_layout.warp_bytes(registers) - moved
        self.cleared = _cleared(launch.rows_to_clear, moved, self.warp_bytes)
        warps = launch.warps_per_block
        # A row or two of words more, so that no vector ends behind the array.
        self.warps = aligned((warp_slots or resident * warps) * self.warp_bytes // 8 + 64, np.int64)
        shared = launch.shared_room
        self.shared_stride = -(-max(shared, 8) // 64) * 64 + 64
        self.shared = aligned(resident * self.shared_stride, np.uint8)
        self.known = aligned(resident * self.shared_stride if launch.check_shared else 64, np.uint8)
        self.local = np.zeros(max(8, resident * warps * 32 * launch.local_bytes), dtype=np.uint8)
        self.blocks = aligned(resident * memory_layout.BLOCK_WORDS, np.int64)
        self.allocations = np.array(
            [(a.address, a.end, a.content.ctypes.data) for a in launch.allocations] or [(0, 0, 0)],
            dtype=np.int64,
        )
        self.banks = {n: np.frombuffer(content, dtype=np.uint8) for n, content in launch.banks.items()}
        table = [
            (int(self.banks[n].ctypes.data), len(self.banks[n])) if n in self.banks else (0, 0)
            for n in range(8)
        ]
        self.bank_table = np.array(table, dtype=np.int64)
        words = aligned(memory_layout.LAUNCH_WORDS, np.int64)
        words[memory_layout.GRID_X : memory_layout.GRID_X + 3] = launch.grid
        words[memory_layout.DIM_X : memory_layout.DIM_X + 3] = launch.block
        words[memory_layout.SHARED_BYTES], words[memory_layout.SHARED_FIRST] = shared, launch.shared_first
        words[memory_layout.LOCAL_BYTES] = launch.local_bytes
        words[memory_layout.ALLOCATIONS] = len(launch.allocations)
        words[memory_layout.ALLOCATION_TABLE] = self.allocations.ctypes.data
        words[memory_layout.BANK_TABLE] = self.bank_table.ctypes.data
        words[memory_layout.REGISTER_FILE_BYTES] = self.warp_bytes
        words[memory_layout.CHECK_SHARED] = launch.check_shared
        words[memory_layout.OPS], words[memory_layout.LENGTH] = ops.ctypes.data, len(ops)
        words[memory_layout.BLOCKS_AT] = self.blocks.ctypes.data
        words[memory_layout.KNOWN_BYTES] = self.shared_stride * launch.check_shared
        words[memory_layout.CLEARED], words[memory_layout.CLEARED_RANGES] = (
            self.cleared.ctypes.data,
            len(self.cleared),
        )
        self.executed = aligned(len(ops), np.int64)
        self.lanes = aligned(len(ops), np.int64)
        words[memory_layout.EXECUTED], words[memory_layout.EXECUTED_LANES] = (
            self.executed.ctypes.data,
            self.lanes.ctypes.data,
        )
        self.unwritten = aligned(len(ops) * memory_layout.UNWRITTEN_WORDS, np.int64).reshape(len(ops), -1)
        words[memory_layout.UNWRITTEN] = self.unwritten.ctypes.data
        self.products = aligned(len(ops) * memory_layout.PRODUCT_WORDS, np.int64).reshape(len(ops), -1)
        words[memory_layout.MEMORY_PRODUCTS] = self.products.ctypes.data
        self.scratch = aligned(
            memory_layout.SCRATCH_WORDS + memory_layout.TENSOR_SCRATCH_WORDS * launch.uses_tensor_memory,
            np.int64,
        )
        words[memory_layout.SCRATCH] = self.scratch.ctypes.data
        words[memory_layout.THREADS], words[memory_layout.WARPS] = launch.threads, warps
        words[memory_layout.SM_HZ] = launch.sm_hz
        copies = any(micro.code == BULK_COPY for micro in code)
        asks = any(micro.fields.get("to_l2") for micro in code)
        pieces = max((shared // BULK_PIECE_BYTES + 1) * copies, MOST_ASKED_PIECES * asks)
        self.bulk_request = aligned(FIRST_RUN + 2 * pieces, np.int64)
        words[memory_layout.BULK_REQUEST] = self.bulk_request.ctypes.data
        words[memory_layout.MOST_CHECKS] = launch.most_checks
        words[memory_layout.CLUSTER_BLOCKS] = launch.cluster_blocks
        words[memory_layout.NETWORK_CYCLES] = launch.network_cycles
        words[memory_layout.CLUSTER_BARRIER_CYCLES] = launch.cluster_barrier_cycles
        if (order := launch.launch_order) is not None:
            words[memory_layout.BLOCK_MAP] = order.ctypes.data
            self.rooms = np.zeros(launch.blocks, dtype=np.int64)
            words[memory_layout.BLOCK_ROOMS] = self.rooms.ctypes.data
        words[memory_layout.KNOWN_FIRST] = launch.system_shared_bytes // 4 * launch.check_shared
        if launch.uses_tensor_memory:
            self.tensor_memory = aligned((sms or resident) * memory_layout.TENSOR_BYTES, np.uint8)
            words[memory_layout.TENSOR_MEMORY] = self.tensor_memory.ctypes.data
        self.words = words
        self.contexts: list[ThreadContext] = []
        rows, numbers = self.blocks.reshape(resident, -1), np.arange(resident)
        for place, first, stride in (
            (memory_layout.SHARED, self.shared, self.shared_stride),
            (memory_layout.SHARED_KNOWN, self.known, self.shared_stride),
            (memory_layout.LOCAL, self.local, warps * 32 * launch.local_bytes),
        ):
            rows[:, place] = first.ctypes.data + numbers * stride

    def another_context(self, marks: int) -> int:
        """The address of the words that another thread executes this launch with: what it counts, its scratch
        and its ``marks`` are its own."""
        context = ThreadContext(self)
        context.words[memory_layout.MARKS] = marks
        self.contexts.append(context)
        return int(context.words.ctypes.data)

    def add_contexts(self) -> None:
        """Add what the other threads have counted."""
        for context in self.contexts:
            self.executed += context.executed
            self.lanes += context.lanes
            add_unwritten(self.unwritten, context.unwritten)
            self.products[:, 0] += context.products[:, 0]
            self.products[:, 1] = np.maximum(self.products[:, 1], context.products[:, 1])
        self.contexts.clear()

    def time_copies(self) -> None:
        """An engine says when bulk copies are done."""
        self.words[memory_layout.COPIES_TIMED] = 1
        if not any(micro.code in (BULK_COPY, MEMORY_BARRIER) for micro in self.launch.code):
            return
        size = self.resident * memory_layout.MAX_COPIES * memory_layout.COPY_WORDS
        self.copies = np.zeros(size, dtype=np.int64)
        self.words[memory_layout.COPY_TABLE] = self.copies.ctypes.data

    def _fix_swaps(self, ops: NDArray[np.int64]) -> None:
        """The second value of a compare-and-swap, and what is added to a copy's address, where that is a
        constant."""
        from smlab.sim.isa.operation_codes import ATOMIC, COPY, SPIN, SWAP

        swaps = (ops[:, memory_layout.PLACE["code"]] == ATOMIC) & np.isin(
            ops[:, memory_layout.PLACE["operation"]], (SWAP, SPIN)
        )
        copies = ops[:, memory_layout.PLACE["code"]] == COPY
        fixed = (swaps | copies) & (ops[:, memory_layout.PLACE["swap_value_reg"]] == 0)
        place = memory_layout.PLACE["swap_value"]
        ops[fixed, place] = self.constant_rows.ctypes.data + memory_layout.ROW_BYTES * ops[fixed, place]

    def warp_address(self, block: int, warp: int) -> int:
        return int(self.warps.ctypes.data) + (block * self.launch.warps_per_block + warp) * self.warp_bytes

    def block_address(self, block: int) -> int:
        return int(self.blocks.ctypes.data) + 8 * memory_layout.BLOCK_WORDS * block


class ThreadContext:
    """A launch's words for one thread more."""

    def __init__(self, memory: MachineMemory) -> None:
        self.executed, self.lanes = aligned(memory.length, np.int64), aligned(memory.length, np.int64)
        self.unwritten = aligned(memory.unwritten.size, np.int64).reshape(memory.unwritten.shape)
        self.products = aligned(memory.products.size, np.int64).reshape(memory.products.shape)
        self.scratch = aligned(len(memory.scratch), np.int64)
        self.bulk_request = aligned(len(memory.bulk_request), np.int64)
        self.words = aligned(len(memory.words), np.int64)
        self.words[:] = memory.words
        for place, own in (
            (memory_layout.EXECUTED, self.executed),
            (memory_layout.EXECUTED_LANES, self.lanes),
            (memory_layout.UNWRITTEN, self.unwritten),
            (memory_layout.MEMORY_PRODUCTS, self.products),
            (memory_layout.SCRATCH, self.scratch),
            (memory_layout.BULK_REQUEST, self.bulk_request),
        ):
            self.words[place] = own.ctypes.data


def add_unwritten(to: NDArray[np.int64], other: NDArray[np.int64]) -> None:
    """Add what was read of shared memory that nobody had written, of each instruction the number and the
    first by block, thread and address."""
    for row, found in zip(to, other, strict=True):
        if found[0] and (row[0] == 0 or found[1:].tolist() < row[1:].tolist()):
            row[1:] = found[1:]
        row[0] += found[0]
