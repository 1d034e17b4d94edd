"""The engine is compiled in a separate process, which the caller does without where there is none."""

import subprocess
import sys
from typing import Any

import pytest

from smlab.sim.compiled import compile_process


class FakeNumbaCache:
    """As Numba's: empty until something is compiled."""

    content: Any = None

    def load_overload(self, signature: Any, context: Any) -> Any:
        return self.content


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> FakeNumbaCache:
    monkeypatch.delenv("SMLAB_COMPILES", raising=False)
    made = FakeNumbaCache()
    compile_process.load_or_compile_in_process(made, compile_process.tell)
    return made


def test_what_the_other_process_compiled_is_loaded(
    cache: FakeNumbaCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled(function: Any, signature: Any, compiler: Any) -> bool:
        assert (function.__name__, signature, compiler) == ("tell", "signature", None)
        cache.content = "machine code"
        return True

    monkeypatch.setattr(compile_process, "_compiled_in_process", compiled)
    assert cache.load_overload("signature", None) == "machine code"


def test_a_process_that_compiles_for_another_starts_none(
    cache: FakeNumbaCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMLAB_COMPILES", "1")
    monkeypatch.setattr(compile_process, "_compiled_in_process", lambda *a: pytest.fail("another process"))
    assert cache.load_overload("signature", None) is None


@pytest.mark.parametrize("child", ["import sys; sys.exit(3)", None])
def test_without_the_other_process_the_caller_compiles(
    cache: FakeNumbaCache, monkeypatch: pytest.MonkeyPatch, child: str | None
) -> None:
    monkeypatch.setattr(compile_process, "_CHILD", child or "")
    if child is None:
        monkeypatch.setattr(sys, "executable", "no-such-interpreter")
    assert cache.load_overload("signature", None) is None


def test_no_process_stays_behind_when_the_caller_is_interrupted(
    cache: FakeNumbaCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    class Child(subprocess.Popen[bytes]):
        def wait(self, timeout: float | None = None) -> int:
            if not started:
                started.append(self)
                raise KeyboardInterrupt
            return super().wait(timeout)

    monkeypatch.setattr(compile_process, "_CHILD", "import time; time.sleep(600)")
    monkeypatch.setattr(subprocess, "Popen", Child)
    with pytest.raises(KeyboardInterrupt):
        cache.load_overload("signature", None)
    assert started[0].poll() is not None
