"""Reading a kernel's work counter by counter: which names will do for each quantity, in which order, and
what is flagged."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from smlab.hw_bench.gpu.constants import SEEN
from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.hw_bench.profiles.ncu.pivot import Choice, Pivot
from smlab.hw_bench.profiles.work.kernel_work import PRECISIONS, Floats, add_flag, object_array

SECTOR_BYTES: Final = 32
PASS_BYTES: Final = 128
"""What shared memory delivers in one pass: 32 banks of 4 bytes (CUDA C++ Programming Guide, chapter
Compute Capabilities)."""

_INST, _CYCLE, _BYTE, _SECOND = ("inst",), ("cycle",), ("byte",), ("second",)
_PASSES = ("", "wavefront", "inst")
_LETTERS: Final = {"fp16": "h", "fp32": "f", "fp64": "d"}
_NVPROF_LETTERS: Final = {"fp16": "hp", "fp32": "sp", "fp64": "dp"}

TENSOR_FLOPS_PER_INSTRUCTION: Final = {"7.0": 512, "7.5": 2048, "8.0": 4096, "8.6": 4096, "8.9": 4096}
"""FLOPs of one half-precision tensor instruction of a warp. 7.0: Yang et al. 2020, section II (HMMA.884 in
four steps); 7.5: HMMA.1688, 8.x: HMMA.16816, by the shapes of ``mma`` in the PTX ISA. A TF32 instruction does
half as much."""


CLOCK_TOLERANCE: Final = 0.02
"""By how much a clock worked out from counters may exceed the board's highest."""

SAME_COUNT: Final = 0.02
"""Counters of different passes of a profiler that differ by less counted the same instructions."""

OF_ANY_KIND: Final = "{} operations of any kind, taken as multiply-adds: FLOPs are at most these"

_INSTRUCTIONS: Final = ("smsp__inst_executed.sum", "sm__inst_executed.sum", "inst_executed")


