"""smlab: how far GPU performance models can be trusted, and where.

The functions are those of the command line: `simulate`, `run`, `advise`, `utilization`, `roofline`,
`project`, `port`, `tune`, `whatif`, `claims` and `validate`. Each returns a frozen result, which prints as
one line, shows as a table in a notebook, and has ``to_dataframe()``. Names are imported when they are first
used, so ``import smlab`` takes no time.
"""

from __future__ import annotations

from pathlib import Path as _Path
from typing import TYPE_CHECKING, Any

# Python that starts in a checkout finds this folder before an installed smlab. The packages smlab.sim and so
# on are then the folders beside this one, and pyproject.toml says that they are ours. An installed smlab has
# them inside.
_project = _Path(__file__).resolve().parents[1] / "pyproject.toml"
if (
    not _Path(__file__).with_name("sim").is_dir()
    and _project.is_file()
    and '\nname = "smlab"\n' in _project.read_text(encoding="utf-8")
):
    __path__.append(str(_project.parent))

if TYPE_CHECKING:
    from smlab.commands.advise.api import AdviceResult, advise
    from smlab.commands.claims.api import ClaimsResult, claims
    from smlab.commands.port.api import port
    from smlab.commands.port.result import PortResult
    from smlab.commands.project.api import ProjectResult, project
    from smlab.commands.roofline.api import RooflineResult, roofline
    from smlab.commands.run.api import run
    from smlab.commands.run.simulated import ScriptGpu, simulated
    from smlab.commands.simulate.api import simulate
    from smlab.commands.tune.api import TuningResult, tune
    from smlab.commands.utilization.api import UtilizationResult, utilization
    from smlab.commands.validate.api import ValidationResult, validate
    from smlab.commands.whatif.api import WhatifResult, whatif
    from smlab.hw_bench.errors import SmlabError
    from smlab.hw_bench.gpu.descriptions import Gpu, list_gpus, load_gpu
    from smlab.hw_bench.profiles.counter_table import CounterTable
    from smlab.models import ServiceTable, estimate_utilization, read_atomic_counters
    from smlab.sim import (
        Duration,
        Instruction,
        Kernel,
        Loop,
        Program,
        Record,
        SimResult,
        atomics,
        counter_table,
        read_workload,
    )
    from smlab.sim.execution.program import ProgramRun
    from smlab.sim.execution.run import MachineRun
    from smlab.sim.isa.launch.structure import Structure
    from smlab.sim.isa.launch.tensor_map import TensorMap
    from smlab.sim.service_table import service_table

    __version__: str

_HOME = {
    "smlab.commands.advise.api": ("AdviceResult", "advise"),
    "smlab.commands.claims.api": ("ClaimsResult", "claims"),
    "smlab.commands.port.api": ("port",),
    "smlab.commands.port.result": ("PortResult",),
    "smlab.commands.project.api": ("ProjectResult", "project"),
    "smlab.commands.roofline.api": ("RooflineResult", "roofline"),
    "smlab.commands.run.api": ("run",),
    "smlab.commands.run.simulated": ("ScriptGpu", "simulated"),
    "smlab.sim.execution.program": ("ProgramRun",),
    "smlab.sim.execution.run": ("MachineRun",),
    "smlab.commands.simulate.api": ("simulate",),
    "smlab.commands.tune.api": ("TuningResult", "tune"),
    "smlab.commands.utilization.api": ("UtilizationResult", "utilization"),
    "smlab.commands.validate.api": ("ValidationResult", "validate"),
    "smlab.commands.whatif.api": ("WhatifResult", "whatif"),
    "smlab.hw_bench.errors": ("SmlabError",),
    "smlab.hw_bench.gpu.descriptions": ("Gpu", "list_gpus", "load_gpu"),
    "smlab.hw_bench.profiles.counter_table": ("CounterTable",),
    "smlab.models": ("ServiceTable", "estimate_utilization", "read_atomic_counters"),
    "smlab.sim": (
        "Duration",
        "Instruction",
        "Kernel",
        "Loop",
        "Program",
        "Record",
        "SimResult",
        "atomics",
        "counter_table",
        "read_workload",
    ),
    "smlab.sim.isa.launch.structure": ("Structure",),
    "smlab.sim.isa.launch.tensor_map": ("TensorMap",),
    "smlab.sim.service_table": ("service_table",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "AdviceResult",
    "ClaimsResult",
    "CounterTable",
    "Duration",
    "Gpu",
    "Instruction",
    "Kernel",
    "Loop",
    "MachineRun",
    "PortResult",
    "Program",
    "ProgramRun",
    "ProjectResult",
    "Record",
    "RooflineResult",
    "ScriptGpu",
    "ServiceTable",
    "SimResult",
    "SmlabError",
    "Structure",
    "TensorMap",
    "TuningResult",
    "UtilizationResult",
    "ValidationResult",
    "WhatifResult",
    "__version__",
    "advise",
    "atomics",
    "claims",
    "counter_table",
    "estimate_utilization",
    "list_gpus",
    "load_gpu",
    "port",
    "project",
    "read_atomic_counters",
    "read_workload",
    "roofline",
    "run",
    "service_table",
    "simulate",
    "simulated",
    "tune",
    "utilization",
    "validate",
    "whatif",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from smlab.hw_bench.sources import installed_version

        value: Any = installed_version()
    elif name in _MODULE_OF:
        from importlib import import_module

        value = getattr(import_module(_MODULE_OF[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
