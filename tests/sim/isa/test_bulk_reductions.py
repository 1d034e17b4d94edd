"""Reductions of the copy engine, and tensor maps that a kernel makes: PTX, against NumPy, on both engines."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bulk_kernels import kernel

from smlab import SmlabError
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.sim import Record
from smlab.sim.execution import functional
from smlab.sim.execution.run import run_machine_code
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.launch.tensor_map import ELEMENT_TYPES, TensorMap, unpack_map
from smlab.sim.traces.compare import first_difference

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

GPU = load_gpu("h100-pcie")
BYTES = 256
Run = Callable[[MachineLaunch], None]


def timed(engine: str) -> Run:
    return lambda launch: run_machine_code(launch, GPU, engine=engine) and None


RUNS: dict[str, Run] = {"untimed": functional.run, "compiled": timed("compiled"), "simpy": timed("simpy")}


# Each thread brings its words to shared memory; the first one then asks the copy engine.
FILL = """
ld.param.u64 %w1, [values]; mul.wide.u32 %w2, %r0, 4; add.u64 %w1, %w1, %w2;
mad.lo.u32 %r4, %r0, 4, %r1; ld.global.b32 %r5, [%w1]; st.shared.b32 [%r4], %r5;
fence.proxy.async; bar.sync 0; setp.ne.u32 %p0, %r0, 0; @%p0 bra behind;
ld.param.u64 %w0, [to];
"""
WAIT = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; behind: bar.sync 0;"


def bfloat16(singles: Any) -> Any:
    """The nearest numbers of bfloat16, of two the even one, as singles."""
    bits = np.asarray(singles, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)


def wrapped_up(old: Any, value: Any) -> Any:
    return np.where(old >= value, 0, old + 1).astype(old.dtype)


def wrapped_down(old: Any, value: Any) -> Any:
    return np.where((old == 0) | (old > value), value, old - 1).astype(old.dtype)


WHOLE = {"u32": np.uint32, "s32": np.int32, "u64": np.uint64, "s64": np.int64}
FLOATS = {"f16": np.float16, "bf16": np.float32, "f32": np.float32, "f64": np.float64}
BY_NUMPY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "min": np.minimum,
    "max": np.maximum,
    "inc": wrapped_up,
    "dec": wrapped_down,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
FORMS = [
    *(("add", kind) for kind in ("u32", "s32", "u64", "f16", "bf16", "f32", "f64")),
    *((what, kind) for what in ("min", "max") for kind in ("u32", "s32", "u64", "s64", "f16", "bf16")),
    *((what, "u32") for what in ("inc", "dec")),
    *((what, kind) for what in ("and", "or", "xor") for kind in ("b32", "b64")),
]


def numbers(kind: str, count: int, seed: int) -> Any:
    """Numbers of all sizes and signs, with equal ones among them."""
    draw = np.random.default_rng(seed)
    if kind in FLOATS:
        drawn = (draw.standard_normal(count) * 8).astype(FLOATS[kind])
        drawn[::7] = 0.5
        return bfloat16(drawn) if kind == "bf16" else drawn
    of = WHOLE[{"b32": "u32", "b64": "u64"}.get(kind, kind)]
    drawn = draw.integers(0, 256, count * np.dtype(of).itemsize, dtype=np.uint8).view(of)
    drawn[::5] = 3
    return drawn


def as_words(kind: str, values: Any) -> Any:
    """As they lie in memory."""
    return (values.view(np.uint32) >> 16).astype(np.uint16) if kind == "bf16" else values


def reduced(run: Run, what: str, kind: str, by_map: bool) -> tuple[Any, Any]:
    """What a reduction leaves in global memory, and what NumPy says."""
    size = {"f16": 2, "bf16": 2, "u64": 8, "s64": 8, "b64": 8, "f64": 8}.get(kind, 4)
    count = BYTES // size
    values, old = numbers(kind, count, 1), numbers(kind, count, 2)
    wanted = BY_NUMPY[what](old, values)
    wanted = as_words(kind, bfloat16(wanted) if kind == "bf16" else wanted)
    to, source = as_words(kind, old).copy(), as_words(kind, values)
    if by_map:
        elements = {"b32": "u32", "b64": "u64"}.get(kind, kind)
        described = TensorMap(to, (count // 4, 4), (count // 4, 4), element_type=elements)
        form = f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{what}.tile.bulk_group"
        copy = f"{form} [%w0, {{%r8, %r8}}], [%r1];"
        image = kernel(
            ".param .u64 to, .param .u64 values, .param .u64 all", FILL + "mov.u32 %r8, 0;" + copy + WAIT
        )
        arguments: tuple[Any, ...] = (described, source, to)
    else:
        rounding = ".noftz" if what == "add" and kind in ("f16", "bf16") else ""
        form = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{what}{rounding}.{kind}"
        copy = f"{form} [%w0], [%r1], {BYTES};"
        image = kernel(".param .u64 to, .param .u64 values", FILL + copy + WAIT)
        arguments = (to, source)
    run(MachineLaunch(image, (1, 1, 1), (BYTES // 4, 1, 1), arguments, dynamic_shared_bytes=BYTES))
    return to, wanted


@pytest.mark.parametrize("which", ["compiled", "simpy"])
@pytest.mark.parametrize(("what", "kind"), FORMS)
def test_bytes_are_reduced(which: str, what: str, kind: str) -> None:
    found, wanted = reduced(RUNS[which], what, kind, by_map=False)
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("which", ["compiled", "simpy"])
@pytest.mark.parametrize(
    ("what", "kind"),
    [("add", "f32"), ("add", "bf16"), ("max", "f16"), ("min", "s64"), ("dec", "u32"), ("xor", "b64")],
)
def test_a_box_is_reduced(which: str, what: str, kind: str) -> None:
    found, wanted = reduced(RUNS[which], what, kind, by_map=True)
    assert np.array_equal(found, wanted)


MAKE = """
setp.ne.u32 %p0, %r0, 0; add.u32 %r2, %r1, 1024;
mad.lo.u32 %r3, %r0, 4, %r1; mov.u32 %r5, 0; st.shared.b32 [%r3], %r5; bar.sync 0;
ld.param.u64 %w0, [map]; ld.param.u64 %w1, [a];
@%p0 bra made;
tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r1], %w1;
tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r1], 1;
tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r1], 0, {box[0]};
tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r1], 1, {box[1]};
tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r1], 0, {shape[0]};
tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r1], 1, {shape[1]};
tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r1], 0, {stride};
tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r1], 0, 1;
tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r1], 1, 1;
tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r1], {type};
tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%r1], 0;
tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%r1], {swizzle};
tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%r1], {fill};
made: bar.sync 0;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%w0], [%r1], 128;
fence.proxy.tensormap::generic.acquire.gpu [%w0], 128;
bar.sync 0; @%p0 bra behind;
add.u32 %r6, %r1, 512; mbarrier.init.shared.b64 [%r6], 1; fence.proxy.async;
mbarrier.arrive.expect_tx.shared.b64 _, [%r6], {size}; mov.s32 %r8, {begin[0]}; mov.s32 %r9, {begin[1]};
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
    [%r2], [%w0, {{%r8, %r9}}], [%r6];