class CounterReader:
    """Reads one quantity after the other and collects the flags, shape (launches,)."""

    def __init__(self, pivot: Pivot, gpu: Gpu | None) -> None:
        self.pivot = pivot
        self.gpu = gpu
        self.flags: NDArray[np.object_] = object_array([()] * len(pivot))

    def flag(self, which: NDArray[np.bool_], note: str) -> None:
        self.flags = add_flag(self.flags, which, note)

    def choose(self, *sources: tuple[str, Floats], plain: int = 1) -> Floats:
        """The first source that has the number; all but the first ``plain`` are flagged."""
        choice = Choice(self.pivot, *sources)
        for i in range(plain, len(sources)):
            self.flag(choice.source == i, choice.labels[i])
        return choice.value

    def first(self, names: tuple[str, ...], units: tuple[str, ...]) -> Floats:
        return Choice(self.pivot, *((n, self.pivot.get(n, units)) for n in names)).value

    def time(self) -> tuple[Floats, Floats, Floats]:
        """(seconds, cycles, clock in Hz)."""
        get = self.pivot.get
        stems = (
            "sm__cycles_elapsed.max",
            "sm__cycles_elapsed.avg",
            "smsp__cycles_elapsed.avg",
            "gpc__cycles_elapsed.max",
        )
        cycles = self.first((*stems, "Elapsed Cycles"), _CYCLE)
        rates = tuple(
            f"{s}.avg.per_second"
            for s in ("sm__cycles_elapsed", "smsp__cycles_elapsed", "gpc__cycles_elapsed")
        )
        clock_hz = self.first((*rates, "SM Frequency"), ("cycle/second",))
        rated = np.full(
            len(self.pivot), np.nan if self.gpu is None else float(self.gpu.number("clock.sm_hz"))
        )
        whose = "" if self.gpu is None else f"of {self.gpu.name}'s description"
        if self.gpu is not None and self.gpu["clock.sm_hz"].source == SEEN:
            whose = f"of {rated[:1].sum() / 1e6:,.0f} MHz that was given"
        seconds = self.choose(
            ("", get("gpu__time_duration.sum", _SECOND)),
            ("", get("gpu__time_duration.avg", _SECOND)),
            ("", get("Duration", _SECOND)),
            (
                "time from cycles and the clock while it ran",
                cycles / np.where(clock_hz > 0, clock_hz, np.nan),
            ),
            ("time from the column Time, in seconds", get("Time", ("", "second"))),
            (f"time from cycles at the clock {whose}", cycles / rated),
            plain=3,
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            clock = np.where(np.isnan(clock_hz), cycles / seconds, clock_hz)
        clock = np.where(np.isfinite(clock) & (clock > 0), clock, np.nan)
        return seconds, np.where(cycles > 0, cycles, np.nan), clock

    def clock_of_issue(self, seconds: Floats) -> Floats:
        """The SM clock that the kernel had, in Hz, from what was issued: instructions over the share of its
        cycles in which a scheduler issued one, over time. NaN where the counters are not there.

        A tuner runs a kernel once for its time and again for its counters. Shares do not hang on the clock of
        the second run, so this is the clock of the first. A clock outside of what the board can have is a
        kernel whose runs differed, and is not used.
        """
        if self.gpu is None:
            return self.pivot.nothing()
        get = self.pivot.get
        active = get("smsp__issue_active.avg.pct_of_peak_sustained_active", ("%",)) / 100
        elapsed = Choice(
            self.pivot,
            ("", get("smsp__cycles_active.avg.pct_of_peak_sustained_elapsed", ("%",)) / 100),
            ("", np.ones(len(self.pivot))),
        ).value
        instructions = self.first(_INSTRUCTIONS, _INST)
        number = self.gpu.number
        schedulers = float(number("gpu.sms")) * float(number("sm.schedulers"))
        with np.errstate(divide="ignore", invalid="ignore"):
            clock = instructions / schedulers / active / elapsed / seconds
        highest = max(float(number("clock.boost_hz")), self.gpu["clock.sm_hz"].high or 0.0)
        possible = (clock >= number("clock.base_hz")) & (clock <= (1 + CLOCK_TOLERANCE) * highest)
        return np.where(possible, clock, np.nan)

    def integer_operations(self) -> Floats:
        """Thread operations on integers."""
        stem = "sass_thread_inst_executed_op_integer_pred_on.sum"
        return self.first((f"smsp__{stem}", f"sm__{stem}", "inst_integer"), _INST)

    def memory_requests(self, instructions: Floats, thread_instructions: Floats) -> Floats:
        """Warp-instructions that access memory: each is one request to the SM's shared structures."""
        kinds = [
            self.pivot.get(f"smsp__inst_executed_op_{space}_{op}.sum", _INST)
            for space in ("shared", "global", "local")
            for op in ("ld", "st")
        ]
        stem = "sass_thread_inst_executed_op_memory_pred_on.sum"
        threads = self.first((f"smsp__{stem}", f"sm__{stem}", "inst_compute_ld_st"), _INST)
        with np.errstate(divide="ignore", invalid="ignore"):
            lanes = thread_instructions / instructions
        return self.choose(
            ("", self.first(("smsp__inst_executed_pipe_lsu.sum", "sm__inst_executed_pipe_lsu.sum"), _INST)),
            ("", self.pivot.get("ldst_executed", _INST)),
            ("", np.asarray(np.sum(kinds, axis=0))),
            ("memory instructions from their threads, over the mean of active lanes", threads / lanes),
            plain=3,
        )

    def resident_warps(self) -> Floats:
        """Mean warps of an SM while it works; NaN where only a percentage is there and no description."""
        get = self.pivot.get
        percent = get("sm__warps_active.avg.pct_of_peak_sustained_active", ("%",)) / 100
        share = get("achieved_occupancy", ("ratio", ""))
        most = np.nan if self.gpu is None else float(self.gpu.number("sm.max_warps"))
        of_peak = Choice(self.pivot, ("", percent * most), ("", share * most)).value
        counted = get("sm__warps_active.avg.per_cycle_active", ("warp",))
        return Choice(self.pivot, ("", counted), ("", of_peak)).value

    def operations(self, operation: str, cycles: Floats) -> Floats:
        """Thread operations by precision, (launches, 3); NaN where not counted."""
        get = self.pivot.get
        columns = []
        for precision in PRECISIONS:
            stem = f"sass_thread_inst_executed_op_{_LETTERS[precision]}{operation}_pred_on.sum"
            value = self.choose(
                ("", get(f"smsp__{stem}", _INST)),
                ("", get(f"sm__{stem}", _INST)),
                ("", get(f"flop_count_{_NVPROF_LETTERS[precision]}_{operation}", ("flop", "inst", ""))),
                (
                    "operations from their rate a cycle",
                    get(f"smsp__{stem}.per_cycle_elapsed", ("inst/cycle",)) * cycles,
                ),
                plain=3,
            )
            columns.append(value)
        operations = np.stack(columns, axis=1)
        if operation == "fma":
            operations = self._of_any_kind(operations)
        known = ~np.isnan(operations)
        for i, precision in enumerate(PRECISIONS):
            self.flag(known.any(axis=1) & ~known[:, i], f"{precision} operations were not counted")
        return operations

    def _of_any_kind(self, fma: Floats) -> Floats:
        """Where a profile counts a precision's operations only all together, they are taken as
        multiply-adds."""
        for i, precision in enumerate(PRECISIONS):
            stem = f"sass_thread_inst_executed_op_{precision}_pred_on.sum"
            all_kinds = self.first((f"smsp__{stem}", f"sm__{stem}"), _INST)
            each = [
                f"smsp__sass_thread_inst_executed_op_{_LETTERS[precision]}{o}_pred_on.sum"
                for o in ("add", "mul")
            ]
            alone = np.isnan(fma[:, i]) & ~np.isnan(all_kinds)
            alone &= np.isnan(self.pivot.get(each[0], _INST)) & np.isnan(self.pivot.get(each[1], _INST))
            fma[:, i] = np.where(alone, all_kinds, fma[:, i])
            self.flag(alone & (all_kinds > 0), OF_ANY_KIND.format(precision))
        return fma

    def within_pipe(self, fma: Floats, in_pipe: Floats) -> Floats:
        """``fma`` (launches, 3), of FP32 no more than the multiply-add pipe had, ``in_pipe`` (launches,),
        where a profile counts FP32 operations of any kind: comparisons and minima are among them."""
        column = PRECISIONS.index("fp32")
        more = (fma[:, column] > in_pipe) & [OF_ANY_KIND.format("fp32") in noted for noted in self.flags]
        self.flag(more, "fp32 operations beyond those of the multiply-add pipe are comparisons")
        found = fma.copy()
        found[:, column] = np.where(more, in_pipe, fma[:, column])
        return found

    def tensor(
        self, operations: dict[str, Floats], all_instructions: Floats, thread_instructions: Floats
    ) -> Floats:
        """FLOPs of tensor cores; NaN where there are some that nobody can tell.

        Counters of matrix instructions, or of their operations, go first. ``pipe_tensor`` by itself is also
        fed by half-precision instructions (HFMA2): these are subtracted where they were counted, (launches,
        3) each in ``operations``, and what is left is flagged.
        """
        units = ("sm", "smsp")
        matrix = self.first(tuple(f"{u}__inst_executed_pipe_tensor_op_hmma.sum" for u in units), _INST)
        both = self.first(tuple(f"{u}__inst_executed_pipe_tensor.sum" for u in units), _INST)
        half = np.sum([operations[o][:, 0] for o in ("add", "mul", "fma")], axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            lanes = np.where(all_instructions > 0, thread_instructions / all_instructions, 32.0)
            packed = np.where(half > 0, half / 2 / np.where(np.isnan(lanes), 32.0, lanes), half)
        left = np.maximum(both - packed, 0.0)
        left = np.where(left <= SAME_COUNT * both, 0.0, left)  # counters of two passes of a profiler
        only_both = np.isnan(matrix) & (both > 0)
        self.flag(
            only_both & np.isnan(half),
            "tensor and half-precision instructions share a counter, and the latter were not counted apart: "
            "tensor operations are at most these",
        )
        self.flag(
            only_both & (left > 0) & (half > 0),
            "tensor instructions from what half-precision ones leave of the counter that both feed",
        )
        instructions = np.where(np.isnan(matrix), np.where(np.isnan(half), both, left), matrix)
        by_operations = self._tensor_operations()
        if not np.isnan(by_operations).all():
            untold = np.isnan(by_operations)
            return np.where(untold, self._flops_of(np.where(untold, instructions, 0.0)), by_operations)
        return self._flops_of(instructions)

    def _tensor_operations(self) -> Floats:
        """FLOPs as newer counters tell them by the types of the operands; NaN where none of them was
        collected."""
        types = (
            "src_fp16_dst_fp16",
            "src_fp16_dst_fp32",
            "src_bf16_dst_fp32",
            "src_tf32_dst_fp32",
            "src_fp64",
        )
        counts = [
            self.first(tuple(f"{u}__ops_path_tensor_{t}.sum" for u in ("sm", "smsp")), ("", "inst", "op"))
            for t in types
        ]
        counted = ~np.isnan(counts).all(axis=0)
        return np.where(counted, np.nansum(counts, axis=0), np.nan)

    def _flops_of(self, instructions: Floats) -> Floats:
        device = self.pivot.profile.device.compute_capability
        capability = self.gpu.compute_capability if self.gpu is not None else device
        each = TENSOR_FLOPS_PER_INSTRUCTION.get(capability or "", np.nan)
        some = instructions > 0
        if np.isnan(each):
            self.flag(
                some, f"tensor operations cannot be told from instructions at compute capability {capability}"
            )
        else:
            self.flag(some, f"tensor operations taken as {each:g} FLOPs an instruction (half precision)")
        return np.where(some, instructions * each, np.where(np.isnan(instructions), 0.0, instructions))

    def traffic(self, seconds: Floats) -> tuple[Floats, Floats, Floats]:
        """Bytes that traverse L1, L2 and DRAM; NaN and a flag where a level was not counted."""
        get = self.pivot.get

        def total(*names: str) -> Floats:
            counted = [get(n, ("transaction", "sector", "")) for n in names]
            return np.asarray(np.sum(counted, axis=0) * SECTOR_BYTES)

        lsu = [
            f"l1tex__t_sectors_pipe_lsu_mem_{m}_op_{o}.sum" for m in ("global", "local") for o in ("ld", "st")
        ]
        old_l1 = (
            "gld_transactions",
            "gst_transactions",
            "local_load_transactions",
            "local_store_transactions",
        )
        per_second = ("byte/second",)
        l1 = self.choose(
            ("", get("l1tex__t_bytes.sum", _BYTE)),
            ("", get("l1tex__t_sectors.sum", ("sector",)) * SECTOR_BYTES),
            ("L1 bytes from the sectors of loads and stores", total(*lsu)),
            ("L1 bytes from nvprof's transactions", total(*old_l1)),
            ("L1 bytes from their rate", get("l1tex__t_bytes.sum.per_second", per_second) * seconds),
            ("L1 bytes from its share of peak and time: at most these", self.of_peak("l1", seconds)),
            plain=2,
        )
        l2 = self.choose(
            ("", get("lts__t_bytes.sum", _BYTE)),
            ("", get("lts__t_sectors.sum", ("sector",)) * SECTOR_BYTES),
            ("", get("lts__t_bytes_op_read.sum", _BYTE) + get("lts__t_bytes_op_write.sum", _BYTE)),
            ("L2 bytes from nvprof's transactions", total("l2_read_transactions", "l2_write_transactions")),
            ("L2 bytes from their rate", get("lts__t_bytes.sum.per_second", per_second) * seconds),
            ("L2 bytes from its share of peak and time: at most these", self.of_peak("l2", seconds)),
            plain=3,
        )
        read_write = get("dram__bytes_read.sum", _BYTE) + get("dram__bytes_write.sum", _BYTE)
        dram = self.choose(
            ("", get("dram__bytes.sum", _BYTE)),
            ("", read_write),
            ("", get("dram_read_bytes", _BYTE) + get("dram_write_bytes", _BYTE)),
            (
                "DRAM bytes from nvprof's transactions",
                total("dram_read_transactions", "dram_write_transactions"),
            ),
            ("DRAM bytes from their rate", get("dram__bytes.sum.per_second", per_second) * seconds),
            ("DRAM bytes from its share of peak and time", self.of_peak("dram", seconds)),
            plain=3,
        )
        for name, values in (("L1", l1), ("L2", l2), ("DRAM", dram)):
            self.flag(np.isnan(values), f"no bytes at {name}: the level is left out")
        return l1, l2, dram

    def of_peak(self, level: str, seconds: Floats) -> Floats:
        """Bytes at a level where a profile holds shares of peaks and times only (Nsight Compute's section
        "Speed of Light"): the share times what the GPU's description allows.

        A throughput of L1 or L2 is the largest of several shares, of which bytes are one.
        """
        if self.gpu is None:
            return self.pivot.nothing()
        number = self.gpu.number
        sms = float(number("gpu.sms")) * float(number("clock.sm_hz"))
        names, peak = {
            "l1": (("l1tex__throughput.avg",), float(number("l1.bandwidth_bytes_per_cycle")) * sms),
            "l2": (("lts__throughput.avg", "lts__t_sectors.avg"), float(number("l2.bandwidth_bytes_per_s"))),
            "dram": (
                ("dram__throughput.avg", "gpu__dram_throughput.avg", "dram__bytes.sum"),
                float(number("dram.bandwidth_bytes_per_s")),
            ),
        }[level]
        kinds = ("pct_of_peak_sustained_elapsed", "pct_of_peak_sustained_active")
        percent = self.first(tuple(f"{n}.{k}" for n in names for k in kinds), ("%",))
        return np.asarray(percent / 100 * peak * seconds)

    def stored(self) -> Floats:
        """Bytes of the sectors that global stores write."""
        sectors = self.pivot.get("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", ("sector",))
        old = self.pivot.get("gst_transactions", ("transaction", ""))
        return Choice(self.pivot, ("", sectors), ("", old)).value * SECTOR_BYTES

    def shared(self) -> tuple[Floats, Floats]:
        """(wavefronts, ideal wavefronts) of shared memory; 0 where nothing was counted.

        The sum over kinds of access goes first: ``..._mem_shared.sum`` also counts a pass for each warp of
        kernels that use no shared memory.
        """
        get = self.pivot.get
        stem = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
        kinds = np.sum([get(f"{stem}_op_{o}.sum", _PASSES) for o in ("ld", "st", "atom")], axis=0)
        loads, stores = (get(f"shared_{o}_transactions", ("transaction",)) for o in ("load", "store"))
        wavefronts = self.choose(
            ("", kinds),
            ("", get(f"{stem}.sum", _PASSES)),
            ("", get(f"{stem}_op_ld.sum", _PASSES) + get(f"{stem}_op_st.sum", _PASSES)),
            ("", loads + stores),
            ("", self.pivot.nothing()),
            plain=5,
        )
        conflicts = get("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", _PASSES)
        ideal = Choice(
            self.pivot,
            ("", get("smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_ideal.sum", _PASSES)),
            ("", np.maximum(wavefronts - conflicts, 0.0)),
            ("", wavefronts),
        ).value
        wavefronts = np.where(np.isnan(wavefronts), 0.0, wavefronts)
        return wavefronts, np.minimum(np.where(np.isnan(ideal), 0.0, ideal), wavefronts)

    def shared_bytes(self, ideal: Floats) -> Floats:
        """Bytes that threads accessed in shared memory; where not counted, those of full passes."""
        counted = self.pivot.get("smsp__sass_data_bytes_mem_shared.sum", _BYTE)
        return Choice(self.pivot, ("", counted), ("", ideal * PASS_BYTES)).value

    def instructions(self) -> tuple[Floats, Floats]:
        """(warp-instructions, their active threads)."""
        get = self.pivot.get
        warp = self.first(_INSTRUCTIONS, _INST)
        if self.gpu is not None:
            active = get("smsp__issue_active.avg.pct_of_peak_sustained_active", ("%",)) / 100
            schedulers = self.gpu.number("gpu.sms") * self.gpu.number("sm.schedulers")
            issued = active * schedulers * self.gpu.number("clock.sm_hz") * self.time()[0]
            note = "instructions from the share of cycles that issue one, at the rated clock"
            warp = self.choose(("", warp), (note, issued))
        ratio = get("smsp__thread_inst_executed_per_inst_executed.ratio", ("", "thread", "inst", "ratio"))
        threads = Choice(
            self.pivot,
            ("", self.first(("smsp__thread_inst_executed.sum", "sm__thread_inst_executed.sum"), _INST)),
            ("", get("thread_inst_executed", _INST)),
            ("", warp * ratio),
        ).value
        return warp, threads

    def launch(self) -> dict[str, Floats]:
        """The launch's grid, block, registers and shared memory."""
        count, registers = ("", "block", "thread"), ("register/thread", "")
        size = ("byte/block", "byte", "")
        get = self.pivot.get
        static = self.first(("launch__shared_mem_per_block_static", "Static Shared Memory Per Block"), size)
        dynamic = self.first(
            ("launch__shared_mem_per_block_dynamic", "Dynamic Shared Memory Per Block"), size
        )
        parts = static + dynamic
        whole = get("launch__shared_mem_per_block", size)
        return {
            "blocks": self.first(("launch__grid_size", "Grid Size"), count),
            "threads_per_block": self.first(("launch__block_size", "Block Size"), count),
            "registers_per_thread": self.first(
                ("launch__registers_per_thread", "Registers Per Thread"), registers
            ),
            "shared_bytes_per_block": np.where(np.isnan(parts), whole, parts),
        }

    def dram_peak(self, dram: Floats, seconds: Floats) -> Floats:
        """The rated bandwidth that the profile's own percentage implies, where the percentage is at least
        20 (rounded to 0.01)."""
        names = tuple(
            f"{n}.pct_of_peak_sustained_elapsed"
            for n in ("dram__bytes.sum", "dram__throughput.avg", "gpu__dram_throughput.avg")
        )
        percent = self.first(names, ("%",))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(percent >= 20, dram / seconds / (percent / 100), np.nan)
