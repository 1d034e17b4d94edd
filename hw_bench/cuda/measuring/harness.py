"""Running the suite on a GPU and keeping what it measures, with all that is needed to trust or to repeat
it."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from smlab.hw_bench.cuda import registry
from smlab.hw_bench.cuda.contract.check import check
from smlab.hw_bench.cuda.contract.compiler import examine
from smlab.hw_bench.cuda.measuring import plan, suite
from smlab.hw_bench.cuda.measuring.clocks import ClockReading, Clocks
from smlab.hw_bench.cuda.measuring.dataset import DataSet
from smlab.hw_bench.cuda.measuring.driver import StandIn, cuda, using
from smlab.hw_bench.cuda.measuring.launch import running_cubin
from smlab.hw_bench.cuda.measuring.timing import ClockRate, clock_rate, empty_seconds, launches_not_held
from smlab.hw_bench.cuda.toolkit import SIMULATED, is_of_toolkit, one_line, package_versions, require_gpu
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sources import commit

_SLOW = 0.97
"""A launch counts as throttled when the SM clock behind it is below this share of the highest seen."""


@dataclass(frozen=True)
class SuiteOutcome:
    """What a run came to: rows by benchmark, wrong results, kernels whose machine code broke the contract."""

    rows: dict[str, int]
    wrong: list[str]
    broken: list[str]
    interrupted: bool


class _Throttle:
    """Remembers the highest clock seen, and tells when the GPU runs below it or says that it is held back."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._highest = 0
        self.seen: list[ClockReading] = []

    def __call__(self) -> bool:
        reading = self._clocks.read()
        if reading is None:
            return False
        self.seen.append(reading)
        if reading.sm_mhz is None:
            return bool(reading.slowdowns)
        self._highest = max(self._highest, reading.sm_mhz)
        return bool(reading.slowdowns) or reading.sm_mhz < _SLOW * self._highest


def this_gpu() -> plan.DeviceLimits:
    """The current GPU, or the stand-in for one; under Numba's simulator, one of a single SM."""
    if cuda.stand_in is not None:
        limits: plan.DeviceLimits = cuda.stand_in.limits
        return limits
    if SIMULATED:
        return plan.DeviceLimits("simulated", "0.0", 1, 32, 4096)
    device = cuda.get_current_device()
    name = device.name
    return plan.DeviceLimits(
        name=name.decode() if isinstance(name, bytes) else str(name),
        compute_capability="{}.{}".format(*device.compute_capability),
        sms=int(device.MULTIPROCESSOR_COUNT),
        max_warps=int(device.MAX_THREADS_PER_MULTIPROCESSOR) // 32,
        l2_bytes=int(device.L2_CACHE_SIZE),
    )


def measure(
    out: Path,
    *,
    profile: str = "full",
    benchmarks: Sequence[str] = plan.BENCHMARKS,
    resume: bool = False,
    progress: Callable[[str], None] = lambda line: None,
    stand_in: StandIn | None = None,
) -> SuiteOutcome:
    """Run ``benchmarks`` and write a data set of each into ``out``. Ctrl-C ends the run and keeps what was
    measured; so does any error. Only a data set that came to its end says that it is ``complete``; another
    names the error as its ``failure``. A ``stand_in`` is measured in a GPU's place; the data set says so.

    Raises:
        SmlabError: when there is no GPU, saying what is missing; for an unknown profile or benchmark; when
            CUDA fails midway (out of memory, a launch that fails, a GPU that is lost).
    """
    plan.profile(profile)
    for name in benchmarks:
        if name not in plan.COLUMNS:
            raise SmlabError.at(
                "benchmark", "the suite does not run it", name, "one of " + ", ".join(plan.COLUMNS)
            )
    if stand_in is not None:
        with using(stand_in):
            return _measure(out, profile, benchmarks, resume, progress)
    if not SIMULATED:
        require_gpu()
    return _measure(out, profile, benchmarks, resume, progress)


