"""Traces of Accel-Sim: the three ways to write addresses, both engines, what was executed here read back, and
files that are refused with the line."""

import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smlab.cli.main import run as command
from smlab.examples import KERNEL, KERNEL_LAUNCH
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass.image import listed_image
from smlab.sim import Record
from smlab.sim.execution.recording import Executions, Recording
from smlab.sim.execution.run import MachineRun, run_machine_code
from smlab.sim.frontends.registry import load_kernel
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.launch.launch_file import read_launch
from smlab.sim.traces.compare import first_difference
from smlab.sim.traces.reading import RecordedKernel, find_trace, read_list, read_trace
from smlab.sim.traces.run import run_trace
from smlab.sim.traces.writing import write_traces
from smlab.validation.checks.random_code import REGISTERS, WORDS, piece

V100 = load_gpu("v100")
HEADER = """\
-kernel name = three_ways
-kernel id = 1
-grid dim = (2,1,1)
-block dim = (40,1,1)
-shmem = 128
-nregs = 12
-binary version = 70
-cuda stream id = 0
-shmem base_addr = 0x00007f4a00000000
-local mem base_addr = 0x00007f4b00000000
-nvbit version = 1.5.5
-accelsim tracer version = 5
-enable lineinfo = 0

#traces format = PC mask dest_num [reg_dests] opcode ...
"""
LISTED = " ".join(f"0x{0x7F0000000000 + 256 * lane:016x}" for lane in range(4))
FIRST = [
    "0000 ffffffff 1 R1 IMAD.MOV.U32 2 R255 R255 0 40 ",
    f"0010 0000000f 1 R2 LDG.E.64.SYS 1 R4 8 0 {LISTED} 0 ",
    "0020 ffffffff 1 R6 LDG.E.SYS 1 R4 4 1 0x7f0000001000 -4 0 ",
    "0030 ffff00ff 1 R7 LDS.U 1 R8 4 2 0x0" + " 4" * 23 + " 0 ",
    "0040 ffffffff 1 R9 FFMA 3 R2 R6 R7 0 0 ",
    "0050 00000000 0 BRA 0 0 96 ",
    "0060 ffffffff 0 BAR.SYNC.DEFER_BLOCKING 0 0 0 ",
    "0070 ffffffff 0 STG.E.SYS 2 R4 R9 4 1 0x7f0000002000 4 0 ",
    "0080 ffffffff 0 EXIT 0 0 0 ",
]
LAST = [
    "0060 000000ff 0 BAR.SYNC.DEFER_BLOCKING 0 0 0 ",
    "0090 00000001 0 ATOMS.ADD 2 R8 R9 4 2 0x40 0 ",
    "0080 000000ff 0 EXIT 0 0 0 ",
]


def written(first: list[str] = FIRST, last: list[str] = LAST, header: str = HEADER) -> str:
    """A trace of two blocks of two warps."""
    text = header
    for block in range(2):
        text += f"\n#BEGIN_TB\n\nthread block = {block},0,0\n"
        for warp, lines in enumerate((first, last)):
            text += f"\nwarp = {warp}\ninsts = {len(lines)}\n" + "".join(f"{line}\n" for line in lines)
        text += "\n#END_TB\n"
    return text


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "kernel-1.traceg"
    path.write_text(written())
    return path


def test_addresses_are_read_in_all_three_ways(trace: Path) -> None:
    found = read_trace(trace)
    assert found.addresses(0) == {}
    assert found.addresses(1) == {lane: 0x7F0000000000 + 256 * lane for lane in range(4)}
    assert found.addresses(2) == {lane: 0x7F0000001000 - 4 * lane for lane in range(32)}
    lanes = [*range(8), *range(16, 32)]
    assert found.addresses(3) == {lane: 4 * n for n, lane in enumerate(lanes)}
    assert found.first.tolist() == [0, 9, 12, 21, 24]
    assert [i.opcode.split(".")[0] for i in found.code] == [
        "IMAD",
        "LDG",
        "LDG",
        "LDS",
        "FFMA",
        "BRA",
        "BAR",
        "STG",
        "EXIT",
        "ATOMS",
    ]


