"""The machine-code contract: all kernels for all architectures with no GPU, and wrong kernels that it must
catch."""

import importlib
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from smlab.hw_bench.cuda import registry, toolkit
from smlab.hw_bench.cuda.contract.check import ContractResult, check, check_all, default_cache
from smlab.hw_bench.cuda.contract.regions import timed_regions
from smlab.hw_bench.cuda.kernels import spec
from smlab.hw_bench.cuda.kernels.spec import ARCHITECTURES, KernelSpec, Timed, exactly, number
from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass import ControlFlow, Function, Operand, Predicate, SassInstruction

CLOCK = (Operand("R2"), Operand("SR_CLOCKLO"))


@pytest.fixture(scope="module")
def compiler() -> Any:
    """The compiler module, where everything that it needs is installed."""
    if not toolkit.has_compiler():
        pytest.skip("machine code not checked: numba-cuda is not installed (the extra smlab[cuda12])")
    from smlab.hw_bench.cuda.contract import compiler

    try:
        for architecture in ARCHITECTURES:
            compiler.find_disassembler(architecture)
    except SmlabError as error:
        pytest.skip(f"machine code not checked: {error}")
    return compiler


def test_every_kernel_is_what_its_benchmark_says(compiler: Any) -> None:
    results = check_all(cache=default_cache())
    broken = [f"{r.benchmark} {r.kernel} {r.architecture}: {r.message}" for r in results if not r.ok]
    assert not broken
    wanted = [
        (spec.benchmark, spec.name, architecture)
        for spec in registry.all_kernels()
        for architecture in ARCHITECTURES
        if spec.supports(architecture)
    ]
    assert [(r.benchmark, r.kernel, r.architecture) for r in results] == wanted
    counts = Counter(r.architecture for r in results)
    assert {a for a in ARCHITECTURES if counts[a] != counts["sm_90"]} == {
        "sm_70",
        "sm_75",
    }  # no warp reduction there


def test_popc_inc_is_another_instruction_from_ampere_on(compiler: Any) -> None:
    kernel = registry.kernel("shared-atomics", "popc-inc/batch")
    found = {a: check(kernel, compiler.compile_kernel(kernel, a)).found for a in ("sm_75", "sm_80")}
    assert "1 ATOMS.ADD" in found["sm_75"]
    assert "1 ATOMS.POPC.INC.32" in found["sm_80"]


def _planted(kernel: Callable[..., None], signature: str, instruction: str) -> KernelSpec:
    def expect(architecture: int) -> tuple[Timed, ...]:
        return (Timed("atomic", "between", {instruction: exactly(1)}, others=4, waits_for=instruction),)

    return KernelSpec("planted", kernel.__name__, kernel, signature, expect)


def _kernels() -> dict[str, KernelSpec]:
    from smlab.hw_bench.cuda.kernels.device import clock, clock_after, cuda, int32, settle, uint32

    def right(words: Any, values: Any, out: Any) -> None:
        shared = cuda.shared.array(32, int32)
        thread = uint32(cuda.threadIdx.x)
        word, value = uint32(words[thread]), values[thread]
        shared[word] = value
        cuda.syncthreads()
        settle(shared[thread])
        cuda.syncthreads()
        start = clock()
        old = cuda.atomic.add(shared, word, value)
        out[thread] = clock_after(old) - start

    def constant_address(words: Any, values: Any, out: Any) -> None:
        shared = cuda.shared.array(32, int32)
        thread = uint32(cuda.threadIdx.x)
        value = values[thread]
        shared[thread] = value
        cuda.syncthreads()
        settle(shared[thread])
        cuda.syncthreads()
        start = clock()
        old = cuda.atomic.add(shared, 0, value)
        out[thread] = clock_after(old) - start

    def result_unused(words: Any, values: Any, out: Any) -> None:
        shared = cuda.shared.array(32, int32)
        thread = uint32(cuda.threadIdx.x)
        word, value = uint32(words[thread]), values[thread]
        shared[word] = value
        cuda.syncthreads()
        settle(shared[thread])
        cuda.syncthreads()
        start = clock()
        cuda.atomic.add(shared, word, value)
        out[thread] = clock_after(value) - start

    def twice(words: Any, values: Any, out: Any) -> None:
        shared = cuda.shared.array(32, int32)
        thread = uint32(cuda.threadIdx.x)
        word, value = uint32(words[thread]), values[thread]
        shared[word] = value
        cuda.syncthreads()
        settle(shared[thread])
        cuda.syncthreads()
        start = clock()
        old = cuda.atomic.add(shared, word, value)
        old = cuda.atomic.add(shared, word, old)
        out[thread] = clock_after(old) - start

    signature = "void(int32[::1], int32[::1], int64[::1])"
    return {
        k.__name__: _planted(k, signature, "ATOMS.ADD")
        for k in (right, constant_address, result_unused, twice)
    }


