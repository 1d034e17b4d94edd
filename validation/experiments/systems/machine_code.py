"""Machine code as the system of a study: one kernel and its launch, with macros, launch shapes and constants
of the GPU changed.

Keys: ``define.NAME`` is a macro of CUDA C, which the launch file's texts may name as well;
``launch.grid.x``, ``launch.block.y`` and ``launch.shared_bytes`` are parts of the launch; ``gpu.KEY`` is
a constant of the GPU. Counts are of the whole grid: where some SMs run, they are those of the blocks that
ran, times all blocks over these.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.alternatives import Alternative
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.gpu.schema import KEYS_BY_NAME
from smlab.hw_bench.gpu.tables import guess_at
from smlab.hw_bench.inputs import read_bytes
from smlab.hw_bench.sass.image import KernelImage
from smlab.hw_bench.sass.opcodes import KINDS, kind_of
from smlab.hw_bench.sources import digest_of, package_folder
from smlab.sim.execution.run import MachineRun, run_machine_code
from smlab.sim.frontends.registry import load_kernel
from smlab.sim.instructions import Reason
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.launch.launch_file import LaunchFile, read_launch
from smlab.sim.reference import Record
from smlab.validation.experiments.design.values import Key, Settings, Value
from smlab.validation.experiments.systems.simulator import PREFIX, STALLS, Kept
from smlab.validation.experiments.systems.systems import Evaluation

DEFINE: Final = "define."
LAUNCH: Final = {
    **{f"launch.{what}.{axis}": (what, n) for what in ("grid", "block") for n, axis in enumerate("xyz")},
    "launch.shared_bytes": ("shared_bytes", 0),
}
COUNTS: Final = (
    *(f"count.{kind}" for kind in (*KINDS, "misc")),
    *("count.shared_wavefronts_load", "count.shared_wavefronts_store"),
    *("count.global_requests_load", "count.global_requests_store"),
    *("count.global_lanes_load", "count.global_lanes_store"),
    *("count.global_sectors_load", "count.global_sectors_store", "count.dram_sectors_read"),
)
KERNEL_RESPONSES: Final = (
    *("cycles", "cycles_low", "cycles_high", "seconds", "warp_instructions", "resident_warps"),
    *("blocks", "blocks_simulated", "registers", "local_bytes", "shared_bytes", "code_instructions"),
    *COUNTS,
    *STALLS,
)
"""What one run gives. ``count.KIND`` are thread-instructions as Nsight Compute sorts them
(`smlab.hw_bench.sass.opcodes`)."""


@dataclass(frozen=True, eq=False)
class MachineKernel:
    """The kernel of a file on ``gpu``; ``sms`` of its SMs run. ``fixed`` are settings for all points."""

    gpu: Gpu
    kernel: Path
    launch: Path
    name: str | None
    sms: int | str
    fixed: Mapping[str, Value]
    responses: tuple[str, ...]
    engine: str
    max_cycles: int
    kept: Kept = field(default_factory=Kept, repr=False)

    def key(self, where: str, name: str) -> Key:
        fixed = self.fixed.get(name)
        if name.startswith(DEFINE) and name.removeprefix(DEFINE).isidentifier():
            return Key(name, (int, str), fixed)
        if name in LAUNCH:
            return Key(name, (int,), fixed)
        if name.startswith(PREFIX):
            known = KEYS_BY_NAME.get(name.removeprefix(PREFIX))
            if known is not None:
                own = self.gpu[known.name].value if self.gpu.has(known.name) else None
                return Key(name, (known.type,), own if fixed is None else fixed)
            expected = guess_at(name.removeprefix(PREFIX), KEYS_BY_NAME, PREFIX)
            raise SmlabError.at(where, "unknown key of a GPU", name, expected)
        raise SmlabError.at(
            where, "a kernel has no such key", name, "define.NAME, gpu.KEY, one of " + ", ".join(LAUNCH)
        )

    def check(self, settings: Settings) -> bool:
        self._gpu(settings)
        self._file(settings)
        return False

    def alternatives(self) -> tuple[Alternative, ...]:
        atomic = any(i.opcode == "ATOMS" for i in self._image({}).function.instructions)
        return self.gpu.alternatives if atomic and len(self.gpu.alternatives) > 1 else ()

    def answer(self, settings: Settings, seed: int) -> Evaluation:
        gpu, file, image = self._gpu(settings), self._file(settings), self._image(settings)
        launch = MachineLaunch(
            image,
            file.grid,
            file.block,
            file.arguments,
            names=file.names,
            dynamic_shared_bytes=file.shared_bytes,
            constants=file.constants,
            check_shared=file.check_shared,
        )
        began = time.thread_time()
        done = run_machine_code(
            launch, gpu, sms=self.sms, engine=self.engine, keep=Record.TOTALS, max_cycles=self.max_cycles
        )
        simulation_s = time.thread_time() - began
        values = {**_told(done, launch), **_counts(done)}
        return Evaluation(tuple(float(values[name]) for name in self.responses), simulation_s)

    def identity(self) -> str:
        rooms = (package_folder("smlab.hw_bench.sass"), Path(__file__))
        code = digest_of(package_folder("smlab.sim"), *rooms)
        texts = [read_bytes(path) for path in (self.kernel, self.launch)]
        constants = [(key, constant.value) for key, constant in self.gpu.constants.items()]
        return repr((code, constants, texts, self.name, self.sms, sorted(self.fixed.items()), self.responses))

    def _settings(self, settings: Settings, prefix: str) -> dict[str, Value]:
        merged = {**self.fixed, **settings}
        return {k.removeprefix(prefix): v for k, v in merged.items() if k.startswith(prefix)}

    def _gpu(self, settings: Settings) -> Gpu:
        own = self._settings(settings, PREFIX)
        return self.gpu.with_values(own, source="assumed: set by the study", where="gpu") if own else self.gpu

    def _file(self, settings: Settings) -> LaunchFile:
        macros = self._settings(settings, DEFINE)
        file: LaunchFile = self.kept.get(
            "tables", tuple(sorted(macros.items())), lambda: read_launch(self.launch, macros)
        )
        shapes: dict[str, list[int]] = {"grid": list(file.grid), "block": list(file.block)}
        shared = file.shared_bytes
        for key, value in {**self.fixed, **settings}.items():
            what, place = LAUNCH.get(key, ("", 0))
            if what == "shared_bytes":
                shared = int(value)
            elif what:
                shapes[what][place] = int(value)
        grid, block = ((x[0], x[1], x[2]) for x in shapes.values())
        return replace(file, grid=grid, threads=block, shared_bytes=shared)

    def _image(self, settings: Settings) -> KernelImage:
        macros = {k: str(v) for k, v in self._settings(settings, DEFINE).items()}

        def load() -> KernelImage:
            return load_kernel(self.kernel, self.gpu.sm_architecture, name=self.name, defines=macros)

        image: KernelImage = self.kept.get("kernel", tuple(sorted(macros.items())), load)
        return image


def _told(done: MachineRun, launch: MachineLaunch) -> dict[str, float]:
    result = done.result
    resident = sum(s.resident_warp_cycles for s in result.sms)
    active = sum(s.active_cycles for s in result.sms)
    values: dict[str, float] = {
        "cycles": done.cycles,
        "cycles_low": done.cycles_low,
        "cycles_high": done.cycles_high,
        "seconds": done.seconds,
        "warp_instructions": result.warp_instructions * done.blocks / done.blocks_simulated,
        "resident_warps": resident / active,
        "blocks": done.blocks,
        "blocks_simulated": done.blocks_simulated,
        "registers": launch.image.registers,
        "local_bytes": launch.local_bytes,
        "shared_bytes": launch.shared_bytes,
        "code_instructions": len(launch.code),
    }
    stalls = result.warps.stall_cycles.sum(axis=0).tolist()
    values.update((f"stall.{r.label}", stalls[r] / resident) for r in Reason)
    return values


def _counts(done: MachineRun) -> dict[str, float]:
    result, whole = done.result, done.blocks / done.blocks_simulated
    counts = dict.fromkeys(COUNTS, 0.0)
    for row in done.instructions:
        opcode = row.opcode
        counts[f"count.{kind_of(opcode)}"] += row.lanes
        if opcode in ("LDG", "STG", "LD", "ST"):
            which = "load" if opcode.startswith("LD") else "store"
            counts[f"count.global_requests_{which}"] += row.executed
            counts[f"count.global_lanes_{which}"] += row.lanes
    for sm in result.sms:
        counts["count.shared_wavefronts_load"] += sm.shared_load_passes
        counts["count.shared_wavefronts_store"] += sm.shared_store_passes
        counts["count.global_sectors_load"] += sm.l1_sector_hits + sm.l1_sector_misses
        counts["count.global_sectors_store"] += sm.l1_store_sectors
    counts = {name: value * whole for name, value in counts.items()}
    counts["count.dram_sectors_read"] = done.dram_sectors_read
    return counts
