"""Kernels written by hand: instructions with control codes and lines, and samples for them."""

from collections.abc import Callable, Mapping

import pytest

from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles.pc_samples.samples import InstructionSamples, KernelSamples, LaunchFacts
from smlab.hw_bench.sass import Function, Predicate, SassInstruction, SourceLine
from smlab.hw_bench.sass.listing import split_operands
from smlab.models.advisor.changes.matching import Context
from smlab.models.advisor.code import AdvisedCode
from smlab.models.advisor.stall_causes.blame import blame
from smlab.models.advisor.stall_causes.latencies import described_latencies

Stalls = Mapping[int, Mapping[str, int]]


def control_word(waits: str = "", read: int = 7, write: int = 7, stall: int = 1) -> int:
    mask = sum(1 << int(b) for b in waits)
    return (stall | 1 << 4 | write << 5 | read << 8 | mask << 11) << 41


def instruction(number: int, text: str) -> SassInstruction:
    """``text | key=value ... line=N``: the instruction and its control code."""
    shown, _, notes = text.partition("|")
    given = dict(part.split("=") for part in notes.split())
    line = int(given.pop("line", 1))
    waits = given.pop("waits", "")
    word = control_word(waits, **{key: int(value) for key, value in given.items()})
    words = shown.strip()
    guard = None
    if words.startswith("@"):
        head, _, words = words.partition(" ")
        guard = Predicate(head.lstrip("@!"), "!" in head)
    mnemonic, _, operands = words.partition(" ")
    source = SourceLine("k.cu", line)
    return SassInstruction(16 * number, mnemonic, split_operands(operands), guard, (0, word), source)


@pytest.fixture
def code_of() -> Callable[[str], AdvisedCode]:
    def make(listing: str, architecture: str = "sm_70") -> AdvisedCode:
        lines = [line for line in listing.strip().splitlines() if line.strip()]
        found = tuple(instruction(n, line) for n, line in enumerate(lines))
        return AdvisedCode(Function("k", architecture, found))

    return make


@pytest.fixture
def samples_of() -> Callable[..., KernelSamples]:
    def make(
        code: AdvisedCode,
        stalls: Stalls,
        *,
        passes: Mapping[int, float] | None = None,
        lanes: Mapping[int, float] | None = None,
        launch: LaunchFacts | None = None,
        **more: object,
    ) -> KernelSamples:
        rows = []
        for n, i in enumerate(code.instructions):
            stalled = dict(stalls.get(n, {"selected": 1}))
            waiting = {r: c for r, c in stalled.items() if r not in ("selected", "not_selected")}
            rows.append(
                InstructionSamples(
                    i.address, str(i), code.line(n), stalled, waiting, 100, (lanes or {}).get(n, 32.0),
                    (passes or {}).get(n),
                )
            )  # fmt: skip
        return KernelSamples("k", tuple(rows), "k", launch=launch or LaunchFacts(), **more)  # type: ignore[arg-type]

    return make


@pytest.fixture
def context_of(
    code_of: Callable[..., AdvisedCode], samples_of: Callable[..., KernelSamples]
) -> Callable[..., Context]:
    def make(
        listing: str, stalls: Stalls, architecture: str = "sm_70", gpu: str = "v100", **more: object
    ) -> Context:
        code = code_of(listing, architecture)
        samples = samples_of(code, stalls, **more)
        description = load_gpu(gpu)
        latencies = described_latencies(description)
        return Context(code, samples, blame(code, samples, "smlab", latencies), description, latencies)

    return make
