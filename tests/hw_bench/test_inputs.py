"""The limits of what users' files may be, each met and passed by one; and that no reader goes around them."""

import gzip
import io
import lzma
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from smlab.hw_bench import arrays, csv_cells, inputs
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sources import package_folder

FEW = 1000
"""A limit that stands in for a large one."""


def nothing(path: Path) -> None:
    pass


def a_folder(path: Path) -> None:
    path.mkdir()


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_loop(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (nothing, "there is no such file (expected a list)"),
        (a_folder, "is a directory (expected a list)"),
        (a_pipe, "is a device or a pipe (expected a list)"),
        (a_device, "is a device or a pipe (expected a list)"),
        (a_loop, "cannot be read: Too many levels of symbolic links"),
    ],
)
@pytest.mark.parametrize("read", [inputs.check_file, inputs.read_bytes])
def test_what_is_no_file_is_said(
    make: Callable[[Path], None], said: str, read: Callable[..., object], tmp_path: Path
) -> None:
    path = tmp_path / "x"
    make(path)
    with pytest.raises(SmlabError) as caught:
        read(path, "a list")
    assert str(caught.value) == f"{path}: {said}"


@pytest.mark.parametrize(
    ("name", "said"),
    [("a" * 5000, "File name too long"), ("a\0b", "embedded null"), ("a/" * 5000, "File name too long")],
)
def test_a_name_that_can_be_no_path_is_said(name: str, said: str) -> None:
    for read in (inputs.check_file, inputs.load_toml, inputs.load_json, arrays.load_array):
        with pytest.raises(SmlabError, match=f"cannot be read: {said}"):
            read(Path(name))


def test_a_path_is_resolved_or_refused(tmp_path: Path) -> None:
    a_loop(tmp_path / "loop")
    for path in (tmp_path / "loop", tmp_path / "loop" / "x", Path("a\0b")):
        with pytest.raises(SmlabError, match="cannot be found: "):
            inputs.resolved(path)
    assert inputs.resolved(tmp_path / "a" / ".." / "b") == (tmp_path / "b").resolve()


@pytest.mark.parametrize("packed", [False, True])
def test_bytes_of_a_file_are_limited_packed_or_not(packed: bool, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    for size, fits in ((FEW, True), (FEW + 1, False), (10**7, False)):
        content = bytes(size)
        path.write_bytes(gzip.compress(content) if packed else content)
        if fits:
            assert inputs.read_bytes(path, max_bytes=FEW) == content
        else:
            with pytest.raises(SmlabError, match="is too large"):
                inputs.read_bytes(path, max_bytes=FEW)


def test_a_bomb_is_not_unpacked_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Counted(gzip.GzipFile):
        def read(self, size: int | None = -1) -> bytes:
            asked.append(size)
            return super().read(size)

    monkeypatch.setattr(gzip, "GzipFile", Counted)
    with pytest.raises(SmlabError, match=r"is too large unpacked .got 'more than 1000 bytes'"):
        inputs.unpacked("x", gzip.compress(bytes(10**7)), FEW)
    assert asked == [FEW + 1]


@pytest.mark.parametrize("cut", [3, 12, -1])
def test_damaged_gzip_is_said(cut: int) -> None:
    with pytest.raises(SmlabError, match="truncated or damaged gzip"):
        inputs.unpacked("x", gzip.compress(os.urandom(99))[:cut])


def test_lines_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MAX_LINE_BYTES", 10)
    for text, line in (("0123456789\n" * 3, 0), ("a\n\n01234567890\nb", 3), ("0123456789x", 1)):
        if not line:
            inputs.check_lines("x", text.encode())
            continue
        with pytest.raises(SmlabError, match=f"x: line {line}: is too long"):
            inputs.check_lines("x", text.encode())
        with pytest.raises(SmlabError, match=f"x: line {line}: is too long"):
            list(inputs.limited_lines("x", io.StringIO(text)))
    assert list(inputs.limited_lines("x", io.StringIO("a\nb"))) == [(1, "a\n"), (2, "b")]


def test_empty_lines_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MAX_EMPTY_LINES", 3)
    assert len(list(inputs.limited_lines("x", io.StringIO("\n\n\na\n" * 4)))) == 16
    with pytest.raises(SmlabError, match="x: line 5: more than 3 empty lines"):
        list(inputs.limited_lines("x", io.StringIO("a\n\n\n\n\n")))


def test_settings_and_json_are_limited_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MAX_TOML_BYTES", FEW)
    monkeypatch.setattr(inputs, "MAX_JSON_BYTES", FEW)
    for read, text in ((inputs.load_toml, 'a = "{}"'), (inputs.load_json, '{{"a": "{}"}}')):
        path = tmp_path / "x"
        spare = len(text.format(""))
        path.write_text(text.format("x" * (FEW - spare)))
        assert len(read(path)["a"]) == FEW - spare
        path.write_text(text.format("x" * (FEW - spare + 1)))
        with pytest.raises(SmlabError, match="is too large .got '1001 bytes'; expected 'at most 1000'|1001"):
            read(path)
        path.write_bytes(gzip.compress(text.format("x" * FEW).encode()))
        with pytest.raises(SmlabError, match="is too large unpacked"):
            read(path)


WHOLE_NUMBERS = (
    (2**64 - 1, ""),
    (-(2**63), ""),
    (2**64, "a whole number that is too large"),
    (-(2**63) - 1, "a whole number that is too large"),
    (10**400, "got 'hundreds of digits'"),
    (10**4400, "4300 digits|thousands of digits"),
)


@pytest.mark.parametrize(("number", "said"), WHOLE_NUMBERS, ids=range(len(WHOLE_NUMBERS)))
def test_digits_of_a_number_are_limited(number: int, said: str, tmp_path: Path) -> None:
    digits = str(number) if number.bit_length() < 5000 else "1" + "0" * 4400
    toml, json = tmp_path / "x.toml", tmp_path / "x.json"
    toml.write_text(f"a.b = [1, {digits}]")
    json.write_text(f'{{"a": {{"b": [1, {digits}]}}}}')
    for read, path in ((inputs.load_toml, toml), (inputs.load_json, json)):
        if not said:
            assert read(path) == {"a": {"b": [1, number]}}
            continue
        with pytest.raises(SmlabError, match=said) as caught:
            read(path)
        assert "too large" not in said or "a.b[1]: " in str(caught.value)
        assert len(str(caught.value)) < 400 + len(str(path))


def test_depth_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MAX_DEPTH", 5)
    path = tmp_path / "x"
    for depth, said in ((5, ""), (6, "is nested too deeply"), (10**5, "nested too deeply|recursion")):
        text = "[" * depth + "]" * depth
        for read, whole in ((inputs.load_toml, f"a = {text}"), (inputs.load_json, f'{{"a": {text}}}')):
            path.write_text(whole)
            if not said:
                assert "a" in read(path)
                continue
            with pytest.raises(SmlabError, match=said) as caught:
                read(path)
            assert len(str(caught.value)) < 300 + len(str(path))


def test_what_is_no_text_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SmlabError, match="is not a text file"):
        inputs.load_toml(path)
    with pytest.raises(SmlabError, match="cannot be read: .*utf-8"):
        inputs.load_json(path)


