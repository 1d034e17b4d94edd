"""Floating-point operations of one kernel's code for two architectures."""

from dataclasses import replace
from pathlib import Path

import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.sass import (
    CodeComparisons,
    Function,
    Operand,
    OperationCounts,
    Predicate,
    SassInstruction,
    assemble,
    compare_code,
    compare_files,
    count_operations,
    find_nvdisasm,
    find_ptxas,
    parse_listing,
    read_code,
)
from smlab.hw_bench.sass.compare import profile_code

LISTINGS = Path(__file__).parent / "listings"


def function(name: str, architecture: str) -> Function:
    (found,) = parse_listing((LISTINGS / f"{name}.{architecture}.sass").read_text())
    return found


def code(
    *lines: str, name: str = "k", architecture: str = "sm_80", labels: dict[str, int] | None = None
) -> Function:
    """A function of ``lines`` such as ``@!P0 FFMA R1, R2``."""
    made = []
    for number, line in enumerate(lines):
        predicate = None
        if line.startswith("@"):
            guard, line = line[1:].split(" ", 1)
            predicate = Predicate(guard.lstrip("!"), guard.startswith("!"))
        mnemonic, _, operands = line.partition(" ")
        texts = [text.strip() for text in operands.split(",") if text.strip()]
        made.append(SassInstruction(16 * number, mnemonic, tuple(map(Operand, texts)), predicate))
    return Function(name, architecture, tuple(made), labels or {})


def test_what_counts_as_an_operation() -> None:
    counts = count_operations(
        code(
            "FADD R0, R1, R2",
            "FADD.FTZ R0, -R1, -RZ",
            "FFMA32I R0, R1, 0x3f800000, R0",
            "DMUL R0, R2, R4",
            "HFMA2 R0, R1, R2, R3",
            "HFMA2.MMA R5, -RZ, RZ, 0, 1",  # loads a constant
            "HFMA2.MMA R5, R1, RZ, 0, 1",
            "FFMA2 R0, R2, R4, R6",  # two numbers at once
            "MUFU.RCP R0, R1",
            "HMMA.16816.F32 R0, R4, R8, R12",
            "FSETP.GT.AND P0, PT, R0, R1, PT",
            "IMAD R0, R1, R2, R3",
            "@!PT DFMA R0, R2, R4, R6",  # never executed
        ).instructions
    )
    assert counts == OperationCounts(fadd=2, ffma=3, dmul=1, hfma=2, special=1, tensor=1)
    assert counts.flops("fp32") == 2 + 2 * 3
    assert (counts.flops("fp16"), counts.flops("fp64")) == (4, 1)


def test_the_fast_path_of_division_and_root_and_the_rare_one_apart() -> None:
    """By hand from the listing: the loop's own code, and the two slow paths that a normal operand passes
    by."""
    outside, loop = profile_code(function("special32", "sm_70")).regions
    assert outside.counts == OperationCounts()
    assert (loop.depth, loop.address) == (1, 0x70)
    assert loop.counts == OperationCounts(fadd=1, fmul=5, ffma=8, special=4)
    assert loop.rare == OperationCounts(fadd=4, fmul=3, ffma=15, special=3)
    assert loop.functions == (
        *("EX2", "LG2", "RCP", "RSQ"),
        *("div_rn_noftz_f32_slowpath", "sqrt_rn_f32_slowpath"),
    )


@pytest.mark.parametrize("architecture", ["sm_60", "sm_90"])
def test_division_root_and_logarithm_are_the_same_operations_from_pascal_to_hopper(architecture: str) -> None:
    """One release of the assembler gives them all the same floating-point operations, though not the same
    code."""
    comparison = compare_code(function("special32", "sm_70"), function("special32", architecture))
    assert comparison.same_operations
    assert comparison.differences() == ()
    assert comparison.ratio("fp32", loop_executions=7, rare_share=0.3) == 1


