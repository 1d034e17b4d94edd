"""Advice on the kernels of a profile, or on samples from a simulated run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from smlab.commands.arguments import a_gpu, a_path, a_whole
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, list_gpus, load_gpu
from smlab.hw_bench.profiles.ncu_rep_samples import read_report_samples
from smlab.hw_bench.profiles.sample_code import aligned, code_of, read_functions
from smlab.hw_bench.profiles.sample_files import read_samples
from smlab.hw_bench.profiles.samples import KernelSamples
from smlab.hw_bench.sass import Function
from smlab.models.advisor.advice import Advice, advise
from smlab.models.advisor.blame import MODES, Blamed, blame
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.latencies import described_latencies
from smlab.models.advisor.matching import Context

DEFAULT_GPU = "v100"
"""Whose latencies serve where a profile does not say on which GPU it was made."""


@dataclass(frozen=True)
class KernelAdvice:
    """Advice on one kernel, the most promising first; ``context`` is what the optimizers saw, or None for
    samples by source line without code."""

    samples: KernelSamples
    gpu: Gpu
    blamed: Blamed | None
    context: Context | None
    advice: tuple[Advice, ...]
    note: str = ""

    @property
    def code(self) -> AdvisedCode | None:
        return None if self.context is None else self.context.code


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
        gpu: a name or description; by default the profile's own by its compute capability.
        name: only the kernels whose name contains this.
        top: how much advice for each kernel.
        mode: how stalls are blamed, one of `smlab.models.advisor.blame.MODES`.

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
    return tuple(advise_kernel(k, functions, description, top, mode) for k in chosen)


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
    return KernelAdvice(samples, description, blamed, context, advise(context)[:top], note)


def _gpu_of(samples: KernelSamples, function: Function | None) -> tuple[Gpu, str]:
    """The description with the profile's compute capability, else the nearest older one, else V100."""
    text = samples.architecture or (function.architecture if function is not None else None)
    digits = "".join(c for c in text or "" if c.isdigit())
    if not digits:
        return load_gpu(DEFAULT_GPU), f"the GPU is not known: latencies are those of {DEFAULT_GPU}"
    wanted = int(digits)
    known = [(int(g.sm_architecture.removeprefix("sm_")), g) for g in map(load_gpu, list_gpus())]
    same = [g for number, g in known if number == wanted]
    if same:
        return same[0], ""
    number, nearest = max(
        ((n, g) for n, g in known if n <= wanted),
        key=lambda row: row[0],
        default=min(known, key=lambda r: r[0]),
    )
    return nearest, f"no description for sm_{wanted}: latencies are those of {nearest.name} (sm_{number})"
