"""A proxy for a kernel of which only counters are known: a simulated kernel that does as much.

Its warps run one loop whose body has the counted mix: arithmetic by precision, loads that stream, loads that
L2 or L1 holds, and accesses to shared memory with as many passes each as were counted. What counters do not
tell is which instructions wait for which: of `DEPENDENCES`, those are taken whose time on the GPU that was
measured is the nearest to the measured one (`fitted_proxy`). A proxy is for *pairs* of runs that differ in
one change; its own time over the measured one says how far it goes (``fidelity`` of an advice).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.sim.address_patterns import Affine, Strided
from smlab.sim.lowering import lower
from smlab.sim.machine import machine_from
from smlab.sim.reference import Record
from smlab.sim.simulate import ENGINES
from smlab.sim.workloads.workload import Instruction, Kernel, Loop, Program, blocks_per_sm
from smlab.validation.projection.gpu_parts import part_of

BODY: Final = 40
"""Instructions of the loop's body, about: each kind has its counted share of them."""

DEPENDENCES: Final = ((4, False), (16, False), (1, False), (4, True), (1, True))
"""Chains of arithmetic, and whether each load needs the one before it."""

SHORTEST: Final = 4
MOST_INSTRUCTIONS: Final = 150_000
"""Warp-instructions of a run; a kernel that has more runs fewer rounds of its loop."""

LEAST_ROUNDS: Final = 3
"""The first round finds nothing in caches."""

WAVES: Final = 6
"""Of a grid that fills its GPU more often, so many waves run: the tail of the others is no matter."""

_OFTEN: Final = 1 << 41
_SECTOR: Final = 32


@dataclass(frozen=True)
class Mix:
    """What a warp does, in warp-instructions for each of its instructions: arithmetic by precision, global
    loads, accesses to shared memory. ``lane_stride_bytes`` makes the bytes of a global access; of them the
    shares ``from_dram`` and ``from_l2`` are not in the caches before. ``ways`` are passes of a shared
    access."""

    fp16: float
    fp32: float
    fp64: float
    integer: float
    loads: float
    shared: float
    lane_stride_bytes: int
    from_dram: float
    from_l2: float
    ways: float


@dataclass(frozen=True)
class ProxyKernel:
    """The mix of a kernel and its launch: ``warps`` of a block, ``blocks``, ``registers`` of a thread,
    ``shared_bytes`` of a block, and the ``instructions`` of a warp. ``chains`` and ``chained_loads`` are one
    of `DEPENDENCES`."""

    name: str
    mix: Mix
    warps: int
    blocks: int
    registers: int
    shared_bytes: int
    instructions: float
    chains: int = DEPENDENCES[0][0]
    chained_loads: bool = DEPENDENCES[0][1]

    @property
    def body_instructions(self) -> int:
        """Of the loop's body: `BODY`, or all that a short warp has."""
        return int(min(BODY, max(round(self.instructions), SHORTEST)))

    @property
    def rounds(self) -> float:
        """How often a warp runs the body."""
        return self.instructions / self.body_instructions

    def kernel(self, rounds: int, blocks: int) -> Kernel:
        """The workload with so many rounds and blocks; its SMs are set by the machine."""
        return Kernel(
            name=self.name,
            programs=(Program("p", (Loop(rounds, self._body()),)),),
            roles=((0,) * self.warps,),
            blocks=blocks,
            shared_bytes_per_block=max(self.shared_bytes, self._touched_bytes()),
            registers_per_thread=self.registers,
        )

    def _touched_bytes(self) -> int:
        """What the accesses to shared memory reach: the last lane of the widest stride."""
        return 4 * 32 * max(_two_ways(self.mix.ways, BODY)) if self.mix.shared else 0

    def _body(self) -> tuple[Instruction, ...]:
        mix = self.mix
        kinds = {
            "load": mix.loads,
            "shared": mix.shared,
            **{"fp16": mix.fp16, "fp32": mix.fp32, "fp64": mix.fp64, "int32": mix.integer},
        }
        counts = _apportioned(kinds, self.body_instructions)
        body: list[Instruction] = []
        stride = mix.lane_stride_bytes
        warps = self.warps * self.blocks
        for number in range(counts["load"]):
            place = (number + 0.5) / counts["load"]
            if place < mix.from_dram:
                memory = Affine(stride, 32 * stride, 32 * stride * warps, number << 34)
            elif place < mix.from_dram + mix.from_l2:
                memory = Affine(stride, 32 * stride, 32 * stride * self.warps, _OFTEN + (number << 30))
            else:
                memory = Affine(stride, 32 * stride, 0, 2 * _OFTEN + (number << 30))
            needs = (f"x{number - 1 if number else counts['load'] - 1}",) if self.chained_loads else ()
            body.append(Instruction("global-load", f"x{number}", needs, memory=memory))
        conflicts = _two_ways(mix.ways, counts["shared"])
        body += [
            Instruction("shared-load", f"s{number}", shared=Strided(ways))
            for number, ways in enumerate(conflicts)
        ]
        loaded = [one.name for one in body]
        arithmetic = [kind for kind in ("fp16", "fp32", "fp64", "int32") for _ in range(counts[kind])]
        last: dict[int, str] = {}
        for number, kind in enumerate(_interleaved(arithmetic)):
            chain = number % self.chains
            before = [last[chain]] if chain in last else []
            before += [loaded[number % len(loaded)]] if loaded else []
            body.append(Instruction(kind, f"a{number}", tuple(dict.fromkeys(before))))
            last[chain] = f"a{number}"
        return tuple(body)


