"""Objects of compiled functions: found, checked, built by children, kept for others."""

import hashlib
import logging
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from smlab.hw_bench import files
from smlab.sim.object_code import loading
from smlab.sim.object_code.objects import version_of
from smlab.sim.traces.compiled_step import step

SMALL = "trace"
"""The object that is built in a second or two."""
RUN = "from smlab.sim.object_code.loading import ready; ready('trace')"


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(loading, "_engines", {})
    monkeypatch.setattr(loading, "_told", [])
    monkeypatch.setattr(loading, "PREBUILT", tmp_path / "nothing prebuilt")


@pytest.fixture(scope="module")
def content() -> bytes:
    made = loading._from_children([SMALL])[SMALL]
    assert made is not None
    return made


@pytest.fixture
def kept(content: bytes) -> Path:
    loading._keep(SMALL, content)
    return loading.kept_at(SMALL)


@pytest.fixture
def builds(content: bytes, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What children were asked for; they answer at once."""
    asked: list[list[str]] = []

    def children(names: list[str]) -> dict[str, bytes]:
        asked.append(names)
        return dict.fromkeys(names, content)

    monkeypatch.setattr(loading, "_from_children", children)
    return asked


def test_what_was_built_is_found_by_others(builds: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    assert loading.address_of(step) > 0
    assert loading.address_of(step) > 0
    assert builds == [[SMALL]]
    monkeypatch.setattr(loading, "_engines", {})  # as in another process
    assert loading.address_of(step) > 0
    assert builds == [[SMALL]]


def test_a_child_builds_what_another_process_loads(tmp_path: Path) -> None:
    for told in (True, False):
        done = subprocess.run(
            [sys.executable, "-P", "-c", f"import logging; logging.basicConfig(level=20); {RUN}"],
            env={key: value for key, value in os.environ.items() if key != "SMLAB_COMPILING_TOLD"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ("compiling the engine" in done.stderr) == told
    assert loading.kept_at(SMALL).is_file()


def cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def flipped(content: bytes, rng: random.Random) -> bytes:
    out = bytearray(content)
    out[rng.randrange(32, len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "nothing left": lambda content, rng: b"",
    "one byte": lambda content, rng: content[:1],
    "cut": cut,
    "flipped": flipped,
    "garbage": lambda content, rng: rng.randbytes(len(content)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_object_is_told_and_built_again(
    kept: Path, builds: list[list[str]], damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    kept.write_bytes(DAMAGES[damage](kept.read_bytes(), random.Random(damage)))
    with caplog.at_level(logging.INFO, "smlab.engine"):
        assert loading.address_of(step) > 0
    told = {r.getMessage() for r in caplog.records if "damaged" in r.getMessage()}
    key = (loading._DIGEST_BYTES, 2 * loading._DIGEST_BYTES)
    if told or kept.read_bytes()[slice(*key)] != hashlib.sha256(b"").digest():
        assert told == {f"{kept}: the compiled engine is damaged; it is compiled again"}
    assert builds == [[SMALL]]
    assert loading.checked(kept, loading.kept_key(SMALL)) is not None


def test_an_object_of_other_sources_is_not_loaded(
    kept: Path, content: bytes, builds: list[list[str]], caplog: pytest.LogCaptureFixture
) -> None:
    kept.write_bytes(loading.with_digest(content, "of other sources"))
    with caplog.at_level(logging.INFO, "smlab.engine"):
        assert loading.address_of(step) > 0
    assert builds == [[SMALL]]
    assert not any("damaged" in r.getMessage() for r in caplog.records), "it is whole"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="folders are made unwritable as POSIX has it")
def test_what_cannot_be_kept_is_told(
    builds: list[list[str]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").write_text("a file where the folder would be")
    with caplog.at_level(logging.INFO, "smlab.engine"):
        assert loading.address_of(step) > 0
    assert any("cannot be kept" in r.getMessage() for r in caplog.records)


def test_two_first_runs_at_once_build_once(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", f"import logging; logging.basicConfig(level=20); {RUN}"]
    environment = {key: value for key, value in os.environ.items() if key != "SMLAB_COMPILING_TOLD"}
    runs = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [run.communicate()[1] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said
    assert sum("compiling the engine" in text for text in said) == 1


def test_an_object_is_loaded_behind_arrays_of_gigabytes() -> None:
    """Of which not a page is touched. The sections of the object must lie near each other nevertheless."""
    made = "import numpy as np; kept = [np.empty(1 << 32, np.uint8) for _ in range(2)]"
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"{made}; {RUN}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("child", ["import sys; sys.exit(3)", None])
def test_without_a_child_the_caller_builds(monkeypatch: pytest.MonkeyPatch, child: str | None) -> None:
    monkeypatch.setattr(loading, "_CHILD", child or "")
    if child is None:
        monkeypatch.setattr(sys, "executable", "no-such-interpreter")
    monkeypatch.setattr(loading, "_from_this_process", lambda name: pytest.fail(f"{name}, here"))
    with pytest.raises(pytest.fail.Exception, match="trace, here"):
        loading.ready(SMALL)


def test_a_child_that_has_other_code_builds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout in the current folder, while another one is installed: the child imports that one. What it
    built was kept as this one's, and a changed engine was not what ran."""
    monkeypatch.setattr(loading, "version_of", lambda name: "0" * 16)
    assert loading._from_children([SMALL]) == {SMALL: None}


def test_no_child_stays_behind_when_the_caller_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []

    class Child(subprocess.Popen[bytes]):
        def communicate(self, *arguments: Any, **options: Any) -> tuple[bytes, bytes]:
            if self not in started:
                started.append(self)
                raise KeyboardInterrupt
            return super().communicate(*arguments, **options)

    monkeypatch.setattr(loading, "_CHILD", "import time; time.sleep(600)")
    monkeypatch.setattr(subprocess, "Popen", Child)
    with pytest.raises(KeyboardInterrupt):
        loading.ready(SMALL)
    assert started[0].poll() is not None


@pytest.mark.skipif(sys.platform != "linux", reason="the processes are found in /proc")
def test_a_killed_caller_leaves_no_child_and_no_lock() -> None:
    run = subprocess.Popen([sys.executable, "-P", "-c", RUN.replace("trace", "engine")])
    deadline = time.monotonic() + 60
    children: list[str] = []
    while not children and time.monotonic() < deadline:
        time.sleep(0.05)
        children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    assert children
    run.send_signal(signal.SIGKILL)
    run.wait()
    while any(Path(f"/proc/{child}").is_dir() for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{child}").is_dir() for child in children)
    with loading._alone("engine"):
        pass


def test_few_objects_are_kept(kept: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_MAX_KEPT", 3)
    for n in range(5):
        old = kept.with_name(f"old-{n}.o")
        old.write_bytes(b"")
        os.utime(old, (n, n))
    loading._keep(SMALL, content)
    assert {p.name for p in kept.parent.glob("*.o")} == {kept.name, "old-3.o", "old-4.o"}


def test_prebuilt_objects_are_for_this_processor_and_these_sources(
    content: bytes, builds: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "prebuilt"
    folder.mkdir()
    monkeypatch.setattr(loading, "PREBUILT", folder)
    monkeypatch.setattr(loading, "NEEDS", {"new": ("here", "wide"), "old": ("here", "narrow")})
    monkeypatch.setattr("platform.machine", lambda: "here")
    monkeypatch.setattr(sys, "platform", "linux")
    for processor in ("new", "old"):
        (folder / f"{SMALL}.{processor}.o").write_bytes(
            loading.with_digest(processor.encode(), version_of(SMALL))
        )
    for features, expected in (
        ({"wide": True, "narrow": True}, b"new"),
        ({"wide": False, "narrow": True}, b"old"),
        ({}, None),
    ):
        monkeypatch.setattr(loading.llvm, "get_host_cpu_features", lambda features=features: features)
        assert loading._found(SMALL) == expected
    monkeypatch.setattr(loading.llvm, "get_host_cpu_features", lambda: {"narrow": True})
    (folder / f"{SMALL}.old.o").write_bytes(loading.with_digest(b"old", "other sources"))
    assert loading._found(SMALL) is None


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It does not depend on where the sources lie, so checkouts of one version share it."""
    assert loading.kept_at(SMALL).parent == files.cache_folder("engine")
    assert str(Path(loading.__file__).parent) not in str(loading.kept_at(SMALL))
