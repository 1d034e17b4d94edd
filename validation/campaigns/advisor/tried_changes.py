"""Kernels of ours, whose changes a macro makes: what `smlab advise` says of them by trying.

A seeded draw of the kernels that rules of the replay were shaped on, and of the nine rounds. A kernel's text
is what the C preprocessor makes of it, so that the command sees a kernel as a person writes one. It runs on a
GPU with `SMS` SMs, described by their share of a V100. The truth of a kind of change is the best of its
changes, simulated by the command (`--try`).
"""

from __future__ import annotations

import random
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import Gpu, load_gpu
from smlab.validation.campaigns.advisor.kernels import KERNELS, ROUNDS, Change, StudyKernel
from smlab.validation.campaigns.advisor.pairs import ALL, RULES, PairAnswer, answer_of, command
from smlab.validation.campaigns.advisor.simulate import SMS

SEED: Final = 20261126
DRAWN: Final = 20
"""Kernels."""
GPU: Final = "v100"
_SCALED: Final = (
    "l2.bandwidth_bytes_per_s",
    "dram.bandwidth_bytes_per_s",
    "dram.sustained_bandwidth_bytes_per_s",
)
"""What all SMs share; so are the rates that begin with ``peak``."""
LAUNCHES: Final = ("block-increase", "thread-increase", "block-size")
_SLOWED: Final = ("gpu.block_dispatch_cycles",)


def drawn() -> list[StudyKernel]:
    """The kernels, in the order of the draw; those whose changes are more or other work are left out."""
    every = [*KERNELS, *(kernel for round_of in ROUNDS.values() for kernel in round_of)]
    known = [kernel for kernel in every if kernel.changes and all(map(_alone, kernel.changes))]
    return random.Random(SEED).sample(known, DRAWN)


def _alone(change: Change) -> bool:
    """Whether a change is one of the text or of the launch, for the same work."""
    launch = change.blocks is not None or change.threads is not None
    return not (launch and change.defines)


def judge_one(kernel: StudyKernel, _: Gpu) -> list[PairAnswer]:
    """Each kind of change of a kernel, as it is advised and as it is."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_kernel(kernel, folder)
        files = (str(folder / "before.cu"), "--launch", str(folder / "launch.toml"))
        common = (*files, "--gpu", str(folder / "few-sms.toml"), "--sms", "all", "--json", "--top", str(ALL))
        true = _truths(kernel, folder, common)
        (told,) = command("advise", *common)["kernels"]
    return [
        answer_of(kernel.name, optimizer, meaning(optimizer), speedup, told["advice"])
        for optimizer, speedup in true.items()
    ]


def meaning(optimizer: str) -> tuple[str, ...]:
    """The pieces of advice that mean what an optimizer advises; a launch's change is tried as it is made."""
    if optimizer in LAUNCHES:
        return (optimizer, "grid", "block-shape")
    rules = [names for names in RULES.values() if optimizer in names]
    return tuple(dict.fromkeys((optimizer, *(name for names in rules for name in names))))


def _truths(kernel: StudyKernel, folder: Path, common: tuple[str, ...]) -> dict[str, float]:
    """The best speedup of each kind of change, by its text with other macros, or another launch."""
    tries: list[str] = []
    for n, change in enumerate(kernel.changes):
        what = str(folder / f"change{n}.cu")
        Path(what).write_text(text_of(kernel, dict(change.defines)))
        shape = (("grid", change.blocks), ("block", change.threads))
        if any(size for _, size in shape):
            what = ",".join(f"{name}={size}" for name, size in shape if size)
        tries += ["--try", what]
    (told,) = command("advise", *common, "--try-seconds", "0", *tries)["kernels"]
    best: dict[str, float] = {}
    for change, tried in zip(kernel.changes, told["tried"], strict=True):
        best[change.optimizer] = max(best.get(change.optimizer, 0.0), tried["speedup"])
    return best


def text_of(kernel: StudyKernel, defines: dict[str, str]) -> str:
    """A kernel of ours without macros.

    Raises:
        SmlabError: no C preprocessor.
    """
    macros = {f"K_{kernel.of or kernel.name}": "1", **defines}
    asked = ["cpp", "-P", "-undef", *(f"-D{name}={value}" for name, value in macros.items())]
    try:
        done = subprocess.run(asked, input=kernel.source, capture_output=True, text=True, check=True)
    except OSError as error:
        raise SmlabError.at("cpp", "no C preprocessor", None, "one on the path") from error
    # What stands in a pragma is not expanded.
    return re.sub(
        r"(#pragma unroll )([A-Z]+)", lambda found: found[1] + defines.get(found[2], "1"), done.stdout
    )


def write_kernel(kernel: StudyKernel, folder: Path) -> None:
    """The kernel's text, its launch with its arrays, and the GPU."""
    (folder / "before.cu").write_text(text_of(kernel, {}))
    launch = kernel.launch(load_gpu(GPU).sm_architecture)
    parts = [f"[launch]\ngrid = {kernel.blocks}\nblock = {kernel.threads}\n"]
    for name, value in zip(launch.names, launch.arguments, strict=True):
        told = f'\n[[argument]]\nname = "{name}"\ndtype = "{np.asarray(value).dtype}"\n'
        if isinstance(value, np.ndarray):
            np.save(folder / f"{name}.npy", value)
            written = "returned = true\n" if name in ("c", "h") else ""
            parts.append(f'{told}file = "{name}.npy"\n{written}')
        else:
            parts.append(f"{told}value = {value}\n")
    for name, value in launch.constants.items():
        np.save(folder / f"{name}.npy", value)
        parts.append(f'\n[constant.{name}]\ndtype = "{value.dtype}"\nfile = "{name}.npy"\n')
    (folder / "launch.toml").write_text("".join(parts))
    (folder / "few-sms.toml").write_text(description())


def description() -> str:
    """`SMS` SMs of a V100, with their share of what all of them share."""
    gpu = load_gpu(GPU)
    share = SMS / gpu.integer("gpu.sms")
    values: dict[str, Any] = {"gpu.sms": SMS}
    values |= {
        key: gpu.number(key) * share for key in gpu.constants if key in _SCALED or key.startswith("peak.")
    }
    values |= {key: gpu.number(key) / share for key in _SLOWED}
    head = (
        f'title = "{SMS} SMs of a V100"\narchitecture = "{gpu.architecture}"\nextends = "{GPU}"\n'
        f'compute_capability = "{gpu.compute_capability}"\n'
        'same_card = true\n\n[sources]\nshare = "assumed: the share of the simulated SMs"\n'
    )
    tables: dict[str, str] = {}
    for key, value in values.items():
        table, name = key.split(".", 1)
        unit = gpu.constants[key].unit
        line = f'{name} = {{ value = {value!r}, unit = "{unit}", kind = "assumed", source = "share" }}\n'
        tables[table] = tables.get(table, f"\n[{table}]\n") + line
    return head + "".join(tables.values())
