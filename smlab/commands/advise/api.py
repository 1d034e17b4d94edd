"""``smlab.advise``: advice on the kernels of a profile, or on a simulated run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smlab.commands.advise.kernel_advice import KernelAdvice
from smlab.commands.advise.printing import document, place
from smlab.commands.advise.ranking import LEAST_GAIN, ranked
from smlab.commands.arguments import a_gpu, a_path, a_whole
from smlab.commands.frames import TabularResult
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, list_gpus, load_gpu
from smlab.hw_bench.gpu.devices import gpu_called
from smlab.hw_bench.profiles.pc_samples.ncu_report import read_report_samples
from smlab.hw_bench.profiles.pc_samples.sample_code import aligned, code_of, read_functions
from smlab.hw_bench.profiles.pc_samples.sample_files import read_samples
from smlab.hw_bench.profiles.pc_samples.samples import KernelSamples
from smlab.hw_bench.sass import Function
from smlab.models.advisor import advice as advisor
from smlab.models.advisor.changes.matching import Context
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.stall_causes.blame import MODES, blame
from smlab.models.advisor.stall_causes.latencies import described_latencies
from smlab.models.advisor.track_record import record_of
from smlab.sim.execution.run import MachineRun
from smlab.validation.sampled_run import executed

if TYPE_CHECKING:
    import pandas as pd

DEFAULT_GPU = "v100"
"""Whose latencies serve where a profile does not say on which GPU it was made."""


@dataclass(frozen=True)
class AdviceResult(TabularResult):
    """Advice on one or several kernels, each with its samples, blame and advice, the most promising first."""

    kernels: tuple[KernelAdvice, ...]

    def __repr__(self) -> str:
        told = [f"{k.samples.kernel}: {len(k.advice)} pieces of advice" for k in self.kernels]
        return f"<advice on {len(self.kernels)} kernels: {'; '.join(told)}>"

    def to_dict(self) -> dict[str, Any]:
        """All of it, with blame and chains, as ``smlab advise --json`` prints it."""
        return document(self.kernels)

    def to_dataframe(self) -> pd.DataFrame:
        """One row a piece of advice: expected speedup with its interval, the estimate of the published
        equations, where it matches first, and how such advice fared in simulation."""
        import pandas as pd

        rows = []
        for kernel in self.kernels:
            for rank, one in enumerate(ranked(kernel), start=1):
                advice = one.advice
                if advice is None:
                    continue
                spot = place(kernel, advice.match.hotspots[0]) if advice.match.hotspots else {}
                record = record_of(advice.optimizer.name)
                rows.append(
                    {
                        "kernel": kernel.samples.kernel,
                        "rank": rank,
                        "optimizer": advice.optimizer.name,
                        "speedup": None if one.how == "ranked" else one.speedup,
                        "low": None if one.how == "ranked" else one.low,
                        "high": None if one.how == "ranked" else one.high,
                        "how": one.how,
                        "speedup_published": advice.paper,
                        "matched_share": advice.match.matched / max(kernel.samples.samples, 1),
                        "address": spot.get("address"),
                        "line": spot.get("line"),
                        "why": advice.match.why,
                        "record_changes": record.n,
                        "record_mape_percent": record.mape,
                    }
                )
        return pd.DataFrame(rows)


def advise(
    profile: str | Path | MachineRun,
    *,
    code: str | Path | None = None,
    gpu: str | Path | Gpu | None = None,
    name: str | None = None,
    top: int = 5,
    mode: str = "smlab",
) -> AdviceResult:
    """What to change in kernels, where, and what it would gain.

    Args:
        profile: a ``.ncu-rep``, ncu's source page as CSV, a table of ``smsp__pcsamp`` metrics by PC, the
        samples of ``smlab run --samples``; or a run of `smlab.run` that recorded everything
        (``keep=Record.ALL``).
        code: a cubin or listing, where the profile does not hold the code.
        gpu: a name or description; by default the one that the profile names, else one of its architecture;
        a run's own.
        name: only the kernels whose name contains this.
        top: how much advice for each kernel.
        mode: how stalls are blamed: ``smlab``, ``as-published`` (Zhou et al.'s paper), ``as-coded``.

    Raises:
        SmlabError: what cannot be read, or does not fit together, in one line.
    """
    if not isinstance(profile, MachineRun):
        return AdviceResult(advice_on(profile, code=code, gpu=gpu, name=name, top=top, mode=mode))
    a_whole("top", top, 1)
    if profile.result.issues is None or profile.result.spans is None or profile.result.jobs is None:
        raise SmlabError.at("profile", "the run recorded too little", None, "smlab.run(..., keep=Record.ALL)")
    if code is not None:
        raise SmlabError.at("code", "a run has its own", code, "no code")
    description = a_gpu("gpu", profile.lowered.machine.name if gpu is None else gpu)
    function = profile.launch.image.function
    samples = executed(profile, description).samples()
    return AdviceResult((advise_kernel(samples, (function,), description, top, mode),))


def advice_on(
    profile: str | Path,
    *,
    code: str | Path | None = None,
    gpu: str | Path | Gpu | None = None,
    name: str | None = None,
    top: int = 5,
    mode: str = "smlab",
) -> tuple[KernelAdvice, ...]:
    """Advice on every kernel of a profile.

    Args:
        profile: a ``.ncu-rep``, ncu's source page as CSV, a table of ``smsp__pcsamp`` metrics by PC, or the
        samples of ``smlab run --samples``.
        code: a cubin or listing, where the profile does not hold the code.
        gpu: a name or description; by default the one that the profile names, else one of its architecture.
        name: only the kernels whose name contains this.
        top: how much advice for each kernel.
        mode: how stalls are blamed, one of `smlab.models.advisor.stall_causes.blame.MODES`.

    Raises:
        SmlabError: what cannot be read, or does not fit together, in one line.
    """
    path = a_path("profile", profile)
    a_whole("top", top, 1)
    functions = read_functions(a_path("code", code)) if code is not None else ()
    is_report = path.suffix == ".ncu-rep"
    kernels = read_report_samples(path) if is_report else (read_samples(path),)
    chosen = [k for k in kernels if name is None or name in k.kernel]
    if not chosen:
        names = ", ".join(k.kernel for k in kernels)
        raise SmlabError.at(str(path), "holds no kernel of that name", name, f"one of {names}")
    description = None if gpu is None else a_gpu("gpu", gpu)
    if len(chosen) == 1:
        return (advise_kernel(chosen[0], functions, description, top, mode),)
    told = [_or_refusal(k, functions, description, top, mode) for k in chosen]
    if all(isinstance(one, SmlabError) for one in told):
        raise next(one for one in told if isinstance(one, SmlabError))
    pairs = zip(chosen, told, strict=True)
    return tuple(_refused(k, one) if isinstance(one, SmlabError) else one for k, one in pairs)


def _or_refusal(
    samples: KernelSamples, functions: tuple[Function, ...], gpu: Gpu | None, top: int, mode: str
) -> KernelAdvice | SmlabError:
    try:
        return advise_kernel(samples, functions, gpu, top, mode)
    except SmlabError as error:
        return error


def _refused(samples: KernelSamples, error: SmlabError) -> KernelAdvice:
    """A kernel of several that there is no advice on, as its code does not match or its GPU is not known."""
    called = None if samples.device is None else gpu_called(samples.device)
    note = f"no advice on {samples.kernel}: {error}"
    return KernelAdvice(samples, called or load_gpu(DEFAULT_GPU), None, None, (), note)


def advise_kernel(
    samples: KernelSamples,
    functions: tuple[Function, ...] = (),
    gpu: Gpu | None = None,
    top: int = 5,
    mode: str = "smlab",
) -> KernelAdvice:
    """Advice on one kernel's samples."""
    if mode not in MODES:
        raise SmlabError.at("mode", "unknown", mode, "one of " + ", ".join(MODES))
    function = code_of(samples, functions)
    if gpu is not None:
        _check_architecture(samples, function, gpu)
    description, note = (gpu, "") if gpu is not None else _gpu_of(samples, function)
    if function is None:
        what = "samples by source line without code: stalls stay at their lines (give --code)"
        return KernelAdvice(samples, description, None, None, (), what)
    samples = aligned(samples, function)
    code = AdvisedCode(function)
    latencies = described_latencies(description)
    blamed = blame(code, samples, mode, latencies)
    context = Context(code, samples, blamed, description, latencies)
    if not code.has_control_codes:
        note = f"{note}; " if note else ""
        note += "the code has no encodings: stalls are blamed by registers alone"
    found = tuple(a for a in advisor.advise(context) if a.speedup >= LEAST_GAIN)[:top]
    return KernelAdvice(samples, description, blamed, context, found, note, top=top)


def _check_architecture(samples: KernelSamples, function: Function | None, gpu: Gpu) -> None:
    """
    Raises:
        SmlabError: a GPU of another major compute capability than the profile's code is of.
    """
    text = samples.architecture or (function.architecture if function is not None else None) or ""
    digits = "".join(c for c in text if c.isdigit())
    if digits and int(digits) // 10 != int(gpu.sm_architecture.removeprefix("sm_")) // 10:
        of = f"the profile is of sm_{digits}"
        raise SmlabError.at(samples.where, of, gpu.name, f"--gpu with a GPU of sm_{int(digits) // 10}x")


def _gpu_of(samples: KernelSamples, function: Function | None) -> tuple[Gpu, str]:
    """The description of the GPU that the profile names; where it names none, one of its architecture; where
    it has none, V100, with a note.

    Raises:
        SmlabError: a GPU, or an architecture, that has no description.
    """
    if samples.device is not None:
        called = gpu_called(samples.device)
        if called is None:
            expected = "--gpu with a name that `smlab gpus` lists, or with a description's path"
            raise SmlabError.at(samples.where, "no description of this GPU", samples.device, expected)
        return called, ""
    text = samples.architecture or (function.architecture if function is not None else None)
    digits = "".join(c for c in text or "" if c.isdigit())
    if not digits:
        return load_gpu(DEFAULT_GPU), f"the GPU is not known: latencies are those of {DEFAULT_GPU}"
    wanted = int(digits)
    known = [(int(g.sm_architecture.removeprefix("sm_")), g) for g in map(load_gpu, list_gpus())]
    same = [g for number, g in known if number == wanted]
    if same:
        return same[0], "" if len(same) == 1 else (
            f"the profile says sm_{wanted} and no name: taken as {same[0].name} (--gpu tells)"
        )
    expected = "--gpu with a description's path"
    raise SmlabError.at(
        samples.where, "no description of a GPU of this architecture", f"sm_{wanted}", expected
    )
