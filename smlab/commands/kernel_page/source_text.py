"""The source that a kernel's machine code names, where it can be found."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.inputs import read_bytes
from smlab.sim.isa.launch.launch import MachineLaunch

MAX_BYTES = 1 << 20


def source_of(launch: MachineLaunch, kernel: str) -> dict[int, str]:
    """The lines of the file that most instructions come from: as the code names it, or under that name beside
    the kernel. Empty where it is not there, or the code names none."""
    files = Counter(
        micro.instruction.source.outermost.file
        for micro in launch.code
        if micro.instruction.source is not None
    )
    if not files:
        return {}
    named = Path(files.most_common(1)[0][0])
    head = Path(kernel.rpartition(":")[0] if ".py:" in kernel else kernel)
    places = [head.parent / named.name, named]
    if head.suffix in (".cu", ".py"):
        places.insert(0, head)
    for place in places:
        try:
            content = read_bytes(place, "a source file", max_bytes=MAX_BYTES)
            return dict(enumerate(content.decode("utf-8").splitlines(), start=1))
        except (SmlabError, UnicodeDecodeError):
            continue
    return {}
