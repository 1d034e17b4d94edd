"""Finding the tools, and the reader on code compiled here and now."""

import importlib.util
import struct
import sys
from pathlib import Path

import pytest

from disassembler_graph import flow_edges
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass import (
    ControlFlow,
    Tool,
    assemble,
    disassemble,
    find_nvdisasm,
    find_ptxas,
    read_cubin,
)
from smlab.hw_bench.sass import tools as sass_tools

PTX = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry count(.param .u64 out, .param .u32 n)
{
    .reg .pred p;
    .reg .u32 i, n32;
    .reg .u64 a;
    ld.param.u64 a, [out];
    ld.param.u32 n32, [n];
    mov.u32 i, 0;
loop:
    .pragma "nounroll";
    red.global.add.u32 [a], i;
    add.u32 i, i, 1;
    setp.lt.u32 p, i, n32;
    @p bra loop;
    ret;
}
"""


@pytest.fixture(scope="module", params=["sm_70", "sm_80", "sm_90"])
def cubin(request: pytest.FixtureRequest) -> bytes:
    try:
        assembler = find_ptxas(architecture=request.param)
        find_nvdisasm(architecture=request.param, major=assembler.major)
    except SmlabError as error:
        pytest.skip(f"not checked on live code: {error}")
    return assemble(PTX, request.param, assembler)[0]


def test_live_code_is_read_and_has_its_loop(cubin: bytes) -> None:
    (function,) = disassemble(cubin)
    assert function.name == "count"
    flow = ControlFlow(function)
    (loop,) = flow.loops
    assert sum(i.is_a("RED") or i.is_a("REDG") for i in flow.loop_instructions(loop)) == 1
    theirs = flow_edges(cubin)["count"]
    code = [i for block in flow.reachable for i in flow.blocks[block].instructions]
    assert theirs <= {(i.address, after.address) for i in code for after in flow.following(i)}


def test_a_cubin_tells_its_code_without_a_tool(cubin: bytes) -> None:
    content = read_cubin(cubin)
    (function,) = disassemble(cubin)
    (code,) = content.functions
    assert content.architecture == function.architecture
    assert code.name == "count"
    words = [word for i in function.instructions if i.words for word in i.words]
    assert struct.unpack(f"<{len(words)}Q", code.code) == tuple(words)


def test_the_digest_does_not_depend_on_line_tables(cubin: bytes) -> None:
    content = read_cubin(cubin)
    other = read_cubin(assemble(PTX, content.architecture, options=["-lineinfo"])[0])
    assert other.sha256 != content.sha256
    assert other.functions[0].sha256 == content.functions[0].sha256


def test_what_is_no_cubin_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SmlabError, match="is not a CUDA binary"):
        read_cubin(b"nothing")
    with pytest.raises(SmlabError, match="none.cubin: there is no such file"):
        read_cubin(tmp_path / "none.cubin")
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, 62, 1, 0, 0, 64, 0, 64, 0, 0, 64, 0, 0
    )
    with pytest.raises(SmlabError, match="for another machine"):
        read_cubin(header)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 2, 190, 1, 0, 0, 64, 0, 64, 0, 0, 64, 3, 0
    )
    with pytest.raises(SmlabError, match="is cut off"):
        read_cubin(header)
    for names, section in ((b"no end", 0), (b"x\0", 1 << 63)):  # a name without an end, a place far away
        elf = struct.pack(
            "<16sHHIQQQIHHHHHH",
            b"\x7fELF\x02\x01\x01",
            2,
            190,
            1,
            0,
            0,
            section or 64,
            70,
            64,
            0,
            0,
            64,
            1,
            0,
        )
        body = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 128, len(names), 0, 0, 1, 0) + names
        with pytest.raises(SmlabError, match="is cut off"):
            read_cubin(elf + body)


def test_a_tool_that_is_missing_is_told_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sass_tools.shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SmlabError, match=r"nvdisasm was not found: .* pip install --no-deps triton==3\.3\.1"):
        find_nvdisasm()
    with pytest.raises(SmlabError, match=r"ptxas was not found: .*smlab\[cuda12\]"):
        find_ptxas()
    with pytest.raises(SmlabError, match="no such program"):
        find_nvdisasm(tmp_path / "nvdisasm")


def test_a_release_that_does_not_know_the_architecture_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, release in (("new", "13.0"), ("old", "12.8")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V{release}.1'\n")
        program.chmod(0o755)
    monkeypatch.setattr(sass_tools, "_candidates", lambda name: iter([tmp_path / "new", tmp_path / "old"]))
    assert find_nvdisasm(architecture="sm_90").release == "13.0"
    assert find_nvdisasm(architecture="sm_70").release == "12.8"
    assert find_nvdisasm(major=12).path == tmp_path / "old"
    with pytest.raises(
        SmlabError, match=r"no nvdisasm of release 14 was found \(.*release 13\.0; .*release 12\.8\)"
    ):
        find_nvdisasm(major=14)


def test_what_a_release_knows() -> None:
    assert Tool("nvdisasm", Path("x"), "12.8").knows("sm_70")
    assert not Tool("nvdisasm", Path("x"), "13.0").knows("sm_70")
    assert Tool("nvdisasm", Path("x"), "13.0").knows("sm_75")
    assert Tool("nvdisasm", Path("x"), "13.0").knows("sm_90a")


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process")
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("while :; do :; done", "kernel: nvdisasm does not come to an end: it is damaged"),
        ("exec yes", "kernel: nvdisasm prints without end: it is damaged"),
        ("sleep 600", "kernel: nvdisasm has not ended after 1.5 s"),
    ],
)
def test_a_tool_that_never_ends_is_ended(
    script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "nvdisasm"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(sass_tools, "_CPU_S", 1)
    monkeypatch.setattr(sass_tools, "_MOST_PRINTED", 10**6)
    monkeypatch.setattr(sass_tools, "_TIMEOUT_S", 1.5 if "sleep" in script else 120.0)
    with pytest.raises(SmlabError) as caught:
        sass_tools.disassemble_raw(b"code", "sm_70", "kernel", Tool("nvdisasm", path, "12.8"))
    assert str(caught.value) == said
