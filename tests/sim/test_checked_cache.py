"""What Numba keeps of compiled functions: damaged files are told, and made again."""

import importlib.util
import logging
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numba import njit

from smlab.sim.compiled.compile_process import check_cache

FUNCTION = "def twice(x):\n    return 2 * x + 1\n"


def made(folder: Path, stamp: str = "of this source") -> Any:
    """The function as a new process would have it."""
    path = folder / "module.py"
    spec = importlib.util.spec_from_file_location("module", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["module"] = module  # which the machine code names
    spec.loader.exec_module(module)
    compiled = njit(cache=True)(module.twice)
    check_cache(compiled, stamp)
    return compiled


def loaded(folder: Path, stamp: str = "of this source") -> bool:
    """Whether a call finds the machine code in the cache; it must come out right in any case."""
    compiled = made(folder, stamp)
    assert compiled(20) == 41
    return bool(sum(compiled.stats.cache_hits.values()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "module.py").write_text(FUNCTION)
    assert not loaded(tmp_path)
    assert loaded(tmp_path)
    return tmp_path


def cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def flipped(content: bytes, rng: random.Random) -> bytes:
    out = bytearray(content)
    out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "nothing left": lambda content, rng: b"",
    "one byte": lambda content, rng: content[:1],
    "cut": cut,
    "flipped": flipped,
    "garbage": lambda content, rng: rng.randbytes(len(content)),
    "a pickle": lambda content, rng: pickle.dumps({}),
}


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_told_and_made_again(
    folder: Path, suffix: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    (path,) = folder.rglob(f"*{suffix}")
    for seed in range(2 if damage in ("cut", "flipped") else 1):
        path.write_bytes(DAMAGES[damage](path.read_bytes(), random.Random(f"{damage} {seed}")))
        caplog.clear()
        with caplog.at_level(logging.INFO, "smlab.engine"):
            assert not loaded(folder)
        told = [r.getMessage() for r in caplog.records if "damaged" in r.getMessage()]
        assert set(told) == {f"{path}: the engine's cache is damaged; it is compiled again"}
        caplog.clear()
        assert loaded(folder)
        assert not caplog.records


def test_code_of_another_source_is_not_loaded(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Not even where the index is new already and the machine code still the old one."""
    (data,) = folder.rglob("*.nbc")
    old = data.read_bytes()
    assert not loaded(folder, "changed")
    data.write_bytes(old)
    with caplog.at_level(logging.INFO, "smlab.engine"):
        assert not loaded(folder, "changed")
    assert not caplog.records, "it is whole"
    assert loaded(folder, "changed")


def test_what_cannot_be_kept_is_told(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (index,) = folder.rglob("*.nbi")
    index.unlink()
    index.mkdir()  # as a folder of a user might stand there
    with caplog.at_level(logging.INFO, "smlab.engine"):
        assert not loaded(folder)
    assert any("cannot be kept" in r.getMessage() for r in caplog.records)


AT_ONCE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_checked_cache import loaded
loaded(Path(sys.argv[2]))
"""


def test_two_first_runs_at_once_are_right(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(FUNCTION)
    command = [sys.executable, "-P", "-c", AT_ONCE, str(Path(__file__).parent), str(tmp_path)]
    runs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for run in runs:
        _, complaint = run.communicate()
        assert run.returncode == 0, complaint
    assert loaded(tmp_path)
