"""CONTRIBUTING's "Where to add" is so: toys written in the places that it names, and in no other, work.

A copy of the packages takes the toys: an opcode with a micro-operation of its own, a class of instructions
with a pipe of its own, a GPU with a generation of its own, a counter, a scheduler policy and a front end.
Commands in the copy use them, on the reference engine, which needs no compiling. Then the toys are taken out
again, and the same commands refuse.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

PACKAGES = ("hw_bench", "sim", "models", "validation", "smlab")
MAX_PLACES = 2

OPCODE = """

@opcode("TOYSUM", cls="int32")
def _toy_sum(o: Operands, m: tuple[str, ...]) -> tuple[int, dict[str, int]]:
    only(m)
    return BY_NAME["toysum"], {"dst": o.destination(), **o.integer("a"), **o.integer("b")}
"""
POLICY = '''def second_oldest(eligible: Sequence[Candidate], last: Candidate | None) -> Candidate:
    """The warp launched after the oldest."""
    return sorted(eligible, key=lambda w: w.age)[min(1, len(eligible) - 1)]


'''
FRONT_END = '''def _toy(source: KernelSource) -> LoadedKernel:
    """A listing with its lines in reverse."""
    from smlab.hw_bench.sass import parse_listing
    from smlab.hw_bench.sass.image import listed_image

    text = "\\n".join(reversed(source.content().decode().splitlines()))
    return LoadedKernel(listed_image(parse_listing(text, source.where)[0]))


'''
PIPE = """
[pipe.toy]
interval_cycles = { value = 40, unit = "cycles", kind = "assumed", source = "assumed-imad" }
latency_cycles = { value = 50, unit = "cycles", kind = "assumed", source = "assumed-imad" }
shared_by = { value = "scheduler", unit = "name", kind = "assumed", source = "assumed-imad" }
"""
GENERATION = """extends = "9.0"

[sources]
toy = "assumed: a toy"

[sm]
barrier_latency_cycles = { value = 77, unit = "cycles", kind = "assumed", source = "toy" }
"""
BOARD = """title = "NVIDIA Toy 16 GB"
extends = "h100-pcie"
compute_capability = "9.7"

[sources]
maker = "A maker of toys, 2026, data sheet"
toy = "assumed: a toy"

[gpu]
sms = { value = 3, unit = "SMs", kind = "spec", source = "maker" }

[clock]
boost_hz = { value = 1e9, unit = "Hz", kind = "spec", source = "maker" }

[sm]
scheduler_policy = { value = "second_oldest", unit = "name", kind = "assumed", source = "toy" }

[dram]
bandwidth_bytes_per_s = { value = 1e11, unit = "bytes/s", kind = "spec", source = "maker" }
"""

TOYS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    # row of the table: {file: (text there, what stands in its place)}; without a text: at the end
    "an opcode": {"sim/isa/decode/integers.py": ("", OPCODE)},
    "a micro-operation": {
        "sim/isa/meanings/vector_meanings.py": (
            '    row("prmt",',
            '    row("toysum", "ii", "i", plain(lambda a, b: a + 3 * b))\n    row("prmt",',
        )
    },
    "a class of instructions": {
        "sim/instructions.py": ('        _pipe("vote"),', '        _pipe("toy"),\n        _pipe("vote"),')
    },
    "a pipe": {
        "hw_bench/gpu/schema.py": ('"redux", "special', '"toy", "redux", "special'),
        "hw_bench/gpu/generations/common.toml": ("", PIPE),
    },
    "a GPU": {"hw_bench/gpu/boards/toy.toml": ("", BOARD)},
    "a GPU generation": {"hw_bench/gpu/generations/9.7.toml": ("", GENERATION)},
    "a counter that simulations report": {
        "sim/counters.py": (
            "    issued = max(result.warp_instructions, 1)\n",
            '    add(WHOLE_GPU, "toy__barriers.sum", 12, "inst")\n'
            "    issued = max(result.warp_instructions, 1)\n",
        )
    },
    "a scheduler policy": {
        "sim/policies.py": (
            "Policy = Callable",
            POLICY + "Policy = Callable",
        )
    },
    "a front end": {
        "sim/frontends/registry.py": ("FRONT_ENDS: Final", FRONT_END + "FRONT_ENDS: Final"),
    },
}
REGISTERED = {
    "sim/policies.py": ('"oldest": oldest}', '"oldest": oldest, "second_oldest": second_oldest}'),
    "sim/frontends/registry.py": (
        '    KernelFrontEnd(".cu",',
        '    KernelFrontEnd("toy", _toy, suffixes=(".toy",)),\n    KernelFrontEnd(".cu",',
    ),
}
"""Where a function's name is entered, in the same file."""

