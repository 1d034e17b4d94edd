"""Cubins, listings, traces and launch files with something wrong in them, through ``smlab run``: a result, or
one line.

A cubin is compiled where the compiler is there; its instructions are disassembled, so what is wrong may be in
any of its sections. The thorough runs repeat the execution with Numba's bounds checks, in a process of their
own with a cache of its own, and between pages that may not be touched: nothing may be read or written outside
of the allocations.
"""

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hostile import flipped
from smlab.cli.main import run
from smlab.examples import KERNEL, KERNEL_LAUNCH
from smlab.hw_bench.cuda.toolkit import has_compiler

MAX_S = 20.0  # of processor time
LISTING_TOKENS = (
    b"R255",
    b"R0",
    b"RZ",
    b"UR3",
    b"P6",
    b"0x7fffffff",
    b"-0x8",
    b"c[0x0][0xffff]",
    b"c[0x9][0x0]",
)
LISTING_TOKENS += (
    b"[R2+-0x4]",
    b".64",
    b"BRA `(.L_x_9999)",
    b"EXIT",
    b"BAR.SYNC 0x0",
    b"\xff",
    b"`(",
    b"!PT",
    b"/*",
)
LAUNCH_NUMBERS = (
    b"0",
    b"1",
    b"3",
    b"31",
    b"33",
    b"1000",
    b"-1",
    b"1.5",
    b"true",
    b"1e9",
    b"99999999999",
    b'"ceil(9 / 0)"',
)
LAUNCH_TOKENS = (b"", b'"', b"[", b"=", b"\0", b'"float16"', b'"uniform"', b'"nothing.npy"', b"nan")
SOURCE = """
extern "C" __global__ void kernel(const unsigned char *pixels, int *bins, int n)
{
    __shared__ int own[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        own[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&own[pixels[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        atomicAdd(&bins[i], own[i]);
}
"""
SMALL = b"""
[launch]
grid = 2
block = [64, 1, 1]
shared_bytes = 1024
check_shared = true

[[argument]]
name = "pixels"
dtype = "uint8"
shape = [600]
make = "uniform"
high = 256
seed = 3

[[argument]]
name = "bins"
dtype = "int32"
shape = 256
make = "zeros"
returned = true

[[argument]]
name = "n"
dtype = "int32"
value = 600
"""


def changed(data: bytes, rng: random.Random, tokens: tuple[bytes, ...]) -> bytes:
    """Some bytes flipped, words replaced, pieces cut out or doubled."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        if not out:
            break
        at = rng.randrange(len(out))
        match rng.randrange(5):
            case 0:
                out[at] ^= 1 << rng.randrange(8)
            case 1:
                ends = [k for k in range(at, min(at + 60, len(out))) if out[k] in b" ,;\n]="]
                out[at : ends[0] if ends else at + 1] = rng.choice(tokens)
            case 2:
                del out[at : at + rng.randrange(1, 60)]
            case 3:
                out[at:at] = out[at : at + rng.randrange(200)]
            case _:
                lines = bytes(out).split(b"\n")
                place = rng.randrange(len(lines))
                lines[place : place + 1] = rng.choice([[], [lines[place]] * 2, [rng.choice(lines)]])
                out = bytearray(b"\n".join(lines))
    return bytes(out)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One file of each kind."""
    folder = tmp_path_factory.mktemp("originals")
    assert run(["run", "--example", "--accel-sim", str(folder)]) == 0
    trace = (folder / "kernel-1.traceg").read_text()
    # Two warps of one block are enough.
    first = trace.index("warp = 2")
    cut = trace[:first] + "#END_TB\n"
    cut = cut.replace("-grid dim = (8,1,1)", "-grid dim = (1,1,1)").replace("(256,1,1)", "(64,1,1)")
    (folder / "kernel-1.traceg").write_text(cut)
    shutil.copy(KERNEL, folder / "kernel.sass")
    shutil.copy(KERNEL_LAUNCH, folder / "launch.toml")
    (folder / "small.toml").write_bytes(SMALL)
    found = {name.suffix[1:]: name for name in folder.iterdir() if name.suffix in (".sass", ".traceg")}
    found["toml"] = folder / "small.toml"
    if has_compiler():
        from smlab.hw_bench.sass.nvrtc import compile_cuda

        (folder / "kernel.cubin").write_bytes(compile_cuda(SOURCE, "sm_70"))
        found["cubin"] = folder / "kernel.cubin"
    return found


