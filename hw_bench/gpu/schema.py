"""Which constants a GPU description holds: name, unit, type and range of each, in one table.

A name such as ``sm.max_warps`` is the constant's identity everywhere: in the TOML files, on the command line
and in reports. The order of `KEYS` is the order in which constants are shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

KINDS: Final = ("spec", "published", "measured", "calibrated", "assumed")
"""Where a value comes from, from the manufacturer's word to our own guess."""

ARCHITECTURES: Final = ("pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell")

PIPES: Final = (
    *("int32", "fp32", "fp64", "fp16", "sfu", "control", "conversion", "uniform", "tensor", "vote"),
    *("match", "redux", "special-register"),
)
"""The execution pipes of the SM that a description has."""

TENSOR_TYPES: Final = (
    *("fp16", "fp16_fp32", "bf16", "tf32", "fp8", "fp8_fp32", "fp6"),
    *("int8", "int4", "int1", "fp64"),
)
"""Types of products of matrices; ``fp16`` and ``fp8`` sum in halves, those with ``_fp32`` in singles.
``fp6``: one of the factors has 6 or 4 bits; they sum in either."""

ATOMIC_OPS: Final = ("add", "cas", "popc_inc")
"""The operations of the shared-memory atomic unit that a description has."""


@dataclass(frozen=True)
class ConstantKey:
    """One constant: what it is called, its unit, and which values can be right.

    ``type`` is `int` (whole numbers only), `float` (any number) or `str` (one of ``choices``). ``minimum``
    and ``maximum`` are inclusive. An ``optional`` key may be missing from a description. A name without
    ``choices`` is one of a registry elsewhere, which checks it (scheduler policies: `smlab.sim.policies`).
    """

    name: str
    unit: str
    type: type
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False

    def expected(self) -> str:
        """What would be right, in words, for an error message."""
        if self.type is str:
            return "one of " + ", ".join(self.choices) if self.choices else "a name"
        noun = "a whole number" if self.type is int else "a number"
        if self.minimum is not None and self.maximum is not None:
            form = ",.0f" if self.type is int else "g"
            return f"{noun} from {self.minimum:{form}} to {self.maximum:{form}} {self.unit}"
        if self.minimum is not None:
            return f"{noun} of at least {self.minimum:g} {self.unit}"
        return f"{noun} of {self.unit}"


MOST: Final = {"bytes": 2**42, "SMs": 4096, "schedulers": 64, "banks": 1024, "ways": 2**16}
"""What no GPU comes near, by unit, so that a slip of the pen is refused before memory is asked for; 2**20 for
other counts."""


def _whole(name: str, unit: str, doc: str, minimum: float = 1, maximum: float | None = None) -> ConstantKey:
    most = MOST.get(unit, 2**20) if maximum is None else maximum
    return ConstantKey(name, unit, int, doc, minimum=minimum, maximum=most)


def _number(
    name: str,
    unit: str,
    doc: str,
    minimum: float = 1,
    maximum: float | None = None,
    *,
    optional: bool = False,
) -> ConstantKey:
    return ConstantKey(name, unit, float, doc, minimum=minimum, maximum=maximum, optional=optional)


def _name(name: str, doc: str, choices: tuple[str, ...]) -> ConstantKey:
    return ConstantKey(name, "name", str, doc, choices=choices)


def _clock(name: str, doc: str) -> ConstantKey:
    return _number(name, "Hz", doc, minimum=1e6, maximum=1e11)


def _rate(name: str, unit: str, doc: str, *, optional: bool = False) -> ConstantKey:
    return _number(name, unit, doc, minimum=1e6, maximum=1e18, optional=optional)


def _latency(name: str, doc: str) -> ConstantKey:
    return _number(name, "cycles", doc, minimum=1, maximum=1e5)