def test_machine_code_and_sources_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "MAX_CODE_BYTES", FEW)
    monkeypatch.setattr(inputs, "MAX_SOURCE_BYTES", FEW)
    path = tmp_path / "k"
    path.write_bytes(b"x" * FEW)
    assert (len(inputs.machine_code_bytes(path)), len(inputs.source_text(path))) == (FEW, FEW)
    path.write_bytes(b"x" * (FEW + 1))
    for read in (inputs.machine_code_bytes, inputs.source_text):
        with pytest.raises(SmlabError, match="is too large"):
            read(path)


def test_cells_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_cells, "MAX_COLUMNS", 4)
    monkeypatch.setattr(csv_cells, "MAX_CELLS", 12)
    monkeypatch.setattr(csv_cells, "MAX_COLUMN_CELLS", 12)
    csv_cells.check_cells("x", b"a,b,c,d\n" * 3)
    csv_cells.check_size("x", 4, 3)
    for content, said in ((b"a,b,c,d,e\n", "too many columns .got 5"), (b"a,b\n" * 7, "14 cells")):
        with pytest.raises(SmlabError, match=said):
            csv_cells.check_cells("x", content)
    with pytest.raises(SmlabError, match="4 rows of 4 columns"):
        csv_cells.check_size("x", 4, 4)


def test_arrays_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "MAX_BYTES", FEW)
    np.save(tmp_path / "a.npy", np.zeros(FEW - 128, np.uint8))
    assert len(arrays.load_array(tmp_path / "a.npy")) == FEW - 128
    np.save(tmp_path / "b.npy", np.zeros(FEW, np.uint8))
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(10**5, np.uint8))
    np.savez_compressed(tmp_path / "b.npz", a=np.arange(9))
    assert arrays.load_arrays(tmp_path / "b.npz")["a"].tolist() == list(range(9))
    with pytest.raises(SmlabError, match="is too large"):
        arrays.load_array(tmp_path / "b.npy")
    with pytest.raises(SmlabError, match="is too large unpacked"):
        arrays.load_arrays(tmp_path / "a.npz")


def header_of(shape: tuple[int, ...], descr: str = "|u1") -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": descr, "fortran_order": False, "shape": shape})
    return out.getvalue()


def test_an_array_that_promises_more_than_it_has_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    for shape in ((2**40,), (2**70,), (2**31, 2**31, 2**31), (-1,), (1,) * 80):
        path.write_bytes(header_of(shape))
        with pytest.raises(SmlabError, match=r"no array of numpy \(.npy\)"):
            arrays.load_array(path)


