"""Loops of CUDA C in the text, and the rewriting that brings their loads ahead."""

import pytest

from smlab.commands.advise.batched_loads import batched_loads
from smlab.commands.advise.source_loops import SourceLoop, innermost_of, loops_of, unrolled
from smlab.examples import KERNEL_SOURCE

TEXT = """void f(const float *x, float *y) { // for (;;)
#pragma unroll 2
    for (int i = 0; i < 4; i++)
        if (x[i]) g("for ("); else { y[i] = ')'; }
    do { h(); } while (k);
    while (1) {
        for (;;)
            q();
    }
}
"""


def lines_of(text: str) -> list[tuple[int, int]]:
    return [(loop.line, loop.last_line) for loop in loops_of(text)]


def test_loops_are_found_by_their_statements() -> None:
    """Comments, texts and characters are no code, and the end of ``do`` is no loop of its own."""
    assert lines_of(TEXT) == [(3, 4), (5, 5), (6, 9), (7, 8)]
    assert lines_of("for (;;) {") == []
    loops = loops_of(TEXT)
    inner = innermost_of(loops, 8)
    assert inner is not None
    assert inner.line == 7
    assert innermost_of(loops, 9) == loops[2]
    assert innermost_of(loops, 1) is None


def test_a_pragma_keeps_the_lines_and_takes_another_ones_place() -> None:
    changed = unrolled(TEXT, loops_of(TEXT)[0].at, 8)
    assert "#pragma unroll 2" not in changed
    assert '_Pragma("unroll 8") for (int i = 0; i < 4; i++)' in changed
    assert lines_of(changed) == lines_of(TEXT)


def test_the_loads_of_several_rounds_come_first() -> None:
    text = KERNEL_SOURCE.read_text()
    found = batched_loads(text, loops_of(text)[1].at, 4)
    assert found is not None
    changed, loads = found
    assert loads == ("pixels[i]",)
    assert "unsigned char smlab_batch0[4];" in changed
    assert "i += 4 * (step)" in changed
    assert "atomicAdd(&local[smlab_batch0[smlab_round]], 1);" in changed
    assert changed.count("\n") == text.count("\n")


HEAD = "__global__ void f(const float *x, float *y, int n) { int s = 2, j = 1; float z = 0; "


@pytest.mark.parametrize(
    "loop",
    [
        "for (int i = 0; i < n; i++) { if (x[i] > 9) break; }",
        "for (int i = 0; i < n; i++) { s++; z += x[i * s]; }",
        "for (int i = 0; i < n; i++) { n--; z += x[i]; }",
        "for (int i = 0; i < n; i++) { if (i) z += x[i]; }",
        "for (int i = 0; i < n; i++) z += y[i];",
        "for (int i = 0; i < n; i++) { j = i; z += x[j]; }",
        "for (int i = 0; i < n; i++) z += x[g(i)];",
        "for (int i = n; i > 0; i--) z += x[i];",
        "while (s < n) z += x[s++];",
    ],
)
def test_what_may_compute_another_thing_is_left(loop: str) -> None:
    """A round that ends the loop, an index that the body changes, a load that not every round makes, a
    pointer that is written through, another form of loop."""
    text = f"{HEAD}{loop} y[0] = z; }}"
    (first, *_) = loops_of(text)
    assert batched_loads(text, first.at, 4) is None


def test_several_loads_are_ahead_once_each() -> None:
    text = f"{HEAD}for (int i = 0; i <= n; i += s) z += x[i] * x[i] + x[i + j]; y[0] = z; }}"
    found = batched_loads(text, loops_of(text)[0].at, 2)
    assert found is not None
    assert found[1] == ("x[i]", "x[i + j]")
    assert "float smlab_batch0[2]; float smlab_batch1[2];" in found[0]
    assert "<= n" in found[0]
    assert isinstance(loops_of(found[0])[0], SourceLoop)


def test_a_pointer_that_is_only_read_needs_no_const() -> None:
    head = "__global__ void f(int *at, unsigned int *x, int *y, int n) { int z = 0; "
    loop = "for (int i = at[n]; i < at[n] + at[n + 1]; i++) { z += x[i]; y[z] = 1; }"
    found = batched_loads(f"{head}{loop} }}", loops_of(f"{head}{loop} }}")[0].at, 4)
    assert found is not None
    assert found[1] == ("x[i]",)
    assert "{ const auto smlab_limit = at[n] + at[n + 1]; for (int i = at[n]; i < smlab_limit;" in found[0]
    assert "unsigned int smlab_batch0[4];" in found[0]
    for use in ("x[n] = 1;", "x[n]++;", "atomicAdd(&x[n], 1);", "atomicAdd(x + n, 1);", "++x[n];"):
        text = f"{head}{loop} {use} }}"
        assert batched_loads(text, loops_of(text)[0].at, 4) is None
