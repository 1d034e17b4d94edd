"""PTX, files with code of the host, and programs with machine code inside them."""

import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import smlab
from smlab import Gpu, SmlabError
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.sim.frontends.cuda_c import compile_by_nvcc, find_nvcc
from smlab.sim.frontends.host_binary import entries_of

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

from smlab.hw_bench.sass.nvrtc import compile_cuda

PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry plus(.param .u64 p, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<5>;
    .reg .f32 %f<3>;
    .reg .b64 %d<4>;
    ld.param.u64 %d1, [p];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra DONE;
    cvta.to.global.u64 %d2, %d1;
    mul.wide.u32 %d3, %r2, 4;
    add.s64 %d2, %d2, %d3;
    ld.global.f32 %f1, [%d2];
    add.f32 %f2, %f1, 0f40000000;
    st.global.f32 [%d2], %f2;
DONE:
    ret;
}
"""
PROGRAM = """
#include <cstdio>
#include <vector>
#include "factor.h"
template <int N> __global__ void scaled(float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = factor(x[i]) * N;
}
__global__ void shifted(float *x, int n, float by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] += by;
}
int main()
{
    std::vector<float> host(64, 1.0f);
    float *x;
    cudaMalloc(&x, 256);
    scaled<3><<<1, 64>>>(x, 64);
    shifted<<<1, 64>>>(x, 64, 1.5f);
    std::printf("%f\\n", host[0]);
}
"""
HEADER = "static __device__ float factor(float value) { return FACTOR * value; }\n"
DEVICE = """
extern "C" __global__ void first(float *x) { x[threadIdx.x] += 1; }
extern "C" __global__ void second(float *x) { x[threadIdx.x] += 2; }
"""
GPUS = {"sm_75": "t4", "sm_80": "a100-40", "sm_86": "rtx-3090", "sm_89": "rtx-4090"}
Pack = Callable[[bytes], tuple[bytes, int]]


def ones() -> Any:
    return np.ones(64, np.float32)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The source, its header in another folder."""
    if find_nvcc() is None or shutil.which("g++") is None:
        pytest.skip("there is no nvcc with a compiler of the host")
    (tmp_path / "program.cu").write_text(PROGRAM)
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "factor.h").write_text(HEADER)
    return tmp_path / "program.cu"


def test_the_same_text_in_two_folders_has_the_same_code_without_lines(program: Path, tmp_path: Path) -> None:
    """Or else what is stored by its code would not be found again in a new process."""
    folders = [tmp_path / "one", tmp_path / "two"]
    made = {}
    for lines in (False, True):
        for folder in folders:
            folder.mkdir(exist_ok=True)
            path = folder / "kernel.cu"
            path.write_text("__global__ void one(int *p) { p[threadIdx.x] = 1; }")
            made[folder, lines] = compile_by_nvcc(path, "sm_80", [], "kernel.cu", lines=lines)
    assert made[folders[0], False] == made[folders[1], False]
    assert made[folders[0], True] != made[folders[1], True]


@pytest.mark.parametrize("architecture", ["sm_80", "sm_89", "sm_120"])
def test_ptx_is_assembled_for_the_card(
    architecture: str, tmp_path: Path, gpu_of: Callable[[str], Gpu]
) -> None:
    (tmp_path / "k.ptx").write_text(PTX)
    x = ones()
    done = smlab.run(tmp_path / "k.ptx", 1, 64, x, 40, gpu=gpu_of(architecture))
    assert x.tolist() == [3.0] * 40 + [1.0] * 24
    assert f"sm_{done.launch.image.architecture}" == architecture


