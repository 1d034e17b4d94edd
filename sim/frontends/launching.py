"""A launch of what a front end gave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass.image import KernelImage
from smlab.sim.execution.device import as_dim
from smlab.sim.frontends.protocol import LoadedKernel
from smlab.sim.isa.launch.launch import Dim, MachineLaunch
from smlab.sim.isa.launch.structure import Structure
from smlab.sim.isa.launch.tensor_map import TensorMap
from smlab.sim.isa.memory.global_memory import GlobalMemory


def machine_launch(
    loaded: LoadedKernel, grid: Any, block: Any, arguments: tuple[Any, ...], more: Mapping[str, Any]
) -> MachineLaunch:
    """What a front end gave with what else a call says: ``more`` has ``shared_bytes`` (dynamic),
    ``constants``, ``check_shared``, ``cluster``, ``names`` of the arguments, and the ``memory`` that they lie
    in.

    Raises:
        SmlabError: no shape, or what is no argument of a kernel.
    """
    given = loaded.arguments
    return MachineLaunch(
        loaded.image,
        loaded.grid or _shape("grid", grid),
        loaded.block or _shape("block", block),
        _arguments(loaded.image, arguments) if given is None else given,
        loaded.names or more.get("names", ()),
        dynamic_shared_bytes=more.get("shared_bytes", 0) + loaded.shared_bytes,
        constants={k: np.asarray(v) for k, v in (more.get("constants") or {}).items()},
        check_shared=more.get("check_shared", True),
        cluster_shape=_shape("cluster", more["cluster"]) if more.get("cluster") else loaded.cluster,
        memory=loaded.memory or more.get("memory") or GlobalMemory(),
    )


def _shape(what: str, value: Any) -> Dim:
    if value is None:
        raise SmlabError.at(what, "is missing", None, "one to three numbers")
    try:
        return as_dim(value)
    except (TypeError, ValueError) as error:
        raise SmlabError.at(what, "not a shape", value, "one to three numbers") from error


def _arguments(image: KernelImage, arguments: tuple[Any, ...]) -> list[Any]:
    """Arguments as parameters: Python numbers by the size that the parameter has."""
    given: list[Any] = []
    for n, argument in enumerate(arguments):
        if isinstance(argument, np.ndarray | np.generic | bytes | TensorMap | Structure):
            given.append(argument)
            continue
        parameters = image.parameters
        size = parameters[n].size if parameters is not None and n < len(parameters) else 4
        if isinstance(argument, bool | int) and size in (1, 2, 4, 8):
            try:
                given.append(int(argument).to_bytes(size, "little", signed=argument < 0))
            except OverflowError:
                raise SmlabError.at(f"argument {n + 1}", "too large", argument, f"{size} bytes") from None
        elif isinstance(argument, float) and size in (4, 8):
            given.append((np.float32 if size == 4 else np.float64)(argument))
        else:
            raise SmlabError.at(
                f"argument {n + 1}", "no argument of a kernel", argument, "an array or a number"
            )
    return given
