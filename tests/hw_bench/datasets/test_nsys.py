"""nsys's trace of GPU work in both forms of its header, with remarks before it and copies between kernels."""

from pathlib import Path

import pytest

from smlab.hw_bench.datasets.nsys import read_nsys
from smlab.hw_bench.datasets.tuning import TuningTimes
from smlab.hw_bench.errors import SmlabError

NEW = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),"
    "Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name"
)
OLD = (
    "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),"
    "Bytes (MB),Throughput (MBps),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name"
)
CHATTER = (
    "Generating SQLite file x.sqlite from x.nsys-rep\nProcessing [x.sqlite] with [cuda_gpu_trace.py]...\n\n"
)
DEVICE = "NVIDIA A100-SXM4-40GB (0)"


def kernel(start: int, duration: float, name: str, grid: str = "80,1,1", new: bool = True) -> str:
    green = "," if new else ""
    return f'{start},{duration},7,{grid},256,1,1,32,0.002,0.000,,,,,"{DEVICE}",1,{green}7,"{name}"'


def copy(start: int, new: bool = True) -> str:
    green = "," if new else ""
    sizes = "4.0,4000.1,Pageable,Device"
    return f'{start},900,8,,,,,,,,,,{sizes},"{DEVICE}",1,{green}7,[CUDA memcpy Host-to-Device]'


def trace(header: str, *rows: str) -> str:
    return CHATTER + "\n".join((header, *rows)) + "\n"


def read(tmp_path: Path, text: str) -> TuningTimes:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    return read_nsys(path)


@pytest.mark.parametrize("new", [True, False])
def test_kernels_are_read_in_order_and_copies_are_none(tmp_path: Path, new: bool) -> None:
    rows = (
        kernel(300, 2000, "f(int *, int)", new=new),
        copy(250, new),
        kernel(100, 5000, "f(int *, int)", new=new),
        kernel(200, 1000, "g", "10,2,1", new=new),
    )
    found = read(tmp_path, trace(NEW if new else OLD, *rows))
    assert found.kernel.tolist() == ["f(int *, int)", "g"]
    assert found.device == "NVIDIA A100-SXM4-40GB"
    assert [pytest.approx(runs) for runs in ((5e-6, 2e-6), (1e-6,))] == list(found.runs)  # by start
    assert found.config == (("80x1x1", "256x1x1", "2000"), ("10x2x1", "256x1x1", "2000"))
    assert found.blocks.tolist() == [80, 20]
    assert found.threads_per_block.tolist() == [256, 256]
    assert found.registers_per_thread.tolist() == [32, 32]


def test_the_header_tells_the_unit(tmp_path: Path) -> None:
    text = trace(NEW.replace("Duration (ns)", "Duration (us)"), kernel(1, 2.5, "f"))
    assert read(tmp_path, text).seconds == pytest.approx([2.5e-6])


def test_another_report_behind_it_is_not_read(tmp_path: Path) -> None:
    text = trace(NEW, kernel(1, 1000, "f")) + "\nTime (%),Total Time (ns)\n50,17\n"
    assert len(read(tmp_path, text)) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing of the kind\n", "no trace of GPU work"),
        (trace(NEW, copy(1)), "no kernel in the trace"),
        (trace(NEW, kernel(1, 1000, "f")[:-30]), "line 5: not a whole row"),
        (trace(NEW, kernel(1, -5, "f")), "line 5: Duration: not a number"),
        (trace(NEW, kernel(1, 0, "f")), "line 5: Duration: unusable time"),
        (trace(NEW, kernel(1, 7, "f", "0,1,1")), "line 5: GrdX: not a size of a launch"),
        (trace(NEW.replace("Reg/Trd", "Regs"), kernel(1, 7, "f")), "a column is missing.*Reg/Trd"),
        (trace(NEW.replace("Duration (ns)", "Duration (h)"), kernel(1, 7, "f")), "Duration: unknown unit"),
        (
            trace(NEW, kernel(1, 7, "f"), kernel(2, 7, "f").replace("A100", "H100")),
            "a trace of several GPUs",
        ),
    ],
)
def test_what_is_no_whole_trace_is_told_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SmlabError, match=message):
        read(tmp_path, text)