def test_ptx_that_cannot_be_assembled_is_told_in_one_line(tmp_path: Path) -> None:
    cases = {
        r"k.ptx: is PTX for sm_80 \(got 'sm_75'": (PTX, "t4"),
        r"k.ptx: is PTX for sm_90a \(got 'sm_80'": (PTX.replace("sm_80", "sm_90a"), "a100-40"),
        r"k.ptx: does not assemble for sm_80: line \d+; .*globl": (PTX.replace(".globa", ".glob"), "a100-40"),
        r"k.ptx: is no PTX": ("nothing of it", "a100-40"),
    }
    for message, (text, gpu) in cases.items():
        (tmp_path / "k.ptx").write_text(text)
        with pytest.raises(SmlabError, match=message) as told:
            smlab.run(tmp_path / "k.ptx", 1, 64, ones(), 64, gpu=gpu)
        assert "\n" not in str(told.value)
    (tmp_path / "k.ptx").write_text(PTX)
    with pytest.raises(SmlabError, match=r"unknown option \(got 'flag'; expected one of flags\)"):
        smlab.run(tmp_path / "k.ptx", 1, 64, ones(), 64, gpu="a100-40", options={"flag": "-O1"})


def test_a_file_with_code_of_the_host(program: Path) -> None:
    folders = [program.parent / "include"]
    options = {"flags": "-DFACTOR=2 --use_fast_math"}
    x = ones()
    done = smlab.run(
        program, 1, 64, x, 64, gpu="rtx-3090", name="scaled<3>", folders=folders, options=options
    )
    assert (x == 6).all()
    assert done.launch.image.architecture == 86
    smlab.run(program, 1, 64, x, 64, 0.5, gpu="t4", name="shifted", folders=folders, defines={"FACTOR": 1})
    assert (x == 6.5).all()
    with pytest.raises(SmlabError, match=r"program.cu: nvcc does not compile it for sm_80: .*factor.h"):
        smlab.run(program, 1, 64, x, 64, gpu="a100-40")
    with pytest.raises(SmlabError, match="host functions are not allowed"):
        smlab.run(
            program,
            1,
            64,
            x,
            64,
            gpu="a100-40",
            folders=folders,
            options={"compiler": "nvrtc"},
            defines={"FACTOR": 1},
        )


def test_without_nvcc_a_file_with_code_of_the_host_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "k.cu").write_text(PROGRAM)
    monkeypatch.setattr("smlab.sim.frontends.cuda_c._candidates", lambda: iter(()))
    with pytest.raises(SmlabError, match=r"k.cu: has code of the host, which NVRTC refuses, and no nvcc"):
        smlab.run(tmp_path / "k.cu", 1, 64, ones(), 64, gpu="a100-40")
    (tmp_path / "k.cu").write_text(f"// int main() launches <<<1, 1>>>\n{DEVICE}")
    x = ones()
    smlab.run(tmp_path / "k.cu", 1, 64, x, gpu="a100-40", name="first")
    assert (x == 2).all()


@pytest.mark.parametrize("mode", ["none", "speed", "size"])
def test_a_program_holds_its_kernels(program: Path, mode: str) -> None:
    """As nvcc builds it: sm_80's machine code, and PTX for later cards, plain or compressed in two ways."""
    built = program.with_name("program")
    nvcc = [str(find_nvcc()), "-DFACTOR=2", f"-I{program.parent / 'include'}", f"--compress-mode={mode}"]
    codes = ["-gencode", "arch=compute_80,code=[sm_80,compute_80]"]
    done = subprocess.run(
        [*nvcc, *codes, "-o", str(built), str(program)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"this nvcc does not link programs: {done.stderr[:200]}")
    for gpu, architecture in (("a100-40", 80), ("rtx-3090", 80), ("h100-pcie", 90)):
        x = ones()
        found = smlab.run(built, 1, 64, x, 64, gpu=gpu, name="scaled")
        assert (x == 6).all()
        assert found.launch.image.architecture == architecture
    with pytest.raises(SmlabError, match="does not hold one kernel.*scaled<3>.*shifted"):
        smlab.run(built, 1, 64, ones(), 64, gpu="a100-40")
    with pytest.raises(SmlabError, match=r"has no code for the GPU \(got 'sm_75'; expected one of sm_80"):
        smlab.run(built, 1, 64, ones(), 64, gpu="t4")


def plain(content: bytes) -> tuple[bytes, int]:
    return content, 0


def packed(codec: str, flag: int) -> Pack:
    def pack(content: bytes) -> tuple[bytes, int]:
        return bytes(pa.Codec(codec).compress(content, asbytes=True)), flag

    return pack


def fat(entries: list[tuple[int, int, bytes]], pack: Pack = plain) -> bytes:
    """A fat binary of (kind, architecture, content)."""
    made = b""
    for kind, architecture, content in entries:
        body, flags = pack(content)
        padded = body + bytes(-len(body) % 8)
        sizes = (len(body), len(content)) if flags else (0, 0)
        made += struct.pack("<HHIQIIHHI", kind, 0x101, 64, len(padded), sizes[0], 0, 8, 1, architecture)
        made += struct.pack("<IIQQQ", 0, 0, flags | 0x11, 0, sizes[1]) + padded
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(made)) + made


