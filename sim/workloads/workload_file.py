"""Workloads written in TOML.

name = "two-phase"

[kernel]
warps_per_block = 8
blocks = 2
shared_bytes_per_block = 4096

[[program]]
warps = "all"                       # or a list of places in the block, such as [0, 1, 2]
body = [
    { loop = 100, body = [
        { op = "global-load", name = "x", address = { pattern = "affine", iteration_stride_bytes = 1024 } },
        { op = "int32", after = ["x"] },
        { op = "atomic-add", address = { pattern = "random", words = 256 } },
    ] },
    { op = "barrier" },
]
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from smlab.hw_bench.errors import SmlabError, nearest
from smlab.hw_bench.inputs import load_toml
from smlab.sim.address_patterns import (
    Affine,
    GlobalPattern,
    Grouped,
    Listed,
    RandomBytes,
    RandomWords,
    RecordedBytes,
    RecordedWords,
    SharedPattern,
    Strided,
)
from smlab.sim.instructions import CLASSES, Unit
from smlab.sim.workloads.workload import (
    CONSECUTIVE_BYTES,
    CONSECUTIVE_WORDS,
    NO_WARP,
    Duration,
    Instruction,
    Kernel,
    Loop,
    Program,
)

_Model = TypeVar("_Model", bound=BaseModel)


class _StrictTable(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Stride(_StrictTable):
    pattern: Literal["stride"]
    stride_words: int = 1
    base_word: int = 0

    def build(self) -> SharedPattern:
        return Strided(self.stride_words, self.base_word)


class _Broadcast(_StrictTable):
    pattern: Literal["broadcast"]
    base_word: int = 0

    def build(self) -> SharedPattern:
        return Strided(0, self.base_word)


class _Groups(_StrictTable):
    pattern: Literal["grouped"]
    same_word: int
    same_bank: int = 1

    def build(self) -> SharedPattern:
        return Grouped(self.same_word, self.same_bank)


class _Listed(_StrictTable):
    pattern: Literal["listed"]
    words: list[int]

    def build(self) -> SharedPattern:
        return Listed(tuple(self.words))


class _Random(_StrictTable):
    pattern: Literal["random"]
    words: Annotated[int, Field(ge=1)]

    def build(self) -> SharedPattern:
        return RandomWords(self.words)


def _table(given: list[list[list[int]]]) -> NDArray[np.int64]:
    """Real addresses as they stand in the file: for each warp of the grid, each execution, each lane."""
    lengths = {len(warp) for warp in given}, {len(row) for warp in given for row in warp}
    if any(len(found) != 1 for found in lengths):
        expected = "for each warp of the grid the same number of executions, for each of those one a lane"
        raise SmlabError.at("address", "recorded addresses that are no table", expected=expected)
    return np.array(given, dtype=np.int64)


class _RecordedWords(_StrictTable):
    pattern: Literal["recorded"]
    words: list[list[list[Annotated[int, Field(ge=0, le=2**48)]]]]

    def build(self) -> SharedPattern:
        return RecordedWords(_table(self.words))


class _RecordedBytes(_StrictTable):
    pattern: Literal["recorded"]
    bytes: list[list[list[Annotated[int, Field(ge=0, le=2**48)]]]]

    def build(self) -> GlobalPattern:
        return RecordedBytes(_table(self.bytes))


class _Affine(_StrictTable):
    pattern: Literal["affine"]
    lane_stride_bytes: int = 4
    warp_stride_bytes: int = 128
    iteration_stride_bytes: int = 0
    base_bytes: Annotated[int, Field(ge=0)] = 0

    def build(self) -> GlobalPattern:
        return Affine(
            self.lane_stride_bytes, self.warp_stride_bytes, self.iteration_stride_bytes, self.base_bytes
        )


class _RandomBytes(_StrictTable):
    pattern: Literal["random-bytes"]
    buffer_bytes: Annotated[int, Field(ge=4)]
    base_bytes: Annotated[int, Field(ge=0)] = 0

    def build(self) -> GlobalPattern:
        return RandomBytes(self.buffer_bytes, self.base_bytes)


_SharedAddress = Annotated[
    _Stride | _Broadcast | _Groups | _Listed | _Random | _RecordedWords, Field(discriminator="pattern")
]
_GlobalAddress = Annotated[_Affine | _RandomBytes | _RecordedBytes, Field(discriminator="pattern")]


class _Instruction(_StrictTable):
    op: str
    name: str = ""
    after: list[str] = []
    lanes: int = 32
    address: dict[str, Any] | None = None
    returns: bool = True
    width: int = 32
    uniform: bool = False
    after_read: list[str] = []
    cycles: float | None = None
    distribution: Literal["fixed", "exponential"] = "fixed"


class _Loop(_StrictTable):
    loop: int | float
    body: list[dict[str, Any]]


class _SharedHolder(_StrictTable):
    address: _SharedAddress


class _GlobalHolder(_StrictTable):
    address: _GlobalAddress


class _Program(_StrictTable):
    warps: Literal["all"] | list[int] = "all"
    body: list[dict[str, Any]]


class _Kernel(_StrictTable):
    warps_per_block: Annotated[int, Field(ge=1, le=1024)]
    blocks: Annotated[int, Field(ge=1)] = 1
    shared_bytes_per_block: Annotated[int, Field(ge=0)] = 0
    registers_per_thread: Annotated[int, Field(ge=1)] = 32
    sms: Annotated[int, Field(ge=1)] = 1


class _WorkloadFile(_StrictTable):
    name: str = ""
    kernel: _Kernel
    program: list[_Program]


def read_workload(path: Path) -> Kernel:
    """Read a workload file; `SmlabError` naming file and key on anything that is not one."""
    return parse_workload(load_toml(path), str(path), default_name=path.stem)


def parse_workload(raw: dict[str, Any], where: str, default_name: str = "workload") -> Kernel:
    """Build a kernel from a parsed workload file; ``where`` names the file in messages."""
    file = _checked(_WorkloadFile, raw, where)
    roles = [NO_WARP] * file.kernel.warps_per_block
    programs = []
    for index, given in enumerate(file.program):
        places = range(len(roles)) if given.warps == "all" else given.warps
        for place in places:
            if not 0 <= place < len(roles):
                raise SmlabError.at(
                    f"{where}: program[{index}].warps",
                    "no such warp in a block",
                    place,
                    f"0 to {len(roles) - 1}",
                )
            if roles[place] != NO_WARP:
                raise SmlabError.at(f"{where}: program[{index}].warps", "a warp has two programs", place)
            roles[place] = index
        body = tuple(_item(i, f"{where}: program[{index}].body[{n}]") for n, i in enumerate(given.body))
        programs.append(Program(str(index), body))
    try:
        return Kernel(
            name=file.name or default_name,
            programs=tuple(programs),
            roles=(tuple(roles),),
            blocks=file.kernel.blocks,
            shared_bytes_per_block=file.kernel.shared_bytes_per_block,
            registers_per_thread=file.kernel.registers_per_thread,
            sms=file.kernel.sms,
        )
    except SmlabError as error:
        raise SmlabError(f"{where}: {error}") from error


def _item(raw: dict[str, Any], where: str) -> Instruction | Loop:
    try:
        if "loop" in raw:
            loop = _checked(_Loop, raw, where)
            body = tuple(_item(i, f"{where}.body[{n}]") for n, i in enumerate(loop.body))
            return Loop(loop.loop, body)  # type: ignore[arg-type]  # Loop itself refuses what is not a count
        return _instruction(_checked(_Instruction, raw, where), where)
    except SmlabError as error:
        if str(error).startswith(where):
            raise
        raise SmlabError(f"{where}: {error}") from error


def _instruction(given: _Instruction, where: str) -> Instruction:
    if given.op not in CLASSES:
        raise SmlabError.at(
            f"{where}.op", "unknown instruction class", given.op, _suggestion(given.op, CLASSES)
        )
    unit = CLASSES[given.op].unit
    shared: SharedPattern = CONSECUTIVE_WORDS
    memory: GlobalPattern = CONSECUTIVE_BYTES
    if given.address is not None:
        if unit in (Unit.SHARED, Unit.ATOMIC):
            shared = _checked(_SharedHolder, {"address": given.address}, where).address.build()
        elif unit is Unit.GLOBAL:
            memory = _checked(_GlobalHolder, {"address": given.address}, where).address.build()
        else:
            raise SmlabError.at(f"{where}.address", f"{given.op} has no address")
    duration = None if given.cycles is None else Duration(given.cycles, given.distribution)
    return Instruction(
        op=given.op,
        name=given.name,
        after=tuple(given.after),
        lanes=given.lanes,
        shared=shared,
        memory=memory,
        returns=given.returns,
        duration=duration,
        width=given.width,
        uniform=given.uniform,
        after_read=tuple(given.after_read),
    )


def _suggestion(word: str, known: Any) -> str:
    guess = nearest(word, known)
    return f"perhaps {guess}" if guess else "one of " + ", ".join(known)


def _checked(model: type[_Model], raw: Any, where: str) -> _Model:
    """Validate with pydantic and tell the first problem as one line with its key."""
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in first["loc"]).lstrip(".")
        if first["type"] == "extra_forbidden":
            known = _model_at(model, first["loc"][:-1]).model_fields
            raise SmlabError.at(
                f"{where}: {path}",
                "unknown key",
                expected=_suggestion(path.rsplit(".", maxsplit=1)[-1], known),
            ) from None
        if first["type"] == "missing":
            raise SmlabError.at(f"{where}: {path}", "missing key") from None
        raise SmlabError.of_value(f"{where}: {path}", first) from None


def _model_at(model: type[BaseModel], place: tuple[int | str, ...]) -> type[BaseModel]:
    """The model whose keys are meant at a place within another."""
    for step in place:
        if isinstance(step, str) and step in model.model_fields:
            annotation = model.model_fields[step].annotation
            inner = next(iter(get_args(annotation)), annotation)
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                model = inner
    return model