NAMES = {"a GPU": "toy", "a GPU generation": "9.7"}
"""What stands for NAME in a path."""

WORKLOAD = """
name = "toys"

[kernel]
warps_per_block = 8
blocks = 2

[[program]]
body = [
    { loop = 10, body = [{ op = "toy" }] },
    { op = "barrier" },
]
"""
LAUNCH = """
[launch]
grid = 1
block = 32

[[argument]]
name = "out"
dtype = "int32"
shape = [32]
make = "zeros"
returned = true
"""
CODE = (
    "S2R R0, SR_TID.X",
    "MOV R24, c[0x0][0x160]",
    "MOV R25, c[0x0][0x164]",
    "IMAD.WIDE.U32 R22, R0, 0x4, R24",
    "TOYSUM R2, R0, 0x64",
    "STG.E.SYS [R22], R2",
    "EXIT",
)


def _places(repository: Path) -> dict[str, list[str]]:
    """The files that each row of the table names, by the row's first words."""
    text = (repository / "CONTRIBUTING.md").read_text()
    table = text[text.index("## Where to add") :].split("\n\n")
    (rows,) = [part.splitlines()[2:] for part in table if part.startswith("| to add |")]
    places = {}
    for row in rows:
        what, *cells = [cell.strip() for cell in row.strip("|").split("|")]
        places[what] = [path for cell in cells for path in re.findall(r"`([\w./]+\.(?:py|toml))`", cell)]
    return places


def _row(places: Mapping[str, list[str]], toy: str) -> list[str]:
    named = [paths for what, paths in places.items() if re.match(rf"{toy}\b(?! generation)", what)]
    assert len(named) == 1, toy
    return named[0]


def _listing(lines: tuple[str, ...]) -> str:
    """As nvdisasm prints it: every instruction waits for all scoreboards, S2R sets the first."""
    text = [
        '\t.headerflags\t@"EF_CUDA_SM70 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM70)"',
        '\t.section\t.text.kernel,"ax"',
        "kernel:",
    ]
    for n, line in enumerate(lines):
        code = 15 | (0 if "S2R" in line else 7) << 5 | 7 << 8 | 0x3F << 11
        text.append(f"        /*{16 * n:04x}*/  {line} ;  /* 0x0000000000000000 */")
        text.append(f"                                /* {code << 41:#018x} */")
    return "\n".join(text)


class Copy:
    """The packages in a folder, which Python that starts there takes, and commands run in it."""

    def __init__(self, repository: Path, folder: Path) -> None:
        self.folder = folder
        for name in PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__", "campaigns", "measured")
            shutil.copytree(repository / name, folder / name, ignore=ignored)
        shutil.copy2(repository / "pyproject.toml", folder)
        (folder / "toys.toml").write_text(WORKLOAD)
        (folder / "launch.toml").write_text(LAUNCH)
        (folder / "kernel.sass").write_text(_listing(CODE))
        (folder / "kernel.toy").write_text("\n".join(reversed(_listing(CODE).splitlines())))

    def write(self, path: str, before: str, after: str) -> None:
        file = self.folder / path
        text = file.read_text() if file.exists() else ""
        if before:
            assert text.count(before) == 1, f"{path}: {before!r}"
            text = text.replace(before, after)
        file.write_text(text if before else text + after)

    def smlab(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "SMLAB"))}
        own = {"PYTHONPATH": str(self.folder), "XDG_CACHE_HOME": str(self.folder / "cache"), "COLUMNS": "120"}
        command = [sys.executable, "-m", "smlab", *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=kept | own, capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="module")