def test_both_engines_time_it_alike(trace: Path) -> None:
    compiled, simpy = (
        run_trace(read_trace(trace), V100, engine=e, keep=Record.ALL) for e in ("compiled", "simpy")
    )
    assert first_difference(compiled.result, simpy.result) is None
    assert compiled.instructions == simpy.instructions
    told = {i.address: i for i in compiled.instructions}
    # The sum waits for both loads.
    assert max(told[0x40].stalls, key=lambda r: told[0x40].stalls[r]) == "long_scoreboard"
    assert (told[0x10].executed, told[0x10].lanes, told[0x50].lanes) == (2, 8, 0)
    assert compiled.result.atomic.jobs == 2


def test_a_compressed_trace_is_the_same(trace: Path, tmp_path: Path) -> None:
    packed = tmp_path / "kernel-1.traceg.xz"
    packed.write_bytes(lzma.compress(trace.read_bytes()))
    assert np.array_equal(read_trace(packed).mask, read_trace(trace).mask)
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(SmlabError, match="cut off"):
        read_trace(packed)


def test_the_list_names_copies_and_kernels(trace: Path) -> None:
    path = trace.parent / "kernelslist.g"
    path.write_text("MemcpyHtoD,0x00007f0000000000,65536\nkernel-1.traceg\nkernel-2.traceg.xz\n")
    found = read_list(path)
    assert found.copies == ((0x7F0000000000, 65536),)
    assert [k.name for k in found.kernels] == ["kernel-1.traceg", "kernel-2.traceg.xz"]
    assert find_trace(path, "kernel-1") == trace
    with pytest.raises(SmlabError, match="does not name one kernel"):
        find_trace(path)
    path.write_text("MemcpyHtoD,65536\n")
    with pytest.raises(SmlabError, match=r"kernelslist.g: line 1: no copy \(got 'MemcpyHtoD,65536'"):
        find_trace(path)