def written(kind: str, seed: int, originals: dict[str, Path], folder: Path) -> list[str]:
    """The command that runs a mutated file of a kind."""
    rng = random.Random(f"{kind} {seed}")
    data = originals[kind].read_bytes()
    path = folder / f"{seed}.{kind}"
    kernel, launch = originals.get("cubin", originals["sass"]), originals["toml"]
    if kind == "toml":
        numbers = rng.random() < 0.6
        path.write_bytes(changed(data, rng, LAUNCH_NUMBERS if numbers else LAUNCH_TOKENS))
        launch = path
    elif kind == "cubin":
        path.write_bytes(flipped(data, rng))
        kernel = path
    else:
        path.write_bytes(changed(data, rng, LISTING_TOKENS))
        kernel = path
    more = [] if kind == "traceg" else ["--launch", str(launch)]
    return ["run", str(kernel), *more, "--max-cycles", "200000"]


def check(
    kind: str, seeds: range, originals: dict[str, Path], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    statuses = []
    for seed in seeds:
        arguments = written(kind, seed, originals, folder)
        capsys.readouterr()
        began = time.process_time()
        status = run(arguments)
        assert time.process_time() - began < MAX_S, (kind, seed)
        told = capsys.readouterr().err
        assert status in (0, 2), (kind, seed, told)
        if status == 2:
            lines = [line.startswith("smlab: ") for line in told.splitlines()]
            assert lines.count(True) == 1, (kind, seed, told)
        statuses.append(status)
    assert len(set(statuses)) == 2 or len(statuses) < 10, "some are read, some refused"


KINDS = ("sass", "toml", "traceg", "cubin")


@pytest.mark.parametrize("kind", KINDS)
def test_mutated_files_are_run_or_refused(
    kind: str, originals: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if kind not in originals:
        pytest.skip("the CUDA compiler of the extra cuda12 is not installed")
    check(kind, range(13), originals, tmp_path, capsys)


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(100, 600, 100))
@pytest.mark.parametrize("kind", KINDS)
def test_many_mutated_files_are_run_or_refused(
    kind: str, first: int, originals: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if kind not in originals:
        pytest.skip("the CUDA compiler of the extra cuda12 is not installed")
    check(kind, range(first, first + 100), originals, tmp_path, capsys)


GUARDED = """
import ctypes
import mmap
import sys
import numpy as np
from smlab.sim.compiled import engine, kernel_arrays
from smlab.sim.isa.launch import launch, launch_file
libc = ctypes.CDLL(None, use_errno=True)
PAGE = mmap.PAGESIZE
kept = []
def guarded(count, kind):
    kind = np.dtype(kind)
    size = count * kind.itemsize
    room = -(-max(size, 1) // PAGE) * PAGE
    memory = mmap.mmap(-1, room + 2 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    whole = np.frombuffer(memory, dtype=np.uint8)
    for at in (0, room + PAGE):
        address = ctypes.c_void_p(whole.ctypes.data + at)
        assert libc.mprotect(address, ctypes.c_size_t(PAGE), 0) == 0, ctypes.get_errno()
    kept.append(whole)  # numbers of addresses outlive the arrays that they are of
    end = PAGE + room - (room - size) % kind.alignment
    return whole[end - size:end].view(kind)
def moved(array):
    if not isinstance(array, np.ndarray) or not array.ndim:
        return array
    own = guarded(array.size, array.dtype).reshape(array.shape)
    own[...] = array
    return own
made = launch_file._value
launch.aligned = kernel_arrays.aligned = engine.aligned = guarded
launch_file._value = lambda *given: moved(made(*given))
if len(sys.argv) > 2:  # that a guard guards
    ctypes.memmove(guarded(3, "i4").ctypes.data + 12, b"1", 1)
"""
"""Puts what machine code reaches by address (arrays, registers, shared memory, code, the engine's tables) at
the end of pages behind which nothing may be touched: numba checks indices of arrays, not addresses."""

CHECKED = """
import sys
from smlab.cli.main import run
for n, line in enumerate(open(sys.argv[1])):
    if "kept" in globals() and n % 20 == 0:
        kept.clear()
    status = run(line.split("\\t")[:-1])
    assert status in (0, 2), line
print("all checked")
"""


@pytest.mark.thorough
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pages are protected by Linux's call")
@pytest.mark.parametrize("first", range(0, 500, 100))
def test_no_address_lies_outside_of_the_allocations(
    first: int, originals: dict[str, Path], tmp_path: Path
) -> None:
    commands = []
    for kind in originals:
        folder = tmp_path / kind
        folder.mkdir()
        commands += [written(kind, seed, originals, folder) for seed in range(first, first + 100)]
    (tmp_path / "commands").write_text("".join("\t".join(c) + "\t\n" for c in commands))
    (tmp_path / "run.py").write_text(GUARDED + CHECKED)
    command = [sys.executable, "-X", "faulthandler", str(tmp_path / "run.py"), str(tmp_path / "commands")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "all checked" in done.stdout
    assert "Traceback" not in done.stderr
    if first == 0:
        broken = subprocess.run([*command, "touch"], capture_output=True, text=True, check=False)
        assert broken.returncode == -signal.SIGSEGV