def test_an_archive_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    """The directory of the archive says 10 bytes, the array in it has more."""
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", header_of((10**7,)) + bytes(10**7))
    content = bytearray(path.read_bytes())
    size = (len(header_of((10**7,))) + 10**7).to_bytes(4, "little")
    path.write_bytes(bytes(content).replace(size, (10).to_bytes(4, "little")))
    with pytest.raises(SmlabError, match="no arrays of numpy"):
        arrays.load_arrays(path)


def test_pickles_are_not_executed(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.array([{}], dtype=object))
    with pytest.raises(SmlabError) as caught:
        arrays.load_array(path)
    assert "unsafe" not in str(caught.value)


def test_an_unpacked_trace_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from smlab.sim.traces import reading

    monkeypatch.setattr(reading, "MAX_BYTES", FEW)
    path = tmp_path / "k.traceg.xz"
    path.write_bytes(lzma.compress(b"#x\n" * 10**6))
    with pytest.raises(SmlabError, match="is too large unpacked"):
        reading.read_trace(path)


def test_an_image_is_limited_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    from smlab.validation.papers.histogram import images

    monkeypatch.setattr(images, "MAX_PIXELS", FEW)
    path = tmp_path / "i.png"
    Image.new("L", (FEW, 2)).save(path)
    monkeypatch.setattr(Image.Image, "convert", lambda *_: pytest.fail("it was unpacked"))
    with pytest.raises(SmlabError, match="is too large an image"):
        images.read_image(path)


ROOMS = ("hw_bench", "sim", "models", "validation", "smlab")
DIRECT = re.compile(
    r"\.read_text\(|\.read_bytes\(|tomllib\.load|json\.loads?\(|np\.load\(|Image\.open\(|lzma\.(open|decomp)"
    r"|gzip\.(open|decomp)|\.open\([^)]*\"rb?\"|\.open\((newline|encoding)"
)
OURS = {
    "hw_bench/arrays.py": "the limits",
    "hw_bench/child_python.py": "what the parent wrote",
    "hw_bench/cuda/contract/check.py": "a cache",
    "hw_bench/cuda/contract/compiler.py": "a cache",
    "hw_bench/cuda/measuring/functional.py": "what a child printed",
    "hw_bench/cuda/measuring/profiling.py": "what a child printed",
    "hw_bench/cuda/measuring/plan.py": "a file that ships",
    "hw_bench/gpu/schema.py": "a file that ships",
    "hw_bench/inputs.py": "the limits",
    "hw_bench/nvrtc_child.py": "what the parent wrote",
    "hw_bench/profiles/atomics/required_counters.py": "a file that ships",
    "hw_bench/sass/nvrtc.py": "a cache, files that ship, and what a child printed",
    "hw_bench/sass/tools.py": "what a child wrote",
    "hw_bench/sources.py": "our code",
    "models/advisor/track_record.py": "a file that ships",
    "models/operators/tiles.py": "a file that ships",
    "sim/frontends/cuda_c.py": "what nvcc made",
    "sim/frontends/registry.py": "the first bytes of a file, which tell its kind",
    "sim/frontends/warp_kernel.py": "what Warp made",
    "sim/object_code/loading.py": "a cache",
    "sim/object_code/objects.py": "our code",
    "sim/traces/reading.py": "line by line, within the limits",
    "smlab/__init__.py": "our code",
    "smlab/commands/kernel_page/html.py": "files that ship",
    "smlab/commands/simulate/workload.py": "a setting of the command line",
    "validation/checks/random_code.py": "a file that ships",
    "validation/experiments/design/example.py": "a file that ships",
    "validation/experiments/run/export.py": "the results of a study",
    "validation/papers/claims/executed_grids.py": "a file that ships",
    "validation/papers/claims/quantities/projection_simulated.py": "a file that ships",
    "validation/papers/histogram/facts.py": "a file that ships",
    "validation/papers/histogram/images.py": "bytes within the limits",
    "validation/projection/coverage_records.py": "a file that ships",
    "validation/record/judge.py": "a file that ships",
    "validation/report/page.py": "a file that ships",
    "validation/report/provenance.py": "the system's",
    "validation/report/stored.py": "a file that ships",
    "validation/service_tables.py": "a file that ships",
    "validation/work/store.py": "rows with a checksum",
}
"""What reads files in a way of its own, none of them a user's, or within the limits."""


def test_no_reader_goes_around_the_limits() -> None:
    root = package_folder("smlab.hw_bench").parent
    direct = {
        path.relative_to(root).as_posix()
        for room in ROOMS
        for path in (root / room).rglob("*.py")
        if "campaigns" not in path.parts and DIRECT.search(path.read_text())
    }
    assert direct == set(OURS)