def test_a_difference_is_found_and_told() -> None:
    comparison = compare_code(function("gamma32", "sm_70"), function("gamma32", "sm_86"))
    assert not comparison.same_operations
    (told,) = comparison.differences()
    assert "sm_86 against sm_70, outside of loops: 3 ffma more (special functions: 3 ffma more)" in told
    ratio = comparison.ratio("fp32")
    assert ratio is not None
    before = comparison.source.total().flops("fp32")
    assert ratio == pytest.approx((before + 6) / before)
    assert comparison.ratio("fp64") == 1  # neither has any


LOOP = ("MOV R0, RZ", "MUFU.RCP R1, R2", "FFMA R1, R1, R2, R3", "@P0 BRA 0x10", "FADD R0, R1, R2", "EXIT")


def test_how_often_loops_are_executed_decides_the_ratio() -> None:
    """One FFMA in the loop and one FADD outside; the target's loop has a second FFMA."""
    longer = ("MOV R0, RZ", "MUFU.RCP R1, R2", *["FFMA R1, R1, R2, R3"] * 2, "@P0 BRA 0x10", *LOOP[4:])
    comparison = compare_code(code(*LOOP), code(*longer, architecture="sm_90"))
    for times in (1.0, 10.0, 1e6):
        ratio = comparison.ratio("fp32", loop_executions=times)
        assert ratio == pytest.approx((4 * times + 1) / (2 * times + 1))
    assert comparison.ratio("fp32", executions=(1, 3)) == pytest.approx((12 + 1) / (6 + 1))
    with pytest.raises(SmlabError, match="2 regions"):
        comparison.ratio("fp32", executions=(1, 3, 5))


def test_only_the_target_has_operations() -> None:
    comparison = compare_code(code("MUFU.RCP R1, R2", "EXIT"), code("FFMA R1, R1, R2, R3", "EXIT"))
    assert comparison.ratio("fp32") is None


def test_other_loops_are_compared_as_a_whole() -> None:
    straight = code("FFMA R1, R1, R2, R3", "EXIT", architecture="sm_90")
    comparison = compare_code(code(*LOOP), straight)
    assert not comparison.aligned
    assert "other loops" in comparison.differences()[0]
    assert comparison.ratio("fp32") == pytest.approx(2 / 3)


def test_a_call_that_cannot_be_passed_by_counts() -> None:
    labels = {"$k$__internal_accurate_pow": 0x30}
    callee = ("DFMA R0, R2, R4, R6", "RET.REL.NODEC R20 `(k)")
    called = code(
        "MOV R20, 0x20", "CALL.REL.NOINC `($k$__internal_accurate_pow)", "EXIT", *callee, labels=labels
    )
    (region,) = profile_code(called).regions
    assert (region.counts.dfma, region.rare.dfma) == (1, 0)
    passed = code(
        "@P0 BRA 0x20", "CALL.REL.NOINC `($k$__internal_accurate_pow)", "EXIT", *callee, labels=labels
    )
    (region,) = profile_code(passed).regions
    assert (region.counts.dfma, region.rare.dfma) == (0, 1)
    assert region.functions == ("__internal_accurate_pow",)


def test_pascals_pairs_and_blackwells_notes_are_read() -> None:
    pascal = function("special32", "sm_60")
    assert [i.mnemonic for i in pascal.instructions if i.address in (0x48, 0x50, 0xB0, 0xB8)] == [
        *("MOV", "LDG.E"),
        *("FFMA", "BRA"),
    ]
    plain = count_operations(function("plain", "sm_120").instructions)
    assert plain == OperationCounts(fadd=1, fmul=1, ffma=1)


def test_code_with_a_stack_of_reconvergence_is_refused() -> None:
    with pytest.raises(SmlabError, match=r"sm_60 code whose branches meet by a stack.*sm_70 or later"):
        profile_code(code("SSY 0x20", "SYNC", "EXIT", architecture="sm_60"))


