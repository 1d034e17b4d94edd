"""Addresses that no memory has, up to those at which a sum with the access's size wraps around: one line that
says which, from both engines alike, and never the end of the process.

All of it runs in a separate process, which a defect would end by a signal.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.sim.isa.operation_codes import FIRST_ADDRESS, LOCAL_WINDOW, SHARED_WINDOW

HERE = Path(__file__).parent
ARRAY_BYTES, SHARED_BYTES, LOCAL_BYTES = 256, 256, 1024
M32, M64 = (1 << 32) - 1, (1 << 64) - 1
SHARED_AT, LOCAL_AT = SHARED_WINDOW << 32, LOCAL_WINDOW << 32

EVERYWHERE = [1 << 63, (1 << 63) - 4, (1 << 63) - 8, (1 << 63) - 16, M64 - 3, M64 - 15, M64, 0, 1 << 62]
GLOBAL = [*EVERYWHERE, FIRST_ADDRESS - 16, *(FIRST_ADDRESS + ARRAY_BYTES - n for n in (-16, 0, 4, 8, 16))]
WINDOWS = [
    *(first + byte for first in (SHARED_AT, LOCAL_AT) for byte in (-16, 0, M32 - 3, M32 - 15)),
    *(SHARED_AT + SHARED_BYTES - n for n in (0, 4, 8, 16)),
    *(LOCAL_AT + LOCAL_BYTES - n for n in (0, 4, 8, 16)),
]
NARROW = [0, M32 - 3, M32 - 7, M32 - 15, 1 << 31, (1 << 31) - 4]
SHARED = [*NARROW, *(SHARED_BYTES - n for n in (0, 4, 8, 16))]
LOCAL = [*NARROW, *(LOCAL_BYTES - n for n in (0, 4, 8, 16))]
WIDTHS = {".U8": 1, ".S16": 2, "": 4, ".64": 8, ".128": 16}
Case = tuple[str, str, int, int]
"""Lines of the access, the space, the bytes a lane, and the address."""


def accesses(loads: str, stores: str, address: str) -> Iterator[tuple[str, int]]:
    for name, width in WIDTHS.items():
        yield f"{loads}{name} R8, [{address}]", width
        yield f"{stores}{name} [{address}], R4", width


def cases() -> list[Case]:
    made: list[Case] = []

    def add(line: str, space: str, width: int, addresses: list[int]) -> None:
        made.extend((line, space, width, address) for address in addresses)

    for line, width in accesses("LDG.E", "STG.E", "R2.64"):
        add(line, "global", width, GLOBAL)
    for line, width in accesses("LD.E", "ST.E", "R2.64"):
        add(line, "generic", width, [*GLOBAL, *WINDOWS])
    for kind in ("ADD", "CAS", "EXCH", "MAX"):
        values = "R4, R6" if kind == "CAS" else "R4"
        for name, width in (("", 4), (".64", 8)):
            add(f"ATOMG.E.{kind}{name} PT, R8, [R2.64], {values}", "global", width, GLOBAL)
            add(f"ATOM.E.{kind}{name} PT, R8, [R2.64], {values}", "generic", width, [*GLOBAL, *WINDOWS])
    add("RED.E.ADD [R2.64], R4", "global", 4, GLOBAL)
    add("RED.E.ADD.64 [R2.64], R4", "global", 8, GLOBAL)
    for line, width in accesses("LDS", "STS", "R2"):
        add(line, "shared", width, SHARED)
    # No compiler writes this: an address of 64 bits in shared memory.
    for line, width in accesses("LDS", "STS", "R2.64"):
        add(line, "shared", width, EVERYWHERE)
    add("ATOMS.ADD R8, [R2], R4", "shared", 4, SHARED)
    add("ATOMS.CAS.64 R8, [R2], R4, R6", "shared", 8, SHARED)
    add("LDSM.16.M88.4 R8, [R2]", "shared", 16, SHARED)
    for line, width in accesses("LDL", "STL", "R2"):
        add(line, "local", width, LOCAL)
    for line, width in accesses("LDL", "STL", "R2.64"):
        add(line, "local", width, EVERYWHERE)
    add("LDGSTS.E [R6], [R2.64]", "global", 4, GLOBAL)
    add("LDGSTS.E [R2], [R24.64]", "shared", 4, SHARED)
    for name, width in WIDTHS.items():
        add(f"LDC{name} R8, c[0x0][R2]", "constant", width, NARROW)
    return made


def expected(space: str, width: int, address: int) -> str | None:
    """What the simulated GPU has to say, or nothing: plain arithmetic, in which nothing wraps around."""
    if space == "generic":
        space = {SHARED_WINDOW: "shared", LOCAL_WINDOW: "local"}.get(address >> 32, "global")
        address = address if space == "global" else address & M32
    if space == "constant":
        return f"out of bounds: {address:#x}" if address else None
    if address % width:
        return f"misaligned address: {address:#x}"
    first, size = {
        "global": (FIRST_ADDRESS, ARRAY_BYTES),
        "shared": (0, SHARED_BYTES),
        "local": (0, LOCAL_BYTES),
    }[space]
    return None if first <= address and address + width <= first + size else f"out of bounds: {address:#x}"


CHILD = """
import json, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
import conftest, test_wild_addresses as t
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass import parse_listing
from smlab.hw_bench.sass.image import listed_image
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.execution.run import run_machine_code