def places(repository: Path) -> dict[str, list[str]]:
    return _places(repository)


def test_every_row_names_one_place_or_two(places: Mapping[str, list[str]], repository: Path) -> None:
    assert len(places) >= len(TOYS)
    for what, paths in places.items():
        assert 1 <= len(paths) <= MAX_PLACES, what
        for path in paths:
            place = repository / path
            assert (place.parent if "NAME" in path else place).exists(), path


def test_toys_in_the_places_named_work_and_go(
    places: Mapping[str, list[str]], repository: Path, tmp_path: Path
) -> None:
    copy = Copy(repository, tmp_path)
    before: dict[str, str | None] = {}
    for toy, files in TOYS.items():
        named = [p.replace("NAME", NAMES.get(toy, "")) for p in _row(places, toy)]
        assert files.keys() <= {*named}, toy
        for path, (text, after) in files.items():
            file = tmp_path / path
            before[path] = file.read_text() if file.exists() else None
            copy.write(path, text, after)
            if path in REGISTERED:
                copy.write(path, *REGISTERED[path])
    _toys_work(copy)
    for path, old in before.items():
        if old is None:
            (tmp_path / path).unlink()
        else:
            (tmp_path / path).write_text(old)
    _toys_are_refused(copy)
    assert not [*(tmp_path / "cache").rglob("*.o")], "the engine was compiled"


def _toys_work(copy: Copy) -> None:
    listed = copy.smlab("gpus")
    assert re.search(r"^toy +Toy 16 GB +9\.7 +3\b", listed.stdout, re.MULTILINE), listed
    (described,) = json.loads(copy.smlab("gpus", "toy", "--json").stdout)["gpus"]
    (barrier,) = [c for c in described["constants"] if c["key"] == "sm.barrier_latency_cycles"]
    assert barrier["value"] == 77
    simulated = ["simulate", "toys.toml", "--gpu", "toy", "--engine", "simpy", "--json"]
    own = json.loads(copy.smlab(*simulated, "--counters", "toys.csv", "--trace", "own.json").stdout)
    assert own["policy"] == "second_oldest"
    assert own["warp_instructions"] == 2 * 8 * 11
    oldest = json.loads(copy.smlab(*simulated, "--policy", "oldest", "--trace", "oldest.json").stdout)
    assert oldest["policy"] == "oldest"
    assert (copy.folder / "own.json").read_bytes() != (copy.folder / "oldest.json").read_bytes()
    with (copy.folder / "toys.csv").open() as file:
        counters = {row["counter"]: float(row["value"]) for row in csv.DictReader(file)}
    assert counters["toy__barriers.sum"] == 12
    assert own["cycles"] > 2 * 10 * 40  # of a scheduler's two warps, by the toy pipe's interval
    for kernel in ("kernel.sass", "kernel.toy"):
        options = ("--launch", "launch.toml", "--gpu", "v100", "--engine", "simpy", "--result", "out.npz")
        done = copy.smlab("run", kernel, *options)
        assert done.returncode == 0, done.stderr
        with np.load(copy.folder / "out.npz") as arrays:
            assert arrays["out"].tolist() == [lane + 300 for lane in range(32)]


def _toys_are_refused(copy: Copy) -> None:
    refusals = {
        "unknown GPU": ("gpus", "toy"),
        "is not one that is executed here": ("run", "kernel.sass", "--launch", "launch.toml"),
        "no kernel file": ("run", "kernel.toy", "--launch", "launch.toml"),
        "'toy'": ("simulate", "toys.toml"),
        "unknown warp scheduler policy": ("simulate", "atomics", "--policy", "second_oldest"),
    }
    for message, command in refusals.items():
        engine = () if command[0] == "gpus" else ("--engine", "simpy")
        done = copy.smlab(*command, *engine)
        assert done.returncode == 2, done.stderr
        assert message in done.stderr.replace("\n", " "), done.stderr
    counted = copy.smlab("simulate", "atomics", "--engine", "simpy", "--counters", "plain.csv")
    assert counted.returncode == 0, counted.stderr
    assert "toy__" not in (copy.folder / "plain.csv").read_text()
