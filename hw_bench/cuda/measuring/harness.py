"""Running the suite on a GPU and keeping what it measures, with all that is needed to trust or to repeat
it."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from smlab.hw_bench.cuda import registry
from smlab.hw_bench.cuda.contract.check import check
from smlab.hw_bench.cuda.contract.compiler import examine, own_resources
from smlab.hw_bench.cuda.measuring import plan, suite
from smlab.hw_bench.cuda.measuring.clocks import Clocks, Throttle
from smlab.hw_bench.cuda.measuring.dataset import DataSet
from smlab.hw_bench.cuda.measuring.driver import FakeDriver, cuda, using
from smlab.hw_bench.cuda.measuring.launch import running_cubin
from smlab.hw_bench.cuda.measuring.timing import (
    ClockRate,
    clock_rate,
    empty_seconds,
    launches_not_held,
    settled_clock_rate,
    under_profiler,
)
from smlab.hw_bench.cuda.toolkit import SIMULATED, is_of_toolkit, one_line, package_versions, require_gpu
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sources import commit


@dataclass(frozen=True)
class SuiteOutcome:
    """What a run came to: rows by benchmark, wrong results, kernels whose machine code broke the contract,
    and batches that are not kept since the GPU was held back in them."""

    rows: dict[str, int]
    wrong: list[str]
    broken: list[str]
    interrupted: bool
    held_back: list[str] = field(default_factory=list)


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
    keep_held_back: bool = False,
    progress: Callable[[str], None] = lambda line: None,
    stand_in: FakeDriver | None = None,
) -> SuiteOutcome:
    """Run ``benchmarks`` and write a data set of each into ``out``. Ctrl-C ends the run and keeps what was
    measured; so does any error, though the benchmarks behind it are measured where the GPU still answers.
    Only a data set that came to its end says that it is ``complete``; another names the error as its
    ``failure``. A batch in which the GPU was held back (a power cap, heat) in every
    launch of a series is left out, for ``resume`` to measure, unless ``keep_held_back``. A ``stand_in`` is
    measured in a GPU's place; the data set says so.

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
            return _measure(out, profile, benchmarks, resume, keep_held_back, progress)
    if not SIMULATED:
        require_gpu()
    with warnings.catch_warnings(), under_profiler(plan.profile(profile).profiler):
        # Numba's advice on grids, in bold where it can: the small ones here are meant.
        warnings.filterwarnings("ignore", message=r"(\x1b\[\d+m)?Grid size")
        return _measure(out, profile, benchmarks, resume, keep_held_back, progress)


