"""Compiling CUDA C: what is kept, and what is said where it does not compile; the compiler is a stand-in."""

import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path

import numpy as np
import pytest

from smlab.cli.main import run as command
from smlab.hw_bench import nvrtc_child
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass import nvrtc
from smlab.hw_bench.sass.includes import MAX_HEADERS
from smlab.hw_bench.sass.nvrtc import READ_FIRST, compile_cuda, compile_file, compiling_within, read_first


class Compiler(types.ModuleType):
    """NVRTC's functions: the cubin is the source and the options; source with ``bad`` does not compile."""

    def __init__(self) -> None:
        super().__init__("cuda.bindings.nvrtc")
        self.release = (0, 12, 9)
        self.compiled: list[bytes] = []
        self.text = b""
        self.log = b""
        self.headers: list[list[str]] = []

    def nvrtcVersion(self) -> tuple[int, int, int]:
        return self.release

    def nvrtcCreateProgram(
        self, source: bytes, name: bytes, count: int, texts: list[bytes], names: list[bytes]
    ) -> tuple[int, bytes]:
        assert len(texts) == len(names) == count
        self.headers.append([n.decode() for n in names])
        return 0, source

    def nvrtcCompileProgram(self, program: bytes, count: int, options: list[bytes]) -> tuple[int]:
        self.compiled.append(program)
        self.text = program + b"".join(o for o in options if o.startswith(b"-D"))
        self.log = b"k.cu(1): error: bad" if b"bad" in program else b""
        return (int(bool(self.log)),)

    def nvrtcGetProgramLogSize(self, program: bytes) -> tuple[int, int]:
        return 0, len(self.log)

    def nvrtcGetCUBINSize(self, program: bytes) -> tuple[int, int]:
        return 0, len(self.text)

    def _fill(self, buffer: bytes, content: bytes) -> None:
        import ctypes

        ctypes.memmove(buffer, content, len(content))  # as NVRTC fills the caller's bytes

    def nvrtcGetProgramLog(self, program: bytes, log: bytes) -> None:
        if self.log:
            self._fill(log, self.log)

    def nvrtcGetCUBIN(self, program: bytes, cubin: bytes) -> None:
        self._fill(cubin, self.text)

    def nvrtcDestroyProgram(self, program: bytes) -> None:
        return


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Compiler:
    found = Compiler()
    root, bindings = types.ModuleType("cuda"), types.ModuleType("cuda.bindings")
    for module in (root, bindings, found):
        module.__spec__ = ModuleSpec(module.__name__, None, is_package=True)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    root.__path__, bindings.__path__ = [], []
    monkeypatch.setattr(bindings, "nvrtc", found, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # A child would not have the stand-in.
    monkeypatch.setattr(
        nvrtc,
        "_compile_in_process",
        lambda job, _: nvrtc_child.compile_here(job.source, job.where, job.options, job.headers),
    )
    return found


def test_what_was_compiled_is_kept(compiler: Compiler) -> None:
    first = compile_cuda("kernel A B", "sm_75", ["-DA=1", "-DB=2"])
    assert compile_cuda("kernel A B", "sm_75", ["-DB=2", "-DA=1"]) == first  # the order of macros is nothing
    assert (
        compile_cuda("kernel A B", "sm_75", ["-DB=2", "-DA=1", "-DC=3"]) == first
    )  # nor one that nobody reads
    assert len(compiler.compiled) == 1
    compile_cuda("kernel A B", "sm_86", ["-DA=1", "-DB=2"])
    compile_cuda("kernel A B", "sm_75", ["-DA=1", "-DB=3"])
    compile_cuda("kernel B A", "sm_75", ["-DA=1", "-DB=2"])
    compiler.release = (0, 13, 0)
    compile_cuda("kernel A B", "sm_75", ["-DA=1", "-DB=2"])
    assert len(compiler.compiled) == 5


def test_a_macro_with_arguments_is_a_part_of_the_key(compiler: Compiler) -> None:
    first = compile_cuda("kernel F", "sm_75", ["-DF(i)=(i)"])
    assert compile_cuda("kernel F", "sm_75", ["-DF(i)=(i & 1)"]) != first
    assert len(compiler.compiled) == 2


def test_source_that_includes_files_is_compiled_each_time(compiler: Compiler) -> None:
    for _ in range(2):
        compile_cuda('#include "mine.h"\nkernel', "sm_75")
        compile_cuda("kernel", "sm_75", ["-I/home/me/include"])
    assert len(compiler.compiled) == 4


@pytest.mark.parametrize(
    "line",
    [
        '#include"mine.h"',
        ' # include "mine.h"',
        '%:include "mine.h"',
        '#inc\\\nlude "mine.h"',
        '#include /* of */ "mine.h"',
        '# /* of\n*/ include "mine.h"',
        "#include MINE",
        "#include </home/me/mine.h>",
        "#include <../mine.h>",
        '#if __has_include("mine.h")\n#endif',
    ],
)
def test_however_a_file_is_included_nothing_is_kept(compiler: Compiler, line: str) -> None:
    for _ in range(2):
        compile_cuda(f"{line}\nkernel", "sm_75")
    assert len(compiler.compiled) == 2


def test_what_includes_only_the_compiler_s_headers_is_kept(compiler: Compiler, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("#include <stdint.h>\n// what we include\nkernel")
    for _ in range(2):
        compile_file(tmp_path / "k.cu", "sm_75")
    assert len(compiler.compiled) == 1


def test_what_headers_name_is_read_first_too(compiler: Compiler, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('#include "a.cuh"\nkernel')
    (tmp_path / "a.cuh").write_text('#include "b.cuh"\n')
    (tmp_path / "b.cuh").write_text('#include "a.cuh"\n__device__ uint8_t b;\n')
    compile_file(tmp_path / "k.cu", "sm_75")
    assert READ_FIRST in compiler.headers[0]


def test_headers_that_cannot_be_read_are_refused(compiler: Compiler, tmp_path: Path) -> None:
    kernel = tmp_path / "k.cu"
    kernel.write_text("kernel")
    with pytest.raises(SmlabError, match=r"^-I: there is no such folder \(got '.*/none'; expected a folder"):
        compile_file(kernel, "sm_75", folders=[tmp_path / "none"])
    with pytest.raises(SmlabError, match="^-I: there is no such folder"):
        compile_file(kernel, "sm_75", folders=[kernel])
    kernel.write_text('#include "/dev/zero"')
    with pytest.raises(SmlabError, match="^/dev/zero: is a device or a pipe"):
        compile_file(kernel, "sm_75")
    kernel.write_text("".join(f'#include "{n}.cuh"\n' for n in range(MAX_HEADERS + 1)))
    for n in range(MAX_HEADERS + 1):
        (tmp_path / f"{n}.cuh").write_text("")
    with pytest.raises(SmlabError, match="one header too many"):
        compile_file(kernel, "sm_75")


def test_an_error_is_told_and_not_kept(compiler: Compiler) -> None:
    for _ in range(2):
        with pytest.raises(SmlabError, match="does not compile for sm_75: k.cu.1.: error: bad"):
            compile_cuda("bad", "sm_75", where="k.cu")
    assert len(compiler.compiled) == 2


def test_a_cache_that_cannot_be_written_is_done_without(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert compile_cuda("kernel", "sm_75") == b"kernel"


def test_what_nvcc_reads_first_is_read_where_it_is_named() -> None:
    assert read_first("__global__ void k(float *a) { *a = 1; }") == ""
    first = read_first("__global__ void k(uint8_t *a) { *a = INT64_MIN & 3; }")
    assert "typedef unsigned char uint8_t;" in first
    assert "#define INT64_MAX" in first
    own = read_first("typedef unsigned long long uint64_t; __global__ void k(uint64_t *a, uint8_t b);")
    assert "uint64_t;" not in own
    assert "uint8_t;" in own
    assert "INFINITY" not in read_first("#define INFINITY 1e30f\n__global__ void k(int32_t *a);")


def test_the_headers_that_are_handed_over_are_a_part_of_the_key(compiler: Compiler) -> None:
    plain, included = "__global__ void k();", "#include <stdint.h>\n__global__ void k();"
    compile_cuda(plain, "sm_75")
    compile_cuda(included, "sm_75")
    assert "stdint.h" in compiler.headers[1]
    assert not compiler.headers[0]
    compile_cuda("__global__ void k(uint8_t *a);", "sm_75")
    assert list(compiler.headers[2]) == [READ_FIRST]


BOMB = (
    "#define A0 1+1+1+1\n"
    + "".join(f"#define A{n} {'+'.join([f'A{n - 1}'] * 10)}\n" for n in range(1, 10))
    + 'extern "C" __global__ void k(int *a) { *a = A9; }\n'
)


@pytest.mark.skipif(not has_compiler(), reason="no CUDA compiler is there")
@pytest.mark.skipif(sys.platform != "linux", reason="limits of a process")
@pytest.mark.parametrize(
    ("most_bytes", "cpu_s", "said"), [(2**30, 300, "1.1 GB|out of memory"), (2**32, 1, "1 s of")]
)
def test_source_that_asks_for_everything_is_refused(
    most_bytes: int, cpu_s: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"from smlab.hw_bench import nvrtc_child as child; child.MOST_BYTES = {most_bytes}; child.answer()"
    monkeypatch.setattr(nvrtc, "_CHILD", code)
    monkeypatch.setattr(nvrtc, "MOST_BYTES", most_bytes)
    with compiling_within(cpu_s), pytest.raises(SmlabError, match=f"^b.cu: .*({said})"):
        compile_cuda(BOMB, "sm_75", where="b.cu")


@pytest.mark.skipif(not has_compiler(), reason="no CUDA compiler is there")
def test_a_folder_of_the_users_does_not_lead_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert compile_cuda('extern "C" __global__ void k(int *a) { *a = 1; }', "sm_75")[:4] == b"\x7fELF"


@pytest.mark.skipif(not has_compiler(), reason="no CUDA compiler is there")
def test_headers_beside_the_file_and_in_folders_are_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files = {
        "k/k.cu": '#include "own.cuh"\nextern "C" __global__ void k(uint *a) { *a = NEAR + FAR; }\n',
        "k/own.cuh": '#include "deep/next.cuh"\n#include <far.cuh>\n',
        "k/deep/next.cuh": '#include "same.cuh"\n',
        "k/deep/same.cuh": "#define NEAR 3\n",
        "lib/far.cuh": "#define FAR 0x40\n",
        "here/own.cuh": "#error of the folder that smlab runs in\n",
        "here/json.py": "raise SystemExit(3)\n",
        "k/json.py": "raise SystemExit(3)\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path / "here")
    kernel, folder = Path("../k/k.cu"), Path("../lib")
    first = compile_file(kernel, "sm_75", folders=[folder])
    assert compile_file(kernel, "sm_75", folders=[folder]) == first
    (tmp_path / "k/deep/same.cuh").write_text("#define NEAR 5\n")
    assert compile_file(kernel, "sm_75", folders=[folder]) != first
    (tmp_path / "k/deep/same.cuh").write_text("#define NEAR 3\n")
    (tmp_path / "lib/far.cuh").write_text("#define FAR 0x80\n")
    assert compile_file(kernel, "sm_75", folders=[folder]) != first
    with pytest.raises(SmlabError, match=r'^k.cu: .*own.cuh.2.: .*source file "far.cuh"'):
        compile_file(kernel, "sm_75")
    found = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == set(files)  # nothing was written


LAUNCH = """[launch]
grid = 1
block = 32
[[argument]]
name = "a"
dtype = "float32"
shape = [32]
make = "arange"
returned = true
"""


@pytest.mark.skipif(not has_compiler(), reason="no CUDA compiler is there")
def test_the_command_takes_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = '#include "f.cuh"\nextern "C" __global__ void k(float *a) { a[threadIdx.x] *= FACTOR; }\n'
    (tmp_path / "k.cu").write_text(kernel)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "f.cuh").write_text("#include <iostream>\n#define FACTOR 3\n")
    (tmp_path / "k.toml").write_text(LAUNCH)
    out = tmp_path / "out.npz"
    asked = ["run", str(tmp_path / "k.cu"), "--launch", str(tmp_path / "k.toml")]
    assert command([*asked, "-I", str(tmp_path / "lib"), "--result", str(out)]) == 0
    assert np.array_equal(np.load(out)["a"], 3 * np.arange(32))
    capsys.readouterr()
    assert command(asked) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert 'source file "f.cuh"' in told
