"""Objects made ahead, also for other processors: ``python -m smlab.sim.object_code.prebuild FOLDER``.

`make wheel` puts them into the wheel. An installation then compiles nothing, where its processor is among
them. Which compiler made them does not matter to who loads them, so another release of Numba voids none.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from smlab.hw_bench.child_python import start_python
from smlab.hw_bench.files import write_atomic
from smlab.sim.object_code.building import CodeTarget, build
from smlab.sim.object_code.loading import NEEDS, PREBUILT, with_digest
from smlab.sim.object_code.objects import OBJECTS, version_of

CPUS: Final = {"aarch64": "generic"}
"""LLVM's name of a processor, where it is another one."""
_CHILD: Final = "import sys; from smlab.sim.object_code.prebuild import make; make(*sys.argv[1:])"


def make(machine: str, folder: str) -> None:
    """Write all objects for an architecture. One process does one: LLVM code is written once for it."""
    for name in OBJECTS:
        for processor, (architecture, _) in NEEDS.items():
            if architecture == machine:
                target = CodeTarget(f"{machine}-unknown-linux-gnu", CPUS.get(processor, processor))
                content = with_digest(build(name, target), version_of(name))
                write_atomic(Path(folder, f"{name}.{processor}.o"), content)


def main(folder: Path = PREBUILT) -> int:
    """Write all objects; the status of the process."""
    folder.mkdir(parents=True, exist_ok=True)
    machines = sorted({machine for machine, _ in NEEDS.values()})
    children = [start_python(_CHILD, machine, str(folder), stdin=subprocess.DEVNULL) for machine in machines]
    failed = [child.wait() for child in children]
    return int(any(failed))


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
