"""Compiling CUDA C: what is kept, and what is said where it does not compile; the compiler is a stand-in."""

import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass import nvrtc
from smlab.hw_bench.sass.nvrtc import READ_FIRST, compile_cuda, read_first


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
    monkeypatch.setattr(
        nvrtc, "_compile_in_process", nvrtc.compile_here
    )  # a child would not have the stand-in
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


def test_source_that_includes_files_is_compiled_each_time(compiler: Compiler) -> None:
    for _ in range(2):
        compile_cuda('#include "mine.h"\nkernel', "sm_75")
        compile_cuda("kernel", "sm_75", ["-I/home/me/include"])
    assert len(compiler.compiled) == 4


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
    ("limit", "value", "said"), [("_MOST_BYTES", 2**30, "1.1 GB|out of memory"), ("_CPU_S", 1, "1 s of")]
)
def test_source_that_asks_for_everything_is_refused(
    limit: str, value: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"from smlab.hw_bench.sass import nvrtc; nvrtc.{limit} = {value}; nvrtc.answer()"
    monkeypatch.setattr(nvrtc, "_CHILD", code)
    monkeypatch.setattr(nvrtc, limit, value)
    with pytest.raises(SmlabError, match=f"^b.cu: .*({said})"):
        compile_cuda(BOMB, "sm_75", where="b.cu")


@pytest.mark.skipif(not has_compiler(), reason="no CUDA compiler is there")
def test_a_folder_of_the_users_does_not_lead_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert compile_cuda('extern "C" __global__ void k(int *a) { *a = 1; }', "sm_75")[:4] == b"\x7fELF"