def _measure(
    out: Path,
    profile: str,
    benchmarks: Sequence[str],
    resume: bool,
    keep_held_back: bool,
    progress: Callable[[str], None],
) -> SuiteOutcome:
    """On the device in force."""
    chosen = plan.profile(profile)
    if cuda.stand_in is not None:
        chosen = plan.for_simulator(chosen)
    gpu, clocks = this_gpu(), _clocks()
    throttle = Throttle(clocks)
    rows: dict[str, int] = {}
    wrong: list[str] = []
    broken: list[str] = []
    held_back: list[str] = []
    failed: list[SmlabError] = []
    interrupted = False
    for name in benchmarks:
        no_code = _no_code_of(name, gpu)
        about = _about(gpu, clocks, profile) | {"no_code_of": no_code}
        if no_code:
            progress(f"{name}: left out, {gpu.architecture} has no code of it: {', '.join(no_code)}")
        data = DataSet(out, name, plan.COLUMNS[name], about, resume)
        before = clocks.read()
        rows[name] = 0
        rate_before: ClockRate | None = None
        rate_after: ClockRate | None = None
        empty_s: float | None = None
        faults: list[str] = []
        late: list[str] = []
        codes: dict[str, dict[str, Any]] = {}
        complete, failure = False, None
        context = None
        try:
            context = _context()
            rate_before, empty_s = settled_clock_rate(), empty_seconds()
            for batch in suite.run(name, chosen, gpu, data.done, throttle):
                if batch.held_back and not keep_held_back:
                    late.append(f"{name} {batch.name}: {', '.join(batch.held_back[:3])}")
                    progress(f"{name} {batch.name}: not kept, the GPU was held back")
                    continue
                details = {**batch.about, "wrong_results": len(batch.wrong)}
                if batch.held_back:
                    details["held_back"] = list(batch.held_back)
                data.add(batch.name, batch.rows, batch.samples, details)
                rows[name] += len(batch.rows)
                faults.extend(f"{name} {batch.name}: {line}" for line in batch.wrong)
                progress(f"{name} {batch.name}: {len(batch.rows)} rows")
            rate_after = clock_rate()
            codes = _codes(name, gpu)
            complete, failure = not late, throttle.describe(late) if late else None
        except KeyboardInterrupt:
            interrupted = True
        except Exception as error:
            failure = str(error) if isinstance(error, SmlabError) else one_line(error)
            if not (is_of_toolkit(error) or isinstance(error, SmlabError)):
                raise
            kept = f"{data.rows} rows are kept in {data.table}; --resume continues"
            failed.append(SmlabError(f"{name}: {failure} ({kept})"))
            failed[-1].__cause__ = error
        finally:
            data.close(
                ended=datetime.now(UTC).isoformat(timespec="seconds"),
                complete=complete,
                failure=failure,
                clocks_before=before and before.as_json(),
                clocks_after=(after := clocks.read()) and after.as_json(),
                clocks_during=throttle.as_json(),
                not_kept=late,
                sm_clock_before=rate_before and asdict(rate_before),
                sm_clock_after=rate_after and asdict(rate_after),
                empty_kernel_seconds=empty_s,
                launches_not_held=launches_not_held(),
                wrong_results=[*data.wrong_before, *faults][:100],
                machine_code=codes,
            )
        wrong.extend([*data.wrong_before, *faults])
        held_back.extend(late)
        broken.extend(
            f"{name} {kernel}: {code['fault']}" for kernel, code in codes.items() if code.get("fault")
        )
        if interrupted:
            break
        if failure is not None and failed and not _answers(context):
            _leave_the_gpu(context)
            raise failed[-1]
    if failed:
        raise failed[0]
    return SuiteOutcome(rows, wrong, broken, interrupted, held_back)


_LEFT: Final = ExitStack()
"""Never closed: see `_leave_the_gpu`."""


def _context() -> Any:
    """Numba's context on the current GPU; None where there is no GPU."""
    return None if SIMULATED or cuda.stand_in is not None else cuda.current_context()


def _answers(context: Any) -> bool:
    """Whether a GPU on which something failed can go on: most faults end all that follows in its context."""
    if context is None:
        return cuda.stand_in is not None or SIMULATED
    try:
        cuda.synchronize()
    except Exception:  # of the driver, whichever
        return False
    return True


def _leave_the_gpu(context: Any) -> None:
    """Free nothing any more on a GPU that failed: each attempt, at the program's end too, would fail and say
    so. ``context`` is Numba's, from before the failure: to ask for it now would fail as well."""
    if context is not None:
        _LEFT.enter_context(context.defer_cleanup())


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
        "clocks_not_told": clocks.missing,
        "settings": clocks.settings(),
        "host": platform.node(),
        "smlab": package_versions(("smlab",)).get("smlab"),
        "commit": commit(),
        "cuda_runtime": runtime,
        "python": platform.python_version(),
        "packages": package_versions(),
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _no_code_of(name: str, gpu: plan.DeviceLimits) -> list[str]:
    """The kernels that this GPU's architecture has no code of."""
    if SIMULATED:
        return []
    return [s.name for s in registry.benchmark(name).kernels() if not s.supports(gpu.architecture)]


def _codes(name: str, gpu: plan.DeviceLimits) -> dict[str, dict[str, Any]]:
    """The digest of each kernel's running machine code, its registers and shared memory, and whether it keeps
    the contract where nvdisasm is at hand."""
    codes: dict[str, dict[str, Any]] = {}
    for spec in registry.benchmark(name).kernels():
        cubin = running_cubin(spec) if spec.supports(gpu.architecture) else None
        if cubin is None:
            continue
        code: dict[str, Any] = {}
        try:
            code |= own_resources(cubin)
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
