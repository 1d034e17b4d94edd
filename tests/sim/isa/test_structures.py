"""Structures as arguments: bytes with scalars, pointers and tensor maps in them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smlab
from smlab import SmlabError
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.sass.tools import assemble
from smlab.sim.execution import functional
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.launch.launch_file import launch_of
from smlab.sim.isa.launch.structure import Structure
from smlab.sim.isa.launch.tensor_map import TensorMap

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

SCALED = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 given[32]) {
.reg .b64 %w<4>; .reg .b32 %r<4>; .reg .f32 %f<4>;
mov.u32 %r0, %tid.x; mul.wide.u32 %w0, %r0, 4;
ld.param.u64 %w1, [given+8]; add.u64 %w1, %w1, %w0;
ld.param.u64 %w2, [given+24]; add.u64 %w2, %w2, %w0;
ld.param.f32 %f0, [given+4]; ld.global.f32 %f1, [%w1]; mul.f32 %f1, %f1, %f0; st.global.f32 [%w2], %f1;
ret; }"""
BOX = """
.version 8.7
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 image[];
.visible .entry k(.param .align 64 .b8 given[192]) {
.reg .b64 %w<4>; .reg .b32 %r<9>; .reg .pred %p<4>;
mov.u32 %r0, %tid.x; mov.u32 %r1, image; add.u32 %r2, %r1, 1024; mov.u32 %r3, 0;
mov.b64 %w0, given; add.u64 %w0, %w0, 64; cvta.param.u64 %w0, %w0;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra behind;
mbarrier.init.shared.b64 [%r1], 1;
mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 256;
cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%w0, {%r3}], [%r1];
behind: bar.sync 0;
wait: mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0;
@!%p1 bra wait;
mad.lo.u32 %r4, %r0, 4, %r2; ld.shared.b32 %r5, [%r4];
ld.param.u64 %w1, [given]; mul.wide.u32 %w2, %r0, 4; add.u64 %w1, %w1, %w2; st.global.b32 [%w1], %r5;
ret; }"""


def image(text: str, architecture: str = "sm_90a") -> Any:
    return from_cubin(assemble(text.replace("sm_90a", architecture), architecture)[0], "k", "k")


def test_pointers_and_scalars_lie_where_the_structure_has_them() -> None:
    numbers, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    given = Structure(bytes(32), {8: numbers, 4: np.float32(3), 24: out})
    functional.run(MachineLaunch(image(SCALED), (1, 1, 1), (32, 1, 1), [given]))
    assert np.array_equal(out, 3 * numbers)


def test_arrays_of_a_structure_have_names_and_are_no_parameters() -> None:
    numbers, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    given = Structure(bytes(32), {8: numbers, 4: np.float32(2), 24: out})
    launch = MachineLaunch(image(SCALED), (1, 1, 1), (32, 1, 1), [given, numbers, out], ("p", "x", "y"))
    functional.run(launch)
    assert np.array_equal(out, 2 * numbers)
    assert [a.name for a in launch.allocations] == ["x", "y"]


@pytest.mark.parametrize("architecture", ["sm_90a", "sm_120"])
def test_a_tensor_map_lies_in_a_structure(architecture: str) -> None:
    """Its address is that of the parameters and a number. Each architecture keeps that in its own place."""
    numbers, out = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    given = Structure(bytes(192), {0: out, 64: TensorMap(numbers, (64,), (64,))})
    code = image(BOX, architecture)
    functional.run(MachineLaunch(code, (1, 1, 1), (64, 1, 1), [given], dynamic_shared_bytes=2048))
    assert np.array_equal(out, numbers)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (Structure(bytes(32), {28: np.zeros(4)}), "byte 28: ends behind the structure.*8 bytes"),
        (Structure(bytes(24)), "has the wrong size.*24 bytes.*32 bytes"),
        (Structure(bytes(32), {0: "x"}), "byte 0: has no type"),
    ],
)
def test_what_does_not_fit_is_named(given: Structure, told: str) -> None:
    with pytest.raises(SmlabError, match=told):
        MachineLaunch(image(SCALED), (1, 1, 1), (32, 1, 1), [given])


def written(structure: Any) -> dict[str, Any]:
    arrays = [
        {"name": "x", "dtype": "float32", "shape": 32, "make": "arange"},
        {"name": "y", "dtype": "float32", "shape": 32, "make": "zeros", "returned": True},
    ]
    return {"launch": {"grid": 1, "block": 32}, "argument": [{"name": "p", "structure": structure}, *arrays]}


def test_a_launch_file_has_structures() -> None:
    fields = [
        {"at": 8, "array": "x"},
        {"at": 4, "dtype": "float32", "value": 3},
        {"at": 24, "array": "y"},
    ]
    launch = launch_of("launch", written({"bytes": 32, "fields": fields}), Path())
    done = smlab.run(image(SCALED), 1, *launch.arguments, gpu="h100-sxm", block=32)
    assert done.blocks == 1
    assert np.array_equal(launch.arguments[2], 3 * launch.arguments[1])


@pytest.mark.parametrize(
    ("structure", "told"),
    [
        ({"bytes": 0}, "structure: bytes: not a size"),
        ({"bytes": 32, "fields": 3}, "fields: is not a list"),
        ({"bytes": 32, "fields": [{"array": "x"}]}, "field 1: at: no place of its own"),
        ({"bytes": 32, "fields": [{"at": 32, "array": "x"}]}, "a byte from 0 to 31"),
        ({"bytes": 32, "fields": [{"at": 0}]}, "needs one of array, value and tensor_map"),
        ({"bytes": 32, "fields": [{"at": 0, "array": "z"}]}, "byte 0: names no array.*x, y"),
        ({"bytes": 32, "fields": [{"at": 0, "value": [1], "dtype": "int32"}]}, "not one number"),
        ({"size": 32}, "size"),
    ],
)
def test_a_launch_file_that_is_wrong_is_told_where(structure: Any, told: str) -> None:
    with pytest.raises(SmlabError, match=told):
        launch_of("launch", written(structure), Path())