def _measure(
    out: Path, profile: str, benchmarks: Sequence[str], resume: bool, progress: Callable[[str], None]
) -> SuiteOutcome:
    """On the device in force."""
    chosen = plan.profile(profile)
    gpu, clocks = this_gpu(), _clocks()
    throttle = _Throttle(clocks)
    rows: dict[str, int] = {}
    wrong: list[str] = []
    broken: list[str] = []
    interrupted = False
    for name in benchmarks:
        about = _about(gpu, clocks, profile)
        data = DataSet(out, name, plan.COLUMNS[name], about, resume)
        before = clocks.read()
        rows[name] = 0
        rate_before: ClockRate | None = None
        rate_after: ClockRate | None = None
        empty_s: float | None = None
        faults: list[str] = []
        codes: dict[str, dict[str, Any]] = {}
        complete, failure = False, None
        try:
            rate_before, empty_s = clock_rate(), empty_seconds()
            for batch in suite.run(name, chosen, gpu, data.done, throttle):
                data.add(
                    batch.name, batch.rows, batch.samples, {**batch.about, "wrong_results": len(batch.wrong)}
                )
                rows[name] += len(batch.rows)
                faults.extend(f"{name} {batch.name}: {line}" for line in batch.wrong)
                progress(f"{name} {batch.name}: {len(batch.rows)} rows")
            codes = _codes(name)
            rate_after = clock_rate()
            complete = True
        except KeyboardInterrupt:
            interrupted = True
        except Exception as error:
            failure = one_line(error)
            if is_of_toolkit(error):
                kept = f"{rows[name]} rows are kept in {data.table}; --resume continues"
                raise SmlabError(f"{name}: {failure} ({kept})") from error
            raise
        finally:
            data.close(
                ended=datetime.now(UTC).isoformat(timespec="seconds"),
                complete=complete,
                failure=failure,
                clocks_before=before and before.as_json(),
                clocks_after=(after := clocks.read()) and after.as_json(),
                clocks_during=_clock_range(throttle),
                sm_clock_before=rate_before and asdict(rate_before),
                sm_clock_after=rate_after and asdict(rate_after),
                empty_kernel_seconds=empty_s,
                launches_not_held=launches_not_held(),
                wrong_results=faults[:100],
                machine_code=codes,
            )
        wrong.extend(faults)
        broken.extend(
            f"{name} {kernel}: {code['fault']}" for kernel, code in codes.items() if code.get("fault")
        )
        if interrupted:
            break
    return SuiteOutcome(rows, wrong, broken, interrupted)


def _clocks() -> Clocks:
    """The clocks of the current GPU."""
    if SIMULATED or cuda.stand_in is not None:
        return Clocks(there=False)
    device = cuda.get_current_device()
    uuid = getattr(device, "uuid", None)
    place = [getattr(device, name, None) for name in ("PCI_DOMAIN_ID", "PCI_BUS_ID", "PCI_DEVICE_ID")]
    known = [int(number) for number in place if number is not None]
    address = "{:08X}:{:02X}:{:02X}.0".format(*known) if len(known) == len(place) else None
    return Clocks(uuid and str(uuid), address)


def _about(gpu: plan.DeviceLimits, clocks: Clocks, profile: str) -> dict[str, Any]:
    device = cuda.stand_in
    runtime = None
    if device is None and not SIMULATED:
        runtime = ".".join(map(str, cuda.runtime.get_version()))
    return {
        **({} if device is None else {"SIMULATED": device.remark}),
        "profile": profile,
        "gpu": gpu.name,
        "compute_capability": gpu.compute_capability,
        "sms": gpu.sms,
        "max_warps_per_sm": gpu.max_warps,
        "l2_bytes": gpu.l2_bytes,
        "driver": clocks.driver,
        "settings": clocks.settings(),
        "host": platform.node(),
        "smlab": package_versions(("smlab",)).get("smlab"),
        "commit": commit(),
        "cuda_runtime": runtime,
        "python": platform.python_version(),
        "packages": package_versions(),
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _clock_range(throttle: _Throttle) -> dict[str, Any] | None:
    if not throttle.seen:
        return None
    mhz = [reading.sm_mhz for reading in throttle.seen if reading.sm_mhz is not None]
    return {
        "readings": len(throttle.seen),
        "sm_mhz_min": min(mhz, default=None),
        "sm_mhz_median": float(np.median(mhz)) if mhz else None,
        "sm_mhz_max": max(mhz, default=None),
        "slowdowns": sorted({word for reading in throttle.seen for word in reading.slowdowns}),
    }


def _codes(name: str) -> dict[str, dict[str, Any]]:
    """The digest of each kernel's running machine code, and whether it keeps the contract where nvdisasm
    is at hand."""
    codes: dict[str, dict[str, Any]] = {}
    for spec in registry.benchmark(name).kernels():
        cubin = running_cubin(spec)
        if cubin is None:
            continue
        code: dict[str, Any] = {}
        try:
            compiled = examine(spec, cubin)
            code["sha256"] = compiled.code_sha256
            result = check(spec, compiled)
            code["keeps_contract"] = result.ok
            if not result.ok:
                code["fault"] = result.message
        except (SmlabError, StopIteration) as error:
            code["not_checked"] = str(error)
        codes[spec.name] = code
    return codes