def _pipe_keys() -> Iterable[ConstantKey]:
    for pipe in PIPES:
        where = f"the {pipe} pipe"
        yield _number(
            f"pipe.{pipe}.interval_cycles",
            "cycles",
            f"cycles for which a warp-instruction occupies {where}",
            maximum=1e4,
        )
        yield _latency(
            f"pipe.{pipe}.latency_cycles", f"issue to dependent issue of an instruction of {where}"
        )
        yield _name(
            f"pipe.{pipe}.shared_by", f"whether {where} is one a scheduler or one an SM", ("scheduler", "sm")
        )

    where = "the fp32 pipe"
    yield _number(
        "pipe.imad.interval_cycles",
        "cycles",
        f"cycles for which an integer multiply-add occupies {where}",
        1,
        1e4,
    )
    yield _latency("pipe.imad.latency_cycles", "issue to dependent issue of an integer multiply-add")


def _path_keys() -> Iterable[ConstantKey]:
    """The memory path: a queue and an address unit in each sub-core, an arbiter and a data stage in the
    SM."""
    yield _whole("mio.queue_entries", "warp-instructions", "memory instructions that one sub-core can hold")
    yield _whole("mio.front_cycles", "cycles", "least time from issue to leaving the sub-core")
    yield _whole(
        "mio.address_interval_cycles", "cycles", "time between memory instructions that leave one sub-core"
    )
    yield _whole(
        "mio.request_interval_cycles", "cycles", "time between requests that the SM's shared structures take"
    )
    yield _latency("mio.shuffle_latency_cycles", "shuffle, issue to use")
    for width in (64, 128):
        yield _number(
            f"mio.store_read_{width}_extra_cycles",
            "cycles",
            f"what {width}-bit data add to the time until a store has read its operands",
            0,
            1e3,
        )
    for room, what in (("shared", "shared"), ("l1", "global")):
        for width in (64, 128):
            yield _number(
                f"{room}.load_{width}_extra_cycles",
                "cycles",
                f"what {width} bits a lane add to a {what} load's latency",
                0,
                1e3,
            )
        yield _number(
            f"{room}.uniform_saving_cycles",
            "cycles",
            f"what an address in a uniform register saves a {what} load",
            0,
            1e3,
        )
        for op in ("load", "store"):
            yield _latency(
                f"{room}.{op}_read_cycles",
                f"{what} {op}, issue to the reading of its operands (write after read)",
            )
            yield _latency(
                f"{room}.{op}_read_uniform_cycles", "the same with an address in a uniform register"
            )
    yield _latency(
        "l1.copy_latency_cycles", "asynchronous copy to shared memory that hits L1, issue to its end"
    )
    yield _latency("l1.copy_read_cycles", "asynchronous copy, issue to the reading of its operands")
    yield _latency("constant.read_cycles", "constant load, issue to the reading of its operands")
    yield _latency("constant.immediate_read_cycles", "the same with an address known to the assembler")
    yield _latency("constant.latency_cycles", "constant load (LDC) that hits its cache, issue to use")
    yield _latency("constant.immediate_latency_cycles", "the same with an address known to the assembler")


def _atomic_keys() -> Iterable[ConstantKey]:
    for op in ATOMIC_OPS:
        optional = op == "popc_inc"  # required from compute capability 8.0, refused below
        stem = f"atomic.{op}"
        yield _number(
            f"{stem}.base_interval_cycles",
            "cycles",
            f"the part of one {op}'s time in the atomic unit that does not depend on its passes",
            minimum=0,
            maximum=1e4,
            optional=optional,
        )
        yield _number(
            f"{stem}.pass_interval_cycles",
            "cycles",
            f"what each of its passes adds to one {op}'s time in the atomic unit",
            minimum=0,
            maximum=1e4,
            optional=optional,
        )
        yield _number(
            f"{stem}.latency_cycles",
            "cycles",
            f"one {op} of one pass that finds the path empty, issue to use",
            maximum=1e5,
            optional=optional,
        )