@pytest.mark.parametrize("architecture", ["sm_70", "sm_80", "sm_90"])
def test_planted_wrong_kernels_are_caught(compiler: Any, architecture: str) -> None:
    kernels = _kernels()

    def result(name: str) -> ContractResult:
        return check(kernels[name], compiler.compile_kernel(kernels[name], architecture))

    good = result("right")
    assert good.ok, good.message
    merged = result("constant_address")
    assert not merged.ok
    # The compiler has added up the lanes' values first, by shuffles or by a reduction.
    assert any(word in merged.message for word in ("SHFL", "REDUX", "VOTE"))
    assert "does not wait for ATOMS.ADD" in result("result_unused").message
    assert "2 ATOMS.ADD where 1 expected" in result("twice").message


def test_below_ampere_the_counting_form_is_the_addition_that_it_becomes(compiler: Any) -> None:
    """The constant 1 would have to go into a register behind the clock."""
    for form in ("batch", "independent"):
        counting, adding = (registry.kernel("shared-atomics", f"{op}/{form}") for op in ("popc-inc", "add"))
        for architecture, alike in (("sm_75", True), ("sm_80", False)):
            digests = {compiler.compile_kernel(k, architecture).code_sha256 for k in (counting, adding)}
            assert (len(digests) == 1) == alike


def test_a_whole_kernel_is_counted_where_the_launch_is_timed(compiler: Any) -> None:
    kernel = registry.kernel("portability", "neighbour-shuffle")
    compiled = compiler.compile_kernel(kernel, "sm_80")
    assert check(kernel, compiled).ok
    fewer = (Timed("kernel", "kernel", {"SHFL.IDX": exactly(63), "STG.E": exactly(1)}, others=2200),)
    assert (
        "1024 SHFL.IDX where 63 expected" in check(replace(kernel, expect=lambda a: fewer), compiled).message
    )
    none = (Timed("kernel", "kernel", {"SHFL.IDX": exactly(1024)}, others=2200),)
    assert "STG.E is not allowed" in check(replace(kernel, expect=lambda a: none), compiled).message


def test_shuffles_in_a_loop_would_be_calls_before_hopper(compiler: Any) -> None:
    """Why the loops of the neighbour shuffle are written out: the linker calls a function for each shuffle
    in a loop."""
    from smlab.hw_bench.cuda.kernels.assembly import three_operands
    from smlab.hw_bench.cuda.kernels.device import cuda, int32, uint32

    shuffle = three_operands("shfl.sync.bfly.b32 $0, $1, $2, 31, -1;", int32, None)  # type: ignore[arg-type]

    def looped(out: Any, rounds: Any) -> None:
        value = int32(cuda.grid(1))
        left = rounds
        while left > 0:
            value = int32(value + shuffle(value, int32(1), value))
            left = int32(left - int32(1))
        out[uint32(cuda.grid(1))] = value

    kernel = KernelSpec("planted", "looped", looped, "void(int32[::1], int32)", lambda architecture: ())
    for architecture, calls in (("sm_80", True), ("sm_90", False)):
        message = check(kernel, compiler.compile_kernel(kernel, architecture)).message
        assert ("calls in the kernel" in message) is calls


def test_running_code_can_be_checked_too(compiler: Any) -> None:
    kernel = registry.kernel("latency", "shared")
    compiled = compiler.compile_kernel(kernel, "sm_90")
    again = compiler.examine(kernel, compiled.cubin)
    assert again.code_sha256 == compiled.code_sha256
    assert check(kernel, again).ok
    with pytest.raises(SmlabError, match="is not a CUDA binary"):
        compiler.examine(kernel, b"")