def proxy_of(work: KernelWork, row: int, gpu: Gpu) -> ProxyKernel:
    """The proxy of one kernel of ``work``, counted on ``gpu``.

    Raises:
        SmlabError: a kernel whose launch or instructions are not known.
    """
    name = str(work.kernel[row])
    numbers = {n: float(getattr(work, n)[row]) for n in ("blocks", "threads_per_block", "instructions")}
    for what, value in numbers.items():
        if not value >= 1:
            raise SmlabError.at(f"kernel {name}", f"no proxy without its {what}", value)

    def of(quantity: str) -> float:
        return float(np.nan_to_num(getattr(work, quantity)[row]))

    lanes = float(gpu.number("sm.warp_lanes"))
    warps = math.ceil(numbers["threads_per_block"] / lanes)
    issued = numbers["instructions"]
    flops = [work.add[row, i] + work.mul[row, i] + work.fma[row, i] for i in range(3)]
    floating = [float(np.nan_to_num(n)) / lanes / issued / (2 if i == 0 else 1) for i, n in enumerate(flops)]
    wavefronts, ideal = of("shared_wavefronts"), of("shared_ideal_wavefronts")
    shared = (ideal or wavefronts) / issued
    requests = of("memory_requests") / issued
    loads = max(requests - shared, 0.0) if requests else of("l1_bytes") / (_SECTOR * 4) / issued
    asked = loads * issued
    bytes_each = of("l1_bytes") / asked if asked else 4 * lanes
    moved = max(of("l1_bytes"), of("l2_bytes"), of("dram_bytes"), 1.0)
    total = sum(floating) + shared + loads
    scale = min(1.0, 1 / total) if total else 1.0
    fp16, fp32, fp64 = (n * scale for n in floating)
    mix = Mix(
        fp16=fp16,
        fp32=fp32,
        fp64=fp64,
        integer=max(1 - total, 0.0),
        loads=loads * scale,
        shared=shared * scale,
        lane_stride_bytes=4 * max(1, round(bytes_each / lanes / 4)),
        from_dram=min(of("dram_bytes") / moved, 1.0),
        from_l2=min(max(of("l2_bytes") - of("dram_bytes"), 0.0) / moved, 1.0),
        ways=min(max(wavefronts / ideal, 1.0), lanes) if ideal and wavefronts else 1.0,
    )
    return ProxyKernel(
        name=name,
        mix=mix,
        warps=warps,
        blocks=int(numbers["blocks"]),
        registers=int(of("registers_per_thread")) or 32,
        shared_bytes=int(of("shared_bytes_per_block")),
        instructions=issued / (numbers["blocks"] * warps),
    )