def _icache_keys() -> Iterable[ConstantKey]:
    """Instruction caches: machine code alone has addresses."""
    yield _whole("icache.line_bytes", "bytes", "line of the instruction caches")
    for level, where in (("l0", "a sub-core's own instruction cache"), ("l1", "the SM's instruction cache")):
        yield _whole(f"icache.{level}_bytes", "bytes", where, maximum=2**24)
        yield _whole(f"icache.{level}_ways", "ways", f"associativity of {where}")
    yield _whole("icache.ahead_lines", "lines", "lines that a sub-core asks for ahead of the one in use", 0)
    yield _latency(
        "icache.l0_miss_cycles", "a line that the sub-core does not have and the SM has, need to issue"
    )
    yield _whole(
        "icache.request_interval_cycles", "cycles", "time between lines that an SM's sub-cores ask for"
    )


KEYS: Final[tuple[ConstantKey, ...]] = (
    _whole("gpu.sms", "SMs", "streaming multiprocessors that are switched on"),
    _clock("clock.base_hz", "guaranteed SM clock"),
    _clock("clock.boost_hz", "highest rated SM clock"),
    _clock("clock.sm_hz", "SM clock at which cycles are converted to seconds"),
    _clock(
        "clock.memory_hz", "memory clock (transfers take place on both edges, or more often: see the note)"
    ),
    _number("power.limit_w", "W", "power limit of the board as sold", 1, 1e5, optional=True),
    _number(
        "power.operation_energy",
        "ratio",
        "energy of an FP32 operation over that on a V100, at equal speed",
        0.01,
        100,
        optional=True,
    ),
    _whole("sm.schedulers", "schedulers", "warp schedulers"),
    _whole("sm.warp_lanes", "lanes", "threads in a warp"),
    _whole("sm.max_warps", "warps", "warps resident at once"),
    _whole("sm.max_blocks", "blocks", "blocks resident at once"),
    _whole("sm.max_threads", "threads", "threads resident at once"),
    _whole("sm.max_threads_per_block", "threads", "threads that one block can have"),
    _whole("sm.registers", "registers", "32-bit registers in the register file"),
    _whole("sm.register_unit_per_warp", "registers", "granularity in which a warp is given registers"),
    _whole("sm.max_registers_per_thread", "registers", "registers that one thread can have"),
    _whole("sm.shared_bytes", "bytes", "largest shared memory of the SM"),
    _whole("sm.shared_bytes_per_block", "bytes", "largest shared memory of a block, with opt-in"),
    _whole(
        "sm.shared_reserved_bytes_per_block", "bytes", "shared memory that the system takes of each block", 0
    ),
    _whole("sm.shared_unit_bytes", "bytes", "granularity in which a block is given shared memory"),
    _number(
        "sm.block_launch_cycles",
        "cycles",
        "from one block's place being free to the next block's start",
        0,
        1e6,
    ),
    _number("gpu.block_dispatch_cycles", "cycles", "what the dispatcher takes for a block", 0, 1e3),
    _number("gpu.warp_dispatch_cycles", "cycles", "what it takes more for each warp of it", 0, 1e3),
    ConstantKey(
        "launch.overhead_s",
        "s",
        float,
        "what a kernel that does nothing takes",
        minimum=0,
        maximum=1,
        optional=True,
    ),
    ConstantKey(
        "launch.gap_s",
        "s",
        float,
        "from the end of a kernel to the begin of the next one in its stream",
        minimum=0,
        maximum=1,
        optional=True,
    ),
    _latency("sm.barrier_latency_cycles", "from the service of a barrier's last arrival to the next issue"),
    _whole("sm.barrier_interval_cycles", "cycles", "time that the SM's barrier unit takes for an arrival"),
    _name("sm.scheduler_policy", "which ready warp a scheduler takes", ()),
    _whole("banks.count", "banks", "banks of the shared memory"),
    _whole("banks.width_bytes", "bytes", "bytes that a bank serves in one pass"),
    *_pipe_keys(),
    ConstantKey(
        "pipe.int32.lanes",
        "name",
        str,
        "whose lanes integer instructions run on: their own (also where it is not said), or some of fp32's",
        choices=("own", "fp32"),
        optional=True,
    ),
    *_path_keys(),
    _number(
        "shared.interval_cycles_per_pass",
        "cycles",
        "time of one pass over the banks (a wavefront) in the data stage",
        1,
        1e4,
    ),
    _latency("shared.load_latency_cycles", "shared load without bank conflict, issue to use"),
    _latency("shared.store_latency_cycles", "shared store without bank conflict, issue to acknowledgement"),
    _whole(
        "atomic.queue_entries",
        "warp-instructions",
        "atomics that can wait or be in service in one pipe of the atomic unit",
    ),
    _number(
        "atomic.address_interval_cycles", "cycles", "time between atomics that leave one sub-core", 1, 1e3
    ),
    _number(
        "atomic.stage_factor",
        "ratio",
        "time of an atomic's pass in the data stage over that of a shared load's",
        0.01,
        100,
    ),
    _number(
        "atomic.round_gap_cycles",
        "cycles",
        "idle time of the atomic unit between one round of operations and the next; 0 where it has no rounds",
        0,
        1e4,
    ),
    ConstantKey(
        "atomic.pipes",
        "pipes",
        int,
        "pipes of the atomic unit, a sub-core always using the same one; 1 where nothing is said",
        minimum=1,
        maximum=16,
        optional=True,
    ),
    *_atomic_keys(),
    *_icache_keys(),
    _whole("l1.bytes", "bytes", "L1 cache and shared memory together", maximum=2**24),
    ConstantKey(
        "l1.cache_bytes",
        "bytes",
        int,
        "most of l1.bytes that can be cache; all of it where the description does not say",
        minimum=1,
        optional=True,
    ),
    _whole("l1.line_bytes", "bytes", "line of the L1 cache"),
    _whole("l1.sector_bytes", "bytes", "part of a line that is filled on its own"),
    _whole("l1.ways", "ways", "associativity of the L1 cache"),
    _latency("l1.latency_cycles", "global load that hits L1, issue to use"),
    _number(
        "l1.interval_cycles_per_line",
        "cycles",
        "time of one line of a global access in the data stage",
        1,
        1e4,
    ),
    _number(
        "l1.bandwidth_bytes_per_cycle", "bytes/cycle", "most that the L1 cache of one SM delivers", 1, 1e5
    ),
    _rate(
        "l1.sustained_bandwidth_bytes_per_s",
        "bytes/s",
        "L1 bandwidth of the whole GPU, as published",
        optional=True,
    ),
    _whole("l2.bytes", "bytes", "L2 cache", maximum=2**30),
    _whole("l2.ways", "ways", "associativity of the L2 cache"),
    _latency("l2.latency_cycles", "global load that misses L1 and hits L2, issue to use"),
    _rate("l2.bandwidth_bytes_per_s", "bytes/s", "L2 bandwidth of the whole GPU"),
    _number("l2.sm_port_bytes_per_cycle", "bytes/cycle", "most that one SM receives from L2", 1, 1e5),
    _number(
        "l2.atomic_sector_factor",
        "ratio",
        "time of a sector of atomics in L2, over that of a sector read",
        1,
        1e3,
    ),
    _number("l2.atomic_interval_cycles", "cycles", "time between two atomics on one word in L2", 0.1, 1e4),
    _number(
        "l2.atomic_float_interval_cycles",
        "cycles",
        "the same for additions of floating-point numbers",
        0.1,
        1e4,
    ),
    _number(
        "mio.atomic_register_cycles",
        "cycles",
        "address unit, for each register that an atomic on global memory reads",
        0,
        1e3,
    ),
    _number(
        "l1.atomic_bytes_per_cycle",
        "bytes/cycle",
        "operands of atomics on global memory that leave an SM",
        0.1,
        1e4,
    ),
    _number(
        "l1.atomic_packet_cycles",
        "cycles",
        "least time of an SM's port for each lane of a reduction that is on a word with others",
        0.1,
        1e3,
    ),
    _number(
        "l1.atomic_return_packet_cycles", "cycles", "the same for an atomic whose result comes back", 0.1, 1e3
    ),
    _whole("l1.atomics_in_flight", "warp-instructions", "atomics on global memory of an SM on their way"),
    _latency("gpu.system_fence_cycles", "what a fence for the system takes beyond one for the GPU"),
    _whole("dram.bytes", "bytes", "device memory"),
    _latency("dram.latency_cycles", "global load that misses both caches, issue to use"),
    _rate("dram.bandwidth_bytes_per_s", "bytes/s", "rated bandwidth of the device memory"),
    _rate(
        "dram.sustained_bandwidth_bytes_per_s",
        "bytes/s",
        "bandwidth of the device memory that a stream reaches",
    ),
    _number(
        "dram.read_factor",
        "ratio",
        "what a stream of reads alone reaches, over one of two reads and a write (1 where it is not said)",
        1,
        1.5,
        optional=True,
    ),
    _rate("peak.fp32_flops_per_s", "FLOP/s", "FP32 peak, a multiply-add being two operations"),
    _rate("peak.fp64_flops_per_s", "FLOP/s", "FP64 peak without tensor cores"),
    _rate("peak.fp16_flops_per_s", "FLOP/s", "FP16 peak without tensor cores"),
    _rate(
        "peak.tensor_fp16_flops_per_s",
        "FLOP/s",
        "FP16 peak of the tensor cores, dense; missing where there are none",
        optional=True,
    ),
    _whole("tensor.least_rows", "rows", "a tensor core takes as long for fewer rows of the first matrix"),
    _whole("tensor.least_depth_bytes", "bytes", "and as long for shorter rows"),
    *(
        _number(
            f"tensor.{name}_fma_per_cycle",
            "multiply-adds/cycle",
            f"rate of a scheduler's tensor core on dense {name} products",
            0.01,
            1e6,
            optional=True,
        )
        for name in TENSOR_TYPES
    ),
    *(
        _number(
            f"tensor.group_{name}_fma_per_cycle",
            "multiply-adds/cycle",
            f"rate of a scheduler's tensor core on its part of dense {name} products by four warps",
            0.01,
            1e6,
            optional=True,
        )
        for name in TENSOR_TYPES
    ),
    _number(
        "gpu.group_sms",
        "SMs",
        "SMs that the blocks of a cluster may be spread over",
        1,
        1e4,
        optional=True,
    ),
    _number(
        "gpu.network_latency_cycles",
        "cycles",
        "from one SM of a cluster to another",
        1,
        1e5,
        optional=True,
    ),
    _number(
        "gpu.network_bytes_per_cycle",
        "bytes/cycle",
        "what an SM's port to the network between SMs carries",
        1,
        1e4,
        optional=True,
    ),
    _number(
        "copy_engine.extra_cycles",
        "cycles",
        "what a bulk copy of one sector takes beyond a load, until its barrier knows that it is done",
        1,
        1e5,
        optional=True,
    ),
    _number(
        "copy_engine.line_interval_cycles",
        "cycles",
        "what the copy engine of an SM takes to ask for a line or a part of one",
        0.1,
        1e3,
        optional=True,
    ),
    _number(
        "tensor.group_tail_cycles",
        "cycles",
        "from the end of a product by a group of warps until a warp that waits for it goes on",
        0,
        1e4,
        optional=True,
    ),
    _rate(
        "peak.sustained_flops_per_s",
        "FLOP/s",
        "FP64 rate that a benchmark reached, as published",
        optional=True,
    ),
)

KEYS_BY_NAME: Final[dict[str, ConstantKey]] = {key.name: key for key in KEYS}


def popc_inc_keys() -> tuple[str, ...]:
    """The keys that belong to GPUs with ATOMS.POPC.INC: compute capability 8.0 and up."""
    return tuple(key.name for key in KEYS if key.name.startswith("atomic.popc_inc."))


def is_group(name: str) -> bool:
    """Whether ``name`` is the beginning of some key's dotted name, such as ``pipe`` or ``pipe.fp32``."""
    return any(key.name.startswith(name + ".") for key in KEYS)
