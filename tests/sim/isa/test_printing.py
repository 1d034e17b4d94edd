"""What kernels print with ``printf``."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

import smlab
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.errors import SmlabError
from smlab.sim.isa.launch.printf import MAX_PRINTS, MAX_WIDTH, formatted
from smlab.sim.isa.memory.global_memory import GlobalMemory

compiled = pytest.mark.skipif(not has_compiler(), reason="the CUDA compiler of the extra cuda12 is not there")
HELLO = """
extern "C" __global__ void hello(int *out, float x)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i % 40 == 3)
        printf("thread %d of block %d: %5.2f %s %c 100%% %llx\\n", (int)threadIdx.x, (int)blockIdx.x, x * i,
               "text", 'a' + i % 26, 0x123456789abull + i);
    out[i] = i % 2 ? printf("%*d|%-8.3e|%ld\\n", 7, i, 1.0 / (i + 1), (long)-i) : printf("none %%\\n");
}
"""


def passed(*values: tuple[str, object]) -> bytes:
    """Arguments as C passes them to ``vprintf``."""
    content = b""
    for kind, value in values:
        content += bytes(-len(content) % struct.calcsize(kind)) + struct.pack("<" + kind, value)
    return content


@pytest.mark.parametrize(
    ("template", "arguments", "text"),
    [
        ("plain", (), "plain"),
        ("%d %u %x", (("i", -3), ("i", -1), ("i", 255)), "-3 4294967295 ff"),
        ("%hhd %hu %lld %zu", (("i", 200), ("i", 70000), ("q", -5), ("q", 7)), "-56 4464 -5 7"),
        ("%5.1f|%-9.2e|%+g", (("d", 2.25), ("d", 1234.5), ("d", 0.5)), "  2.2|1.23e+03 |+0.5"),
        ("%*.*f", (("i", 8), ("i", 3), ("d", 1 / 3)), "   0.333"),
        ("%c%c %%", (("i", 65), ("i", 98)), "Ab %"),
        ("%#x %#o %08.3f", (("i", 31), ("i", 8), ("d", 3.5)), "0x1f 010 0003.500"),
        ("%p %s", (("Q", 0x7F00), ("Q", 0)), "0x7f00 (null)"),
        ("%d %d", (("i", 1),), "1 %d"),  # an argument is missing
        ("50% off %y", (), "50% off %y"),
    ],
)
def test_formats_are_those_of_c(template: str, arguments: tuple[tuple[str, object], ...], text: str) -> None:
    assert formatted(GlobalMemory(), template, passed(*arguments)) == text


@pytest.mark.parametrize(
    ("template", "arguments"),
    [
        ("%2000000000d", (("i", 1),)),
        ("%*d", (("i", 2_000_000_000), ("i", 1))),
        ("%*d", (("i", -2_000_000_000), ("i", 1))),
        ("%.*f", (("i", 1 << 30), ("d", 1.0))),
        ("%.999999999e", (("d", 1.0),)),
        ("%" + "9" * 4000 + "s", (("Q", 0),)),
    ],
)
def test_a_width_without_measure_is_refused(template: str, arguments: tuple[tuple[str, object], ...]) -> None:
    with pytest.raises(SmlabError, match=r"^printf: %.*: a (width|precision) that is too large"):
        formatted(GlobalMemory(), template, passed(*arguments))
    assert len(formatted(GlobalMemory(), "%*d", passed(("i", -MAX_WIDTH), ("i", 1)))) == MAX_WIDTH


def test_a_string_lies_in_memory() -> None:
    memory = GlobalMemory()
    address = memory.allocate("text", np.frombuffer(b"some text\0more", dtype=np.uint8))
    assert (
        formatted(memory, "[%12s|%.4s]", passed(("Q", address), ("Q", address + 5))) == "[   some text|text]"
    )


@compiled
@pytest.mark.parametrize("gpu", ["v100", "h100-sxm", "b200"])
def test_what_a_kernel_prints_and_gets_back(tmp_path: Path, gpu: str) -> None:
    path = tmp_path / "hello.cu"
    path.write_text(HELLO)
    out = np.full(128, -1, dtype=np.int32)
    done = smlab.run(path, 2, 64, out, np.float32(2.5), gpu=gpu)
    lines = done.printed.splitlines()
    assert "thread 43 of block 0: 107.50 text r 100% 123456789d6" in lines
    assert sum(line.startswith("thread") for line in lines) == 4
    assert "    127|7.812e-03|-127" in lines
    assert lines.count("none %") == 64
    assert out.tolist() == [0, 4] * 64  # how many arguments each named


@compiled
def test_numba_kernels_print(tmp_path: Path) -> None:
    from numba import cuda

    @cuda.jit
    def shown(values):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < 3:
            print("value", i, values[i])

    done = smlab.run(shown, 1, 32, np.arange(32, dtype=np.float64), gpu="a100-40")
    assert done.printed.splitlines() == [f"value {i} {i:.6f}" for i in range(3)]


@compiled
def test_calls_beyond_the_buffer_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "many.cu"
    path.write_text('extern "C" __global__ void many(int n) { for (int i = 0; i < n; i++) printf("x\\n"); }')
    times = MAX_PRINTS // 1024 + 1
    done = smlab.run(path, 1, 1024, np.int32(times), gpu="v100")
    assert done.printed.count("x\n") == MAX_PRINTS
    assert done.printed.endswith(f"[{1024 * times - MAX_PRINTS:,} more calls of printf are not kept]\n")


@compiled
def test_the_command_prints_before_its_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from smlab.cli.main import run

    path, launch = tmp_path / "k.cu", tmp_path / "k.toml"
    path.write_text('extern "C" __global__ void k(int n) { if (!threadIdx.x) printf("n is %d\\n", n); }')
    launch.write_text(
        '[launch]\ngrid = 1\nblock = 32\n\n[[argument]]\nname = "n"\ndtype = "int32"\nvalue = 7\n'
    )
    assert run(["run", str(path), "--launch", str(launch)]) == 0
    assert capsys.readouterr().out.startswith("n is 7\n")
    assert run(["run", str(path), "--launch", str(launch), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["printed"] == "n is 7\n"


@compiled
@pytest.mark.parametrize("gpu", ["v100", "a100-40", "h100-sxm", "b200"])
def test_the_address_of_a_constant(tmp_path: Path, gpu: str) -> None:
    """A ``__constant__`` variable read through a pointer, as global memory is."""
    path = tmp_path / "k.cu"
    path.write_text(
        "__constant__ int table[8] = {1, 2, 3, 4, 5, 6, 7, 8};\n__constant__ int given[4];\n"
        "__device__ __noinline__ int at(const int *p, int i) { return p[i]; }\n"
        'extern "C" __global__ void k(int *a, const int *b)\n'
        "{ int i = threadIdx.x; a[i] = at(i & 1 ? table : b, i & 7) + at(i < 16 ? given : b, i & 3); }\n"
    )
    out, b = np.zeros(32, np.int32), np.arange(10, 18, dtype=np.int32)
    given = np.array([100, 200, 300, 400], np.int32)
    smlab.run(path, 1, 32, out, b, gpu=gpu, constants={"given": given})
    i = np.arange(32)
    first = np.where(i & 1, (i & 7) + 1, b[i & 7])
    assert np.array_equal(out, first + np.where(i < 16, given[i & 3], b[i & 3]))