wait: mbarrier.try_wait.parity.shared.b64 %p1, [%r6], 0; @!%p1 bra wait;
behind: bar.sync 0;
ld.param.u64 %w3, [out]; mul.wide.u32 %w2, %r0, 4; add.u64 %w3, %w3, %w2;
mad.lo.u32 %r4, %r0, 4, %r2;
{words}
"""


def made_by_a_kernel(
    run: Run, swizzle: int = 0, fill: int = 0, elements: str = "u16", architecture: str = "sm_90a"
) -> tuple[Any, Any, Any]:
    """What a box holds that was copied by a map which the kernel made, what NumPy says, and the map."""
    a = np.arange(64 * 32, dtype=np.uint16).reshape(32, 64)
    box, begin, size = (32, 8), (16, 28), 512
    words = " ".join(
        f"ld.shared.b32 %r5, [%r4+{n}]; st.global.b32 [%w3+{n}], %r5;" for n in range(0, size, 128)
    )
    form = {"box": box, "begin": begin, "shape": (64, 32), "stride": 128, "size": size, "words": words}
    body = MAKE.format(**form, swizzle=swizzle, fill=fill, type=ELEMENT_TYPES.index(elements))
    image = kernel(".param .u64 a, .param .u64 out, .param .u64 map", body, architecture)
    out, made = np.zeros(size // 4, np.uint32), np.zeros(128, np.uint8)
    run(MachineLaunch(image, (1, 1, 1), (32, 1, 1), (a, out, made), dynamic_shared_bytes=2048))
    whole = np.zeros((8, 32), np.uint16)
    whole[:4] = a[28:, 16:48]
    raw, places = whole.reshape(-1).view(np.uint8), np.arange(size)
    wanted = np.zeros_like(raw)
    wanted[places ^ ((places >> 7 & (1 << swizzle) - 1) << 4)] = raw
    return out, wanted.view(np.uint32), made


@pytest.mark.parametrize("which", RUNS)
@pytest.mark.parametrize("swizzle", range(3))
def test_a_kernel_makes_its_tensor_map(which: str, swizzle: int) -> None:
    out, wanted, made = made_by_a_kernel(RUNS[which], swizzle)
    assert np.array_equal(out, wanted)
    words = unpack_map(made.tobytes())
    assert words is not None
    assert (words.shape, words.box, words.strides) == ((64, 32), (32, 8), (128,))


def test_a_kernel_of_an_rtx_5090_makes_its_tensor_map() -> None:
    out, wanted, _ = made_by_a_kernel(RUNS["compiled"], 2, architecture="sm_120a")
    assert np.array_equal(out, wanted)


@pytest.mark.parametrize("which", RUNS)
def test_a_map_of_a_form_that_is_not_simulated_is_named(which: str) -> None:
    with pytest.raises(SmlabError, match="no tensor map of its dimensions, or one that is not simulated"):
        made_by_a_kernel(RUNS[which], fill=1, elements="f16")


def test_engines_have_the_same_events() -> None:
    found = [
        (
            lambda launch, engine=engine: results.append(
                run_machine_code(launch, GPU, engine=engine, keep=Record.ALL)
            )
        )
        for engine in ("simpy", "compiled")
    ]
    for make in (lambda run: made_by_a_kernel(run, 1), lambda run: reduced(run, "add", "f32", True)):
        results: list[Any] = []
        for run in found:
            make(run)
        assert first_difference(results[0].result, results[1].result) is None


def test_a_reduction_takes_longer_than_a_copy() -> None:
    """It reads what it adds to, of DRAM, and L2 adds."""
    cycles = {}
    for name, copy in (
        ("copy", "cp.async.bulk.global.shared::cta.bulk_group [%w0], [%r1], 256;"),
        ("sum", "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%w0], [%r1], 256;"),
    ):
        image = kernel(".param .u64 to, .param .u64 values", FILL + copy + WAIT)
        arguments = (np.zeros(64, np.float32), np.zeros(64, np.float32))
        launch = MachineLaunch(image, (1, 1, 1), (64, 1, 1), arguments, dynamic_shared_bytes=256)
        cycles[name] = run_machine_code(launch, GPU).cycles
    assert cycles["sum"] > cycles["copy"] + 100
