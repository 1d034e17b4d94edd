"""Samples by instruction: ncu's source page, its PC sampling by instruction, reports, and our own files."""

import importlib.util
import random
from pathlib import Path

import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.profiles.pc_samples.ncu_report import read_report_samples
from smlab.hw_bench.profiles.pc_samples.sample_code import aligned, code_of
from smlab.hw_bench.profiles.pc_samples.sample_files import read_samples, write_samples
from smlab.hw_bench.profiles.pc_samples.samples import InstructionSamples, KernelSamples, LaunchFacts

OWN = """# kernel = k
# blocks = 80
# busy.dram = 0.5
#,Address,Source,Line,Instructions Executed,Avg. Threads Executed,L1 Wavefronts Shared,\
stall_selected,stall_long_sb,stall_long_sb (Not Issued)
0,0x7f00,MOV R1 R2,3,10,32,,5,0,0
1,0x7f10,EXIT,4,10,16.5,20,2,7,4
"""


def test_a_file_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text(OWN)
    kernel = read_samples(path)
    assert (kernel.kernel, kernel.samples, kernel.latency, kernel.active) == ("k", 14, 4, 10)
    assert kernel.launch.blocks == 80
    assert kernel.busy == {"dram": 0.5}
    assert kernel.rows[1].passes == 2
    assert kernel.reasons() == {"selected": 7, "long_scoreboard": 7}


def test_written_samples_are_read_again(tmp_path: Path) -> None:
    rows = (
        InstructionSamples(0, "MOV R1, R2", 1, {"selected": 3, "wait": 4}, {"wait": 2}, 7, 32.0, None),
        InstructionSamples(16, "EXIT", None, {"mio_throttle": 9}, {"mio_throttle": 9}, 7, 31.5, 2.0),
    )
    facts = LaunchFacts(blocks=3, sms=80, warps_per_scheduler=2.5)
    kernel = KernelSamples("k", rows, "k", "sm_70", launch=facts, period_cycles=32, busy={"l2": 0.25})
    write_samples(kernel, tmp_path / "s.csv")
    again = read_samples(tmp_path / "s.csv")
    assert again.rows == rows
    assert (again.launch, again.busy, again.period_cycles) == (facts, {"l2": 0.25}, 32)


def test_vector_add_by_instruction_and_by_line(shared_data: Path) -> None:
    by_instruction = read_samples(shared_data / "ncu-source-page" / "vector_add_sass_pcsamp.csv")
    by_line = read_samples(shared_data / "ncu-source-page" / "vector_add_s.csv")
    assert by_instruction.samples == 294127
    assert by_line.by_line
    lines = {row.address: row.samples for row in by_line.rows}
    assert lines[19] == max(lines.values())
    for reason in ("long_scoreboard", "short_scoreboard", "tex_throttle", "wait"):
        assert by_line.reasons()[reason] == by_instruction.reasons()[reason]
    function = code_of(by_instruction)
    assert function is not None
    assert [i.opcode for i in function.instructions][:3] == ["MOV", "S2R", "MOV"]
    assert aligned(by_instruction, function).rows[0].address == 0


def test_a_raw_page_has_no_samples_by_instruction(tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    path.write_text(
        '"ID","Kernel Name","smsp__pcsamp_warps_issue_stalled_barrier"\n"","","warp"\n"0","k","3"\n'
    )
    with pytest.raises(SmlabError, match=r"whole kernels \(expected ncu --page source"):
        read_samples(path)


def test_vector_add_from_its_report(shared_data: Path) -> None:
    path = shared_data / "ncu-source-page" / "vector_add.ncu-rep"
    if importlib.util.find_spec("ncu_report") is None:
        with pytest.raises(SmlabError, match=r"smlab\[ncu\]"):
            read_report_samples(path)
        return
    (kernel,) = read_report_samples(path)
    assert (kernel.samples, kernel.architecture, kernel.launch.blocks) == (294127, "sm_86", 131072)
    assert kernel.cubin is not None
    assert kernel.rows[-1].line == 20
    assert kernel.launch.cycles == 10882536
    load = next(row for row in kernel.rows if row.text.startswith("LDG.E.64"))
    assert (load.passes, load.sectors, load.sectors_ideal) == (2, 8, 8)  # 256 bytes of a warp
    assert kernel.excess == {"l2": 1}


COUNTED = """#,Address,Source,Instructions Executed,L1 Wavefronts Shared,L1 Wavefronts Shared Ideal,\
L1 Tag Requests Global,L2 Theoretical Sectors Global,L2 Theoretical Sectors Global Ideal,stall_selected
0,0x0,LDG.E R0 [R2],10,,,320,320,40,5
1,0x10,STS [R4] R0,10,80,20,,,,5
2,0x20,EXIT,10,,,,,,5
"""


def test_sectors_and_wavefronts_by_instruction(tmp_path: Path) -> None:
    """Of a load that strides, and of a store whose lanes meet in banks."""
    path = tmp_path / "s.csv"
    path.write_text(COUNTED)
    samples = read_samples(path)
    load, store, _ = samples.rows
    assert (load.passes, load.passes_ideal, load.sectors, load.sectors_ideal) == (32, None, 32, 4)
    assert (store.passes, store.passes_ideal, store.sectors) == (8, 2, None)
    assert samples.excess == {"l2": 8}


def mutated(text: str, random_: random.Random) -> str:
    lines = text.splitlines()
    n = random_.randrange(len(lines))
    change = random_.randrange(6)
    if change == 0:
        del lines[n]
    elif change == 1:
        lines[n] = lines[n][: random_.randrange(len(lines[n]) + 1)]
    elif change == 2:
        cells = lines[n].split(",")
        cells[random_.randrange(len(cells))] = random_.choice(
            ["", "-1", "1e99", "nan", "x", "0x", "9" * 30, "\u0663"]
        )
        lines[n] = ",".join(cells)
    elif change == 3:
        lines.insert(n, lines[n])
    elif change == 4:
        lines[n] = lines[n].replace(",", '"', 1)
    else:
        lines[n] = lines[n].replace(" = ", " = -")
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(60))
def test_mutated_samples_are_read_or_refused(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text(mutated(mutated(OWN, random.Random(seed)), random.Random(seed + 1000)))
    refusal = ""
    try:
        kernel = read_samples(path)
        function = code_of(kernel)
        if function is not None:
            aligned(kernel, function)
    except SmlabError as error:
        refusal = str(error)
    assert "\n" not in refusal