def test_results_are_kept_and_known_again(compiler: Any, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []

    def run() -> list[ContractResult]:
        told.clear()
        return check_all(
            ("sm_90",), ("histogram",), cache=tmp_path, progress=lambda n, of: told.append((n, of))
        )

    first = run()
    assert told[0] == (0, 4)
    assert told[-1] == (4, 4)
    assert run() == first
    assert told == [(4, 4)]


def test_machine_code_is_kept_and_damaged_files_are_made_again(
    compiler: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(compiler, "cache_folder", tmp_path.joinpath)
    kernel = registry.kernel("histogram", "original/add")
    first = compiler.compile_kernel(kernel, "sm_80")
    (file,) = tmp_path.rglob("*.json.gz")
    with monkeypatch.context() as patch:
        patch.setattr(compiler, "_ptx", None)
        patch.setattr(compiler, "listing_of", None)
        assert compiler.compile_kernel(kernel, "sm_80") == first
    file.write_bytes(file.read_bytes()[:-20])
    assert compiler.compile_kernel(kernel, "sm_80") == first
    other = replace(kernel, signature=kernel.signature, function=lambda: None)
    nvdisasm = compiler.find_disassembler("sm_80")
    assert compiler._kept(kernel, "sm_80", nvdisasm) == file
    assert compiler._kept(other, "sm_80", nvdisasm) is None  # a function of elsewhere


def test_what_an_architecture_shares_with_others_is_kept(
    compiler: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernel = registry.kernel("histogram", "original/add")
    monkeypatch.setattr(compiler, "cache_folder", tmp_path.joinpath)
    compiler._library.cache_clear()
    compiler.compile_kernel(kernel, "sm_80")
    first = compiler.compile_kernel(kernel, "sm_100")
    compiler._library.cache_clear()
    for file in tmp_path.rglob("*.json.gz"):
        file.unlink()
    (library,) = tmp_path.rglob("*.llvm.gz")
    with monkeypatch.context() as patch:
        patch.setattr(importlib.import_module("numba.cuda.compiler"), "_compile_pyfunc_with_fixup", None)
        assert compiler.compile_kernel(kernel, "sm_100") == first
    compiler._library.cache_clear()
    for file in tmp_path.rglob("*.json.gz"):
        file.unlink()
    library.write_bytes(library.read_bytes()[:-20])
    again = compiler.compile_kernel(kernel, "sm_100")
    assert again.code_sha256 == first.code_sha256


def test_a_kernel_that_does_not_compile_is_told(compiler: Any) -> None:
    kernel = replace(registry.kernel("histogram", "original/add"), signature="void(int32)")
    with pytest.raises(SmlabError, match="histogram original/add: does not compile for sm_80"):
        compiler.compile_kernel(kernel, "sm_80")


def test_unknown_names_are_refused(compiler: Any) -> None:
    with pytest.raises(SmlabError, match=r"architecture: unknown \(got 'sm_60'"):
        check_all(("sm_60",))
    with pytest.raises(SmlabError, match=r"did you mean latency\?"):
        check_all(("sm_90",), ("latencies",))


def test_without_the_compiler_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolkit, "has_compiler", lambda: False)
    with pytest.raises(SmlabError, match=r"pip install 'smlab\[cuda12\]'"):
        check_all()


def test_the_package_is_importable_without_numba() -> None:
    code = (
        "import sys; sys.modules['numba'] = None; sys.modules['llvmlite'] = None\n"
        "import smlab.hw_bench.sass, smlab.hw_bench.cuda.contract.check, smlab.hw_bench.cuda.registry, "
        "smlab.hw_bench.cuda.measuring.dataset\n"
        "print(len(smlab.hw_bench.cuda.registry.BENCHMARKS))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(registry.BENCHMARKS)


def _flow(*code: tuple[str, tuple[Operand, ...]]) -> ControlFlow:
    listed = tuple(SassInstruction(16 * at, name, operands) for at, (name, operands) in enumerate(code))
    return ControlFlow(Function("f", "sm_90", listed))


def test_a_region_lies_between_the_clock_reads_behind_a_barrier() -> None:
    flow = _flow(
        ("CS2R.32", CLOCK), ("BAR.SYNC", ()), ("LOP3.LUT", ()), ("CS2R", CLOCK), ("ATOMS.ADD", ()), ("CS2R",
        CLOCK),
        ("STG.E.64", ()), ("BAR.SYNC", ()), ("CS2R", CLOCK), ("CS2R", CLOCK), ("EXIT", ()),
    )  # fmt: skip
    first, second = timed_regions(flow)
    assert [i.mnemonic for i in first.instructions] == ["ATOMS.ADD"]
    assert second.instructions == ()


def test_a_clock_read_that_ends_nothing_is_told() -> None:
    with pytest.raises(SmlabError, match="no second read follows"):
        timed_regions(_flow(("BAR.SYNC", ()), ("CS2R", CLOCK), ("EXIT", ())))
    # Around a loop without a barrier, the second read would also begin the next region.
    looped = (
        SassInstruction(0, "BAR.SYNC"),
        SassInstruction(16, "BRA", (Operand("0x30"),), Predicate("P0")),
        SassInstruction(32, "CS2R", CLOCK),
        SassInstruction(48, "CS2R", CLOCK),
        SassInstruction(64, "EXIT"),
    )
    with pytest.raises(SmlabError, match="both begins and ends|no second read follows"):
        timed_regions(ControlFlow(Function("f", "sm_90", looped)))


def test_architectures_are_numbers_and_counts_are_words() -> None:
    assert [number(a) for a in ARCHITECTURES] == [70, 75, 80, 86, 89, 90]
    assert str(spec.Count(1, 3)) == "1 to 3"
    assert str(exactly(2)) == "2"
    assert 0 in spec.up_to(2)
    assert 3 not in spec.up_to(2)