WHOLE = written()
REFUSED = {
    "cut off in the header": ("\n".join(HEADER.splitlines()[:5]), r"line 5: the file ends in its header"),
    "cut off in a warp": ("\n".join(WHOLE.splitlines()[:26]), r"line 26: the file ends inside a block"),
    "cut off between blocks": (
        WHOLE[: WHOLE.index("#BEGIN_TB", 900)],
        r"ends without the block 1,0,0 \(got 1",
    ),
    "fewer instructions": (
        WHOLE.replace("insts = 9", "insts = 10", 1),
        r"line 33: fewer instructions .* 9; expected 10",
    ),
    "more instructions": (
        WHOLE.replace("insts = 9", "insts = 8", 1),
        r"line 31: more instructions than warp 0",
    ),
    "a warp twice": (WHOLE.replace("warp = 1", "warp = 0", 1), r"line 33: a warp that came before"),
    "no such warp": (
        WHOLE.replace("warp = 1", "warp = 2", 1),
        r"line 33: a warp that its block does not have",
    ),
    "a block twice": (WHOLE.replace("block = 1,0,0", "block = 0,0,0"), r"line 43: a block that came before"),
    "no such block": (
        WHOLE.replace("block = 1,0,0", "block = 2,0,0"),
        r"line 43: a block outside of the grid",
    ),
    "an address mode": (
        WHOLE.replace("4 1 0x7f0000001000", "4 3 0x7f0000001000"),
        r"line 25: an address mode",
    ),
    "a gap": (WHOLE.replace("ffffffff 1 R6", "ffff00ff 1 R6", 1), r"line 25: a stride for lanes with a gap"),
    "few addresses": (WHOLE.replace(" 4 4 4 0 ", " 4 "), r"line 26: the line ends before its addresses"),
    "a register": (
        WHOLE.replace("R255", "R256", 1),
        r"line 23: no register \(got 'R256'; expected R0 to R255\)",
    ),
    "a mask": (WHOLE.replace("ffffffff", "1ffffffff", 1), r"line 23: the mask is no hexadecimal number"),
    "an older version": (
        WHOLE.replace("tracer version = 5", "tracer version = 2"),
        r"a version of the tracer",
    ),
    "no grid": (WHOLE.replace("-grid dim", "-grid"), r"the header has no -grid dim"),
    "a grid": (WHOLE.replace("(2,1,1)", "(9999999999,1,1)"), r"too many warps"),
    "two results": (
        WHOLE.replace("1 R1 IMAD", "2 R1 R2 IMAD"),
        r"the number of results \(got 2; expected at most 1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_inconsistent_traces_are_refused_with_the_line(name: str, tmp_path: Path) -> None:
    text, message = REFUSED[name]
    path = tmp_path / "kernel-1.traceg"
    path.write_text(text)
    with pytest.raises(SmlabError, match=message) as told:
        read_trace(path)
    assert "line " in str(told.value)
    assert len(str(told.value).splitlines()) == 1


def test_an_opcode_that_cannot_be_timed_is_named(tmp_path: Path) -> None:
    path = tmp_path / "kernel-1.traceg"
    path.write_text(written([*FIRST[:-1], "00a0 ffffffff 1 R4 TEX.SCR.LL 2 R4 R8 0 0 ", FIRST[-1]]))
    with pytest.raises(
        SmlabError, match=r"PC 0xa0: an opcode that cannot be timed here \(got 'TEX.SCR.LL'\)"
    ):
        run_trace(read_trace(path), V100)
    path.write_text(
        written([*FIRST[:-1], "00a0 ffffffff 1 R4 HMMA.884.F32.F32.STEP0 3 R4 R8 R10 0 0 ", FIRST[-1]])
    )
    assert run_trace(read_trace(path), V100).cycles > 0


def test_a_chain_of_products_waits_for_results(tmp_path: Path) -> None:
    """A trace has no stall cycles, which in machine code tell when the result of a product is there."""
    path, links, a100 = tmp_path / "kernel-1.traceg", 100, load_gpu("a100-40")
    line = "00a0 ffffffff 1 R4 HMMA.16816.F32 3 R4 R8 R10 0 0 "
    path.write_text(written([*FIRST[:-1], *[line] * links, FIRST[-1]]))
    latency = a100.number("pipe.tensor.latency_cycles")
    later = a100.with_values({"pipe.tensor.latency_cycles": latency + 20}, source="a test")
    cycles = [run_trace(read_trace(path), gpu).cycles for gpu in (a100, later)]
    assert cycles[1] - cycles[0] == pytest.approx(20 * links, rel=0.03)


def recorded(launch: MachineLaunch, folder: Path, engine: str = "compiled") -> tuple[MachineRun, Executions]:
    recording = Recording()
    done = run_machine_code(launch, V100, engine=engine, keep=Record.TOTALS, recording=recording)
    executed = recording.executions()
    write_traces(folder, launch, executed)
    assert len(executed) == done.result.warp_instructions
    return done, executed


def check_equal(executed: Executions, found: RecordedKernel) -> None:
    """Warp by warp the same instructions, masks and addresses."""
    warps = np.repeat(np.arange(len(found.first) - 1), np.diff(found.first))
    assert np.array_equal(warps, executed.warp)
    pcs = np.array([i.pc for i in found.code])
    assert np.array_equal(pcs[found.index], 16 * executed.pc)
    assert np.array_equal(found.mask, executed.mask)
    for n in range(len(executed)):
        assert tuple(found.addresses(n).values()) == executed.addresses(n)


def example() -> MachineLaunch:
    given = read_launch(KERNEL_LAUNCH)
    image = load_kernel(KERNEL, "sm_70")
    shared = given.shared_bytes
    return MachineLaunch(
        image, given.grid, given.block, given.arguments, given.names, dynamic_shared_bytes=shared
    )


def random_launch(seed: int) -> MachineLaunch:
    words, out = np.arange(WORDS, dtype=np.int32), np.zeros((2 * 50, REGISTERS), dtype=np.uint32)
    return MachineLaunch(
        listed_image(piece(seed)),
        (2, 1, 1),
        (50, 1, 1),
        [words, out],
        dynamic_shared_bytes=4 * WORDS,
        check_shared=False,
        ordered=True,
    )


def test_what_was_executed_is_read_back(tmp_path: Path) -> None:
    done, executed = recorded(example(), tmp_path)
    found = read_trace(find_trace(tmp_path / "kernelslist.g"))
    check_equal(executed, found)
    again = run_trace(found, V100)
    assert again.result.warp_instructions == done.result.warp_instructions
    assert again.result.atomic.jobs == done.result.atomic.jobs
    assert again.result.atomic.e_mean == done.result.atomic.e_mean
    # Registers alone say less than control codes do.
    assert again.cycles == pytest.approx(done.cycles, rel=0.05)


@pytest.mark.parametrize("seed", range(6))
def test_random_code_is_read_back_and_timed_alike(seed: int, tmp_path: Path) -> None:
    _, executed = recorded(random_launch(seed), tmp_path / "compiled")
    recorded(random_launch(seed), tmp_path / "simpy", "simpy")
    texts = [(tmp_path / engine / "kernel-1.traceg").read_text() for engine in ("compiled", "simpy")]
    assert texts[0] == texts[1]
    found = read_trace(tmp_path / "compiled" / "kernel-1.traceg")
    check_equal(executed, found)
    results = [run_trace(found, V100, engine=e, keep=Record.ALL).result for e in ("compiled", "simpy")]
    assert first_difference(*results) is None


def taken(line: str) -> dict[str, Any]:
    """A line as Accel-Sim's own reader takes it: its order of reads, and its limits."""
    words = iter(line.split(" "))
    pc, mask = int(next(words), 16), int(next(words), 16)
    counts = []
    for most in (1, 4):
        count = int(next(words))
        assert count <= most
        counts.append([int(next(words).removeprefix("R")) for _ in range(count)])
        if most == 1:
            opcode = next(words)
    width, addresses = int(next(words)), {}
    lanes = [lane for lane in range(32) if mask >> lane & 1]
    if width:
        mode, base = int(next(words)), int(next(words), 16)
        if mode == 1:
            stride = int(next(words))
            assert not lanes or lanes[-1] - lanes[0] == len(lanes) - 1
            addresses = {lane: base + stride * n for n, lane in enumerate(lanes)}
        else:
            assert mode == 2
            for n, lane in enumerate(lanes):
                # One number is read for each lane; the one for the first lane is read last, and not used.
                addresses[lane] = base if n == 0 else addresses[lanes[n - 1]] + int(next(words))
    assert int(next(words)) is not None
    assert list(words) == [""]
    return {"pc": pc, "mask": mask, "opcode": opcode, "width": width, "addresses": addresses}


def test_lines_are_as_accel_sims_reader_takes_them(tmp_path: Path) -> None:
    _, executed = recorded(random_launch(3), tmp_path)
    text = (tmp_path / "kernel-1.traceg").read_text()
    assert text.endswith("#END_TB\n")
    lines = [
        line for line in text.splitlines() if line[:4].isalnum() and line[4:5] == " " and "=" not in line
    ]
    assert len(lines) == len(executed)
    for n, line in enumerate(lines):
        found = taken(line)
        assert (found["pc"], found["mask"]) == (16 * executed.pc[n], executed.mask[n])
        assert tuple(found["addresses"].values()) == executed.addresses(n)


def test_the_command_writes_and_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["run", "--example", "--accel-sim", str(tmp_path)]) == 0
    assert (tmp_path / "kernelslist.g").read_text().splitlines()[-1] == "kernel-1.traceg"
    assert command(["run", str(tmp_path / "kernel-1.traceg")]) == 0
    assert "2,048 jobs" in capsys.readouterr().out
    assert command(["run", str(tmp_path / "kernelslist.g"), "--sms", "4"]) == 2
    assert command(["run", str(tmp_path / "kernelslist.g"), "--launch", str(KERNEL_LAUNCH)]) == 2
    assert command(["run", "--example", "--sms", "2", "--accel-sim", str(tmp_path)]) == 2
    told = capsys.readouterr().err.splitlines()
    assert sum(line.startswith("smlab: ") for line in told) == 3