def fitted_proxy(work: KernelWork, row: int, gpu: Gpu) -> ProxyKernel:
    """`proxy_of` with the dependences whose time on ``gpu`` is the nearest to the measured one."""
    base = proxy_of(work, row, gpu)
    tried = [replace(base, chains=chains, chained_loads=chained) for chains, chained in DEPENDENCES]
    off = np.abs(np.log(np.array(seconds_on(gpu, *tried)) / float(work.seconds[row])))
    return tried[int(np.argmin(off))]


def seconds_on(gpu: Gpu, *kernels: ProxyKernel) -> list[float]:
    """Simulated seconds of kernels that do the same work, each as a whole.

    Each runs as many of its rounds as `MOST_INSTRUCTIONS` allows. Of a grid of more than `WAVES` waves so
    many run, on a few SMs with their share of L2 and DRAM: from the second round on
    caches have what was loaded before.

    Raises:
        SmlabError: a block that does not fit the GPU.
    """
    whole, few = machine_from(gpu), machine_from(part_of(gpu, _part(gpu.integer("gpu.sms"))))
    hz = float(gpu.number("clock.sm_hz"))
    found = []
    for one in kernels:
        room = blocks_per_sm(replace(one.kernel(1, 1), sms=1), whole)
        machine = whole if one.blocks <= WAVES * room * whole.sms else few
        blocks = min(one.blocks, WAVES * room * machine.sms)
        wanted = max(1, round(one.rounds))
        affordable = MOST_INSTRUCTIONS // (one.body_instructions * one.warps * max(blocks, 1))
        rounds = min(wanted, max(LEAST_ROUNDS, affordable))
        kernel = replace(one.kernel(rounds, blocks), sms=min(machine.sms, blocks))
        result = ENGINES["compiled"](lower(kernel, machine, 0), Record.TOTALS, None, None)
        share = (one.blocks / blocks) * (machine.sms / whole.sms) * (one.rounds / rounds)
        found.append(float(result.cycles) / hz * share)
    return found


def _part(sms: int) -> int:
    """The largest part that SMs can be divided by that leaves two of them, or one."""
    return next(part for part in range(max(sms // 2, 1), 0, -1) if sms % part == 0)


def _apportioned(shares: dict[str, float], seats: int) -> dict[str, int]:
    """Whole numbers that add up to ``seats``, by the largest remainder; what is there at all has one."""
    total = sum(shares.values()) or 1.0
    exact = {name: seats * share / total for name, share in shares.items()}
    found = {name: max(int(value), int(value > 0.2)) for name, value in exact.items()}
    for name in sorted(exact, key=lambda name: found[name] - exact[name]):
        if sum(found.values()) >= seats:
            break
        found[name] += 1
    return found


def _two_ways(ways: float, count: int) -> list[int]:
    """Whole numbers of passes with the mean ``ways``; powers of two alone have a stride that makes them."""
    low = 2 ** int(math.log2(max(ways, 1.0)))
    many = round(count * (ways / low - 1))
    return [2 * low if number < many else low for number in range(count)]


def _interleaved(kinds: list[str]) -> list[str]:
    """The kinds spread evenly, as a compiler mixes them."""
    place = {
        (kind, n): (n + 0.5) / kinds.count(kind) for kind in set(kinds) for n in range(kinds.count(kind))
    }
    return [kind for kind, _ in sorted(place, key=lambda key: (place[key], key[0]))]
