"""The kernel's page: one file that needs nothing else, and what it says of a run."""

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import smlab
from smlab.cli.main import run
from smlab.commands.kernel_page.code_listing import ListedInstruction, code_panes
from smlab.commands.kernel_page.colours import COLOURS, colour_of
from smlab.commands.kernel_page.content import KernelPage, PageSection
from smlab.commands.kernel_page.drawings import BINS, roofline_picture, short, states_by_slot
from smlab.commands.kernel_page.html import render_pages
from smlab.commands.kernel_page.sectors import SectorCount
from smlab.examples import KERNEL, KERNEL_LAUNCH
from smlab.hw_bench.profiles.reading import as_profile
from smlab.hw_bench.profiles.work.roofline_quantities import roofline_quantities
from smlab.models.roofline.ceilings import ceilings
from smlab.sim.execution.run import MachineRun
from smlab.sim.instructions import Reason
from smlab.sim.isa.launch.launch_file import read_launch
from smlab.validation.grid_counters import grid_counters
from smlab.validation.report.page import CONTENT_POLICY

SECTIONS = (
    "speed-of-light",
    "stalls",
    "roofline",
    "memory",
    "hottest",
    "code",
    "accesses",
    "timeline",
    "counters",
)


class Seen(HTMLParser):
    """Anchors, links, and all that could load something or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if given.get("id"):
            self.anchors.append(str(given["id"]))
        if tag == "a":
            self.links.append(str(given["href"]))
        if tag in ("script", "link", "iframe", "object", "img") or any(k.startswith("on") for k in given):
            self.loads.append(tag)


def checked(text: str) -> Seen:
    """What a page has, once it is found to stand alone and its links to lead somewhere."""
    seen = Seen(text)
    assert CONTENT_POLICY in text
    assert not seen.loads
    assert not re.search(r"https?://|url\((?!#)", text)
    assert max(Counter(seen.anchors).values()) == 1
    assert {link for link in seen.links if link.startswith("#")} == set(seen.links)
    assert {link[1:] for link in seen.links} <= set(seen.anchors)
    return seen


@pytest.fixture(scope="module")
def example() -> tuple[MachineRun, SectorCount]:
    launch, sectors = read_launch(KERNEL_LAUNCH), SectorCount()
    done = smlab.run(
        KERNEL,
        launch.grid,
        launch.threads,
        *launch.arguments,
        gpu="v100",
        shared_bytes=launch.shared_bytes,
        keep=smlab.Record.ALL,
        recording=sectors,
    )
    return done, sectors


@pytest.mark.parametrize(
    ("value", "text"),
    [(1e15, "1 PFLOP/s"), (312e12, "312 TFLOP/s"), (950.0, "950 FLOP/s"), (0.0, "0 FLOP/s")],
)
def test_a_number_is_short_as_people_read_it(value: float, text: str) -> None:
    assert short(value, "FLOP/s") == text


def test_the_page_of_a_run_stands_alone(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    assert run(["run", "--example", "--html", str(path)]) == 0
    text = path.read_text()
    seen = checked(text)
    assert set(SECTIONS) <= set(seen.anchors)
    assert text.index('class="verdict') < text.index("<section>")
    assert "14,618 cycles: limited by latency or occupancy" in text
    assert "8 blocks leave 72 of 80 SMs without work." in text
    assert "atomicAdd(&amp;local[pixels[i]], 1);" in text
    assert "prefers-color-scheme: dark" in text
    # Both ways: the line leads to its first instruction, and each instruction to its line.
    assert 'id="L10"' in text
    assert re.search(r'<li id="L10"[^>]*><a href="#i150">', text)
    assert re.search(r'<li id="i1c0" class="L10"[^>]*><span>01c0</span><a href="#L10">10</a>', text)


def test_the_page_of_advice_has_what_was_tried(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    assert run(["advise", "--example", "--try", "grid=8", "--html", str(path)]) == 0
    text = path.read_text()
    assert {"advice", "tried", "blame", *SECTIONS} <= set(checked(text).anchors)
    assert "Most promising: grid, " in text
    assert "80 blocks of 256: 4.17x" in text
    assert "least sectors" in text
    rows = re.findall(r"<tr><td class=\"left\">(grid=\d+)</td><td[^>]*>([^<]*)</td>", text)
    assert ("grid=8", "8 blocks of 256") in rows


def test_the_page_of_a_part_of_a_grid_says_so(tmp_path: Path) -> None:
    """Without sectors, which are counted of whole grids."""
    path = tmp_path / "page.html"
    command = ["run", str(KERNEL), "--launch", str(KERNEL_LAUNCH), "--sms", "1", "--html", str(path)]
    assert run(command) == 0
    text = path.read_text()
    checked(text)
    assert "of 8 blocks ran on 1 SMs" in text
    assert "least passes" in text
    assert "least sectors" not in text


def test_a_page_of_2000_instructions_is_under_2_mb() -> None:
    text = "@!P0 IMAD.MOV.U32 R{}, RZ, RZ, c[0x0][0x28], PT"
    listed = [
        ListedInstruction(16 * n, n // 4 + 1, text.format(n), float(n % 97), "123,456 x long_scoreboard")
        for n in range(2000)
    ]
    source = {n: f"    total[{n}] += x[{n}] * y[i * width + {n}];" for n in range(1, 800)}
    panes = code_panes(listed, source, "", "")
    page = KernelPage("k", "", "", (), [PageSection("code", "Code", [panes])])
    rendered = render_pages([page])
    assert len(rendered.encode()) < 2_000_000
    seen = checked(rendered)
    assert sum(anchor.startswith("i") for anchor in seen.anchors) == 2000
    assert sum(row.heat for row in panes.machine) == pytest.approx(1)
    assert sum(row.heat for row in panes.source) == pytest.approx(1)
    hottest = min(panes.machine, key=lambda row: row.rank)
    assert hottest.heat == max(row.heat for row in panes.machine)


def test_names_on_a_page_are_escaped() -> None:
    listed = [ListedInstruction(0, 1, "<script>alert(1)</script>", 1.0, '"><img src=x>')]
    panes = code_panes(listed, {1: "</style><script>"}, "", "")
    page = KernelPage("<script>", "<b>", "", (), [PageSection("code", "Code", [panes])])
    checked(render_pages([page]))


def test_sectors_are_those_that_the_counters_tell(example: tuple[MachineRun, SectorCount]) -> None:
    """The kernel's one load of global memory; no store."""
    done, sectors = example
    counted = {row.counter: row.value for row in grid_counters(done).rows()}
    found = sectors.of_instructions(len(done.instructions))
    loads = [n for n, i in enumerate(done.instructions) if i.opcode == "LDG"]
    assert found[loads].sum() == counted["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]
    quiet = [n for n, i in enumerate(done.instructions) if i.opcode in ("IADD3", "IMAD", "EXIT", "BRA")]
    assert not found[quiet].any()


def test_the_timeline_is_what_warps_did(example: tuple[MachineRun, SectorCount]) -> None:
    done, _ = example
    result = done.result
    states = states_by_slot(result, 0)
    assert states.shape == (8, BINS)
    mine = result.warps.sm == 0
    busy = result.warps.stall_cycles[mine].sum(axis=0)
    share = busy[Reason.LONG_SCOREBOARD] / busy.sum()
    assert np.mean(states == Reason.LONG_SCOREBOARD) == pytest.approx(share, abs=0.06)
    assert states[0, 0] != -1


def test_the_roofline_has_a_dot_for_each_level(example: tuple[MachineRun, SectorCount]) -> None:
    gpu = smlab.load_gpu("v100")
    work = roofline_quantities(as_profile(grid_counters(example[0])), gpu).work
    picture = roofline_picture(ceilings(work, gpu))
    assert picture is not None
    assert picture.svg.count("<circle") == 3
    rate = example[0].result.warp_instructions / example[0].seconds
    assert f"This kernel does {short(rate, 'inst/s')}" in picture.alt


def test_every_reason_has_a_colour_in_light_and_dark() -> None:
    assert all(len(pair) == 2 for pair in COLOURS.values())
    named = {reason.label for reason in Reason if colour_of(reason.label) != "other"}
    assert {"long_scoreboard", "wait", "selected", "barrier"} <= named
    assert colour_of("sleeping") == "other"


def test_a_trace_has_no_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("kernel-1.traceg").write_text("")
    assert run(["run", "kernel-1.traceg", "--html", "x.html"]) == 2
    assert "--html" in capsys.readouterr().err