@pytest.mark.parametrize("pack", [plain, packed("lz4_raw", 0x2000), packed("zstd", 0x8000)])
def test_fat_binaries_are_found_wherever_they_lie(pack: Pack, tmp_path: Path) -> None:
    codes = {a: compile_cuda(DEVICE, a) for a in ("sm_75", "sm_80", "sm_86")}
    whole = fat([(2, int(a[3:]), code) for a, code in codes.items()], pack)
    other = fat([(2, 86, compile_cuda(DEVICE.replace("second", "third"), "sm_86")), (1, 80, PTX.encode())])
    (tmp_path / "library.so").write_bytes(b"\x7fELF" + bytes(100) + whole + bytes(24) + other + b"the end")
    for gpu, name, gain in (("t4", "first", 1), ("rtx-4090", "third", 2), ("a100-40", "second", 2)):
        x = ones()
        smlab.run(tmp_path / "library.so", 1, 64, x, gpu=gpu, name=name)
        assert (x == 1 + gain).all()
    x = ones()
    smlab.run(tmp_path / "library.so", 1, 64, x, 64, gpu="h100-pcie")
    assert (x == 3).all()


def test_an_instruction_of_another_architecture_is_refused_by_its_own_name() -> None:
    """``sm_90`` becomes ``sm_90a`` where code asks for it; what that lacks as well is told of it."""
    copied = """extern "C" __global__ void k() {
        asm volatile("{.reg .b64 %a; mov.u64 %a, 0;"
            "tcgen05.cp.cta_group::1.128x256b [%0], %a;}" :: "r"(0)); }"""
    assert compile_cuda(copied, "sm_100")
    with pytest.raises(SmlabError, match=r"for sm_90a: .*128x256b.* not supported on .target 'sm_90a'"):
        compile_cuda(copied, "sm_90")


def test_damaged_fat_binaries_are_refused(tmp_path: Path) -> None:
    whole = fat([(2, 80, bytes(200))], packed("zstd", 0x8000))
    other = bytearray(fat([(2, 80, bytes(200))], packed("zstd", 0x8000)))
    other[16 + 40 : 16 + 48] = struct.pack("<Q", 0x4011)
    wrong = bytearray(whole)
    wrong[-20:-8] = bytes(12)
    long = bytearray(fat([(2, 80, bytes(64))]))
    long[16 + 8 : 16 + 16] = struct.pack("<Q", 10**9)
    for content, message in (
        (whole[:-10], "is cut off"),
        (bytes(wrong), "is damaged: zstd cannot unpack it"),
        (bytes(other), "is compressed in a way that is not known here.*cuobjdump"),
        (bytes(long), "is damaged: an entry"),
        (b"\x7fELF" + bytes(200), "holds no machine code of a GPU"),
        (b"MZ" + bytes(3), "holds no machine code of a GPU"),
    ):
        (tmp_path / "program").write_bytes(content)
        with pytest.raises(SmlabError, match=message):
            smlab.run(tmp_path / "program", 1, 64, ones(), gpu="a100-40")
    assert [*entries_of(b"nothing", "here")] == []
    (tmp_path / "program").write_bytes(b"#!/bin/sh\n")
    with pytest.raises(SmlabError, match=r"program: no kernel file"):
        smlab.run(tmp_path / "program", 1, 64, ones(), gpu="a100-40")