gpu = load_gpu("v100")
sms = sys.argv[2] if sys.argv[2] == "all" else int(sys.argv[2])
told = []
for n, (line, space, width, address) in enumerate(t.cases()[:: int(sys.argv[3])]):
    literal = [f"MOV R2, {address & t.M32:#x}", f"MOV R3, {address >> 32:#x}"]
    argument = ["MOV R2, c[0x0][0x168]", "MOV R3, c[0x0][0x16c]"]
    # A call that is not made has a stack: local memory.
    lines = ["MOV R24, c[0x0][0x160]", "MOV R25, c[0x0][0x164]", "MOV R6, RZ"]
    lines += [*(argument if n % 2 else literal), line, "EXIT", "CALL.REL.NOINC `(.L_f)", ".L_f:", "EXIT"]
    image = listed_image(parse_listing(conftest.listing(lines))[0])
    said = []
    for engine in ("compiled", "simpy"):
        array = np.zeros(t.ARRAY_BYTES, dtype=np.uint8)
        given = [array, np.uint64(address)]
        launch = MachineLaunch(image, (1, 1, 1), (32, 1, 1), given, dynamic_shared_bytes=t.SHARED_BYTES)
        try:
            run_machine_code(launch, gpu, engine=engine, sms=sms)
            said.append(None)
        except SmlabError as error:
            said.append(str(error))
    told.append(said)
json.dump(told, sys.stdout)
"""


def said(sms: str, every: int) -> list[list[str | None]]:
    command = [sys.executable, "-P", "-c", CHILD, str(HERE), sms, str(every)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    found: list[list[str | None]] = json.loads(done.stdout)
    return found


Told = tuple[int, list[tuple[Case, list[str | None]]]]
"""Every which case, and what the engines say of it."""


@pytest.fixture(scope="module", params=[5, pytest.param(1, marks=pytest.mark.thorough)])
def told(request: pytest.FixtureRequest) -> Told:
    every = request.param
    return every, list(zip(cases()[::every], said("all", every), strict=True))


def test_a_wild_address_is_one_line_and_no_signal(told: Told) -> None:
    wrong = []
    for (line, space, width, address), (compiled, _) in told[1]:
        wanted = expected(space, width, address)
        if wanted is None:
            fine = compiled is None
        else:
            who = f"{line}; block (0, 0, 0), thread (0, 0, 0)"
            fine = compiled is not None and f"{wanted}, " in compiled and compiled.endswith(who)
        if not fine:
            wrong.append((line, hex(address), wanted, compiled))
    assert not wrong, (len(wrong), wrong[:5])


def test_both_engines_say_the_same_of_it(told: Told) -> None:
    unequal = [(case, engines) for case, engines in told[1] if engines[0] != engines[1]]
    assert not unequal, (len(unequal), unequal[:3])


def test_addresses_of_both_kinds_are_among_them(told: Told) -> None:
    fine = [engines[0] is None for _, engines in told[1]]
    assert 0.03 < sum(fine) / len(fine) < 0.5
    assert not any("-0x" in (text or "") for _, engines in told[1] for text in engines)


def test_a_part_of_the_grid_says_the_same(told: Told) -> None:
    """Blocks that are executed without timing, near those of a sample, come to the same addresses."""
    every, cases_told = told
    assert said("1", 7 * every) == [engines for _, engines in cases_told[::7]]


WILD = """
extern "C" __global__ void wild(int *out, unsigned long long address)
{
    if (WHICH == 0) *(int *)0x7ffffffffffffffcULL = 1;
    if (WHICH == 1) *(int *)address = 1;
    if (WHICH == 2) atomicAdd((int *)address, 1);
    if (WHICH == 3) out[0] = (int)atomicCAS((unsigned long long *)(address - 4), 1ull, 2ull);
}
"""
LAUNCH = """
[launch]
grid = 1
block = 1
[[argument]]
name = "out"
dtype = "int32"
shape = [8]
make = "zeros"
[[argument]]
name = "address"
dtype = "uint64"
value = 9223372036854775804
"""


@pytest.mark.skipif(not has_compiler(), reason="the CUDA compiler of the extra cuda12 is not there")
@pytest.mark.parametrize(("which", "sms"), [(0, "all"), (1, "all"), (2, "1"), (3, "all"), (0, "1")])
def test_a_wild_address_in_cuda_c_is_one_line(tmp_path: Path, which: int, sms: str) -> None:
    (tmp_path / "wild.cu").write_text(WILD)
    (tmp_path / "wild.toml").write_text(LAUNCH)
    options = ["--launch", "wild.toml", "-D", f"WHICH={which}", "--sms", sms]
    command = [sys.executable, "-m", "smlab.cli", "run", "wild.cu", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2, (done.returncode, done.stderr[-2000:])
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("smlab: "))
    address = (1 << 63) - (8 if which == 3 else 4)
    assert f"an address out of bounds: {address:#x}, in no allocation; at 0x" in line
    assert line.endswith("block (0, 0, 0), thread (0, 0, 0)")