def test_kernels_are_found_by_the_profilers_name() -> None:
    names = ("saxpy", "_Z6kernelPfi", "_ZN2ns4fillEPf")
    found = CodeComparisons(
        tuple(compare_code(code(*LOOP, name=n), code(*LOOP, name=n, architecture="sm_90")) for n in names), ()
    )
    for said, expected in (
        ("saxpy", names[0]),
        ("kernel(float*, int)", names[1]),
        ("void ns::fill<float>(float*)", names[2]),
    ):
        comparison = found.of(said)
        assert comparison is not None
        assert comparison.kernel == expected
    assert found.of("other") is None


def test_files_of_either_kind_and_what_is_neither(tmp_path: Path) -> None:
    pair = LISTINGS / "special32.sm_70.sass", LISTINGS / "special32.sm_90.sass"
    found = compare_files(*pair)
    assert [c.kernel for c in found.comparisons] == ["special32"]
    assert found.unmatched == ()
    with pytest.raises(SmlabError, match="no kernel that the other file has"):
        compare_files(pair[0], LISTINGS / "gamma32.sm_86.sass")
    for content, expected in (
        (b"nonsense", "holds no machine code"),
        (b"\xff\xfe\x00", "holds no machine code"),
    ):
        path = tmp_path / "x.cubin"
        path.write_bytes(content)
        with pytest.raises(SmlabError, match=expected):
            read_code(path)
    with pytest.raises(SmlabError, match="absent: there is no such file"):
        read_code(tmp_path / "absent")


def test_counts_do_not_depend_on_which_is_source() -> None:
    one, other = function("gamma32", "sm_70"), function("gamma32", "sm_86")
    there, back = compare_code(one, other).ratio("fp32"), compare_code(other, one).ratio("fp32")
    assert there is not None
    assert back is not None
    assert there * back == pytest.approx(1)
    assert compare_code(one, replace(one, architecture="sm_86")).same_operations


PTX = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry special(.param .u64 pa, .param .u32 pn)
{
    .reg .pred t; .reg .u32 i, n; .reg .u64 a; .reg .f32 x, y; .reg .f64 p, q;
    ld.param.u64 a, [pa];
    ld.param.u32 n, [pn];
    mov.u32 i, 0;
loop:
    .pragma "nounroll";
    ld.global.f32 x, [a];
    ld.global.f32 y, [a+4];
    ld.global.f64 p, [a+8];
    div.rn.f32 x, x, y;
    sqrt.rn.f32 x, x;
    rcp.rn.f64 q, p;
    sqrt.rn.f64 p, q;
    st.global.f32 [a], x;
    st.global.f64 [a+8], p;
    add.u64 a, a, 16;
    add.u32 i, i, 1;
    setp.lt.u32 t, i, n;
    @t bra loop;
    ret;
}
"""


def test_live_code_of_two_architectures_from_cubins(tmp_path: Path) -> None:
    paths = []
    for architecture in ("sm_75", "sm_90"):
        try:
            assembler = find_ptxas(architecture=architecture)
            find_nvdisasm(architecture=architecture, major=assembler.major)
        except SmlabError as error:
            pytest.skip(f"not checked on live code: {error}")
        paths.append(tmp_path / f"{architecture}.cubin")
        paths[-1].write_bytes(assemble(PTX.replace("sm_70", "sm_75"), architecture, assembler)[0])
    found = compare_files(*paths).of("special(float*, int)")
    assert found is not None
    assert found.aligned
    _, loop = found.source.regions
    assert {"RCP", "RSQ", "RCP64H", "RSQ64H"} <= set(loop.functions)
    assert loop.in_special_blocks.ffma > 0
    assert loop.in_special_blocks.dfma > 0
    for precision in ("fp32", "fp64"):
        ratio = found.ratio(precision)
        assert ratio is not None
        assert 0.5 < ratio < 2
