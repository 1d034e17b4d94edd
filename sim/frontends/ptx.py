"""PTX, NVIDIA's assembly of no machine in particular: assembled by ptxas for the architecture simulated."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Final

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import source_text
from smlab.hw_bench.sass.tools import assemble, find_ptxas
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.frontends.protocol import KernelSource, LoadedKernel

_TARGET: Final = re.compile(r"^\s*\.target\s+sm_(\d+)([af]?)", re.MULTILINE)
_TOO_NEW: Final = "Unsupported .version"


def load_ptx(source: KernelSource) -> LoadedKernel:
    """A file of PTX; the option ``flags`` is passed to ptxas."""
    source.check_options("flags")
    flags = shlex.split(source.option("flags", str, ""))
    cubin = assembled(source_text(source.path), source.architecture, flags, source.where)
    return LoadedKernel(from_cubin(cubin, source.name, source.where))


def assembled(ptx: str, architecture: str, flags: list[str], where: str) -> bytes:
    """The cubin of PTX.

    Raises:
        SmlabError: no ptxas, PTX for a later architecture, or what ptxas says of it.
    """
    target = _TARGET.search(ptx)
    if target is None:
        raise SmlabError.at(where, "is no PTX", ptx[:40], "a line such as .target sm_80")
    wanted = int(architecture.removeprefix("sm_"))
    exact = bool(target[2])
    if int(target[1]) > wanted or (exact and int(target[1]) != wanted):
        raise SmlabError.at(
            where, f"is PTX for sm_{target[1]}{target[2]}", architecture, "a GPU that runs it"
        )
    options = ["-lineinfo", *flags]
    compiled_for = f"{architecture}{target[2]}"
    tool = find_ptxas(architecture=architecture)
    try:
        return assemble(ptx, compiled_for, tool, options)[0]
    except SmlabError as error:
        other = shutil.which("ptxas")
        if _TOO_NEW in str(error) and other is not None and Path(other) != tool.path:
            return assemble(ptx, compiled_for, find_ptxas(Path(other)), options)[0]
        raise SmlabError(f"{where}: does not assemble for {architecture}: {_said(error)}") from error


def _said(error: SmlabError) -> str:
    """What ptxas said, with the line, without the file's temporary name."""
    text = str(error)
    found = re.search(r"(line \d+; )?(?:error|fatal)\s*: (.*)", text)
    return f"{found[1] or ''}{found[2]}" if found else text
