"""Random programs of clusters: both engines have the same events and the same results, races included."""

import random
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from smlab import SmlabError
from smlab.hw_bench.cuda.toolkit import has_compiler
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass.tools import assemble
from smlab.sim import Record
from smlab.sim.execution.run import run_machine_code
from smlab.sim.frontends.machine_code import from_cubin
from smlab.sim.isa.launch.launch import MachineLaunch
from smlab.sim.isa.launch.tensor_map import TensorMap
from smlab.sim.traces.compare import first_difference

if not has_compiler():
    pytest.skip("the CUDA compiler of the extra cuda12 is not installed", allow_module_level=True)

GPU = load_gpu("h100-pcie")
SHAPES = ((2, 1, 1), (4, 1, 1), (2, 2, 1), (3, 1, 1))
BARRIERS = 4
CELLS_AT, BOX_AT, BOX_BYTES = 64, 1024, 2048
SYNC = "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;"
CLUSTERS = ((1, 1), (1, 1), (2, 1), (2, 2))
REDUCTIONS = ("add.u32", "max.s32", "xor.b32", "inc.u32", "add.u64", "min.u64")


class ClusterProgram:
    """Steps that all threads of all blocks take. A wait may miss its phase where another block is two phases
    ahead; then both engines name the same barrier."""

    def __init__(self, seed: int) -> None:
        self.draw, self.name = random.Random(seed), f"k{seed}"
        self.clusters = self.draw.choice(CLUSTERS)
        self.shape = self.draw.choice(SHAPES)
        self.size = int(np.prod(self.shape))
        self.warps = self.draw.randint(1, 4)
        self.phases = [0] * BARRIERS  # of barriers that threads arrive at; the last one is told by copies
        self.lines: list[str] = []
        for n in range(self.draw.randint(4, 12)):
            self.lines.append(self.draw.choice(self.steps)(self, n))

    def there(self) -> str:
        """The cell of the same thread in another block, or in its own one, in r7."""
        step = self.draw.randrange(self.size)
        return self.of_another(step, "%r3")

    def of_another(self, step: int, address: str) -> str:
        """The address in the block so many ranks further on, in r7."""
        rank = f"add.u32 %r6, %r2, {step}; rem.u32 %r6, %r6, {self.size};"
        return f"{rank} mapa.shared::cluster.u32 %r7, {address}, %r6;"

    def add(self, n: int) -> str:
        return f"{self.there()} atom.shared::cluster.add.u32 %r9, [%r7], %r8; add.u32 %r8, %r8, %r9;"

    def load(self, n: int) -> str:
        return f"{self.there()} ld.shared::cluster.u32 %r9, [%r7]; add.u32 %r8, %r8, %r9;"

    def store(self, n: int) -> str:
        return f"{self.there()} st.shared::cluster.u32 [%r7], %r8;"

    def work(self, n: int) -> str:
        times = self.draw.randint(1, 30)
        return f"mov.u32 %r10, %r2; l{n}: mad.lo.u32 %r8, %r8, 3, 1; add.u32 %r10, %r10, 1; " + (
            f"setp.lt.u32 %p2, %r10, {times}; @%p2 bra l{n};"
        )

    def fetch(self, n: int) -> str:
        at = 4 * 128 * self.draw.randrange(8)
        return f"ld.global.u32 %r9, [%w1+{at}]; add.u32 %r8, %r8, %r9; st.global.u32 [%w1+{at}], %r8;"

    def sync(self, n: int) -> str:
        return SYNC

    def arrive(self, n: int) -> str:
        """Each block's threads arrive at a barrier of another block, and wait for their own."""
        which = self.draw.randrange(BARRIERS - 1)
        phase, self.phases[which] = self.phases[which], self.phases[which] ^ 1
        step = self.draw.randrange(self.size)
        return (
            f"{self.of_another(step, '%r1')} "
            f"mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7+{8 * which}]; "
            f"w{n}: mbarrier.try_wait.parity.shared.b64 %p1, [%r1+{8 * which}], {phase}; @!%p1 bra w{n};"
        )

    def copy(self, n: int) -> str:
        """A box for some blocks of the cluster, which one of them asks for."""
        which = BARRIERS - 1
        phase, self.phases[which] = self.phases[which], self.phases[which] ^ 1
        mask = self.draw.randrange(1, 1 << self.size)
        leader, row = self.draw.randrange(self.size), self.draw.randint(-4, 60)
        return f"""
shr.u32 %r10, {mask}, %r2; and.b32 %r10, %r10, 1; mul.lo.u32 %r10, %r10, {BOX_BYTES};
setp.ne.u32 %p0, %r0, 0; @%p0 bra s{n};
mbarrier.arrive.expect_tx.shared.b64 _, [%r1+{8 * which}], %r10;
s{n}: {SYNC}
setp.ne.u32 %p2, %r2, {leader}; or.pred %p2, %p2, %p0; @%p2 bra w{n};
mov.u32 %r11, {self.draw.randint(0, 40)}; mov.s32 %r12, {row}; mov.u16 %h0, {mask};
add.u32 %r13, %r1, {BOX_AT};
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
    [%r13], [%w0, {{%r11, %r12}}], [%r1+{8 * which}], %h0;
w{n}: mbarrier.try_wait.parity.shared.b64 %p1, [%r1+{8 * which}], {phase}; @!%p1 bra w{n};
ld.shared.u32 %r9, [%r3+{BOX_AT - CELLS_AT}]; add.u32 %r8, %r8, %r9;
"""

    def write(self, n: int) -> str:
        wait = self.draw.choice(("cp.async.bulk.wait_group 0;", "cp.async.bulk.wait_group.read 1;", ""))
        copy = "cp.async.bulk.global.shared::cta.bulk_group"
        if self.draw.random() < 0.5:
            reduction = self.draw.choice(REDUCTIONS)
            copy = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{reduction}"
        return f"""
setp.ne.u32 %p0, %r0, 0; @%p0 bra s{n};
add.u32 %r13, %r1, {BOX_AT}; mul.wide.u32 %w3, %r30, {BOX_BYTES}; add.u64 %w3, %w3, %w4;
{copy} [%w3], [%r13], {16 * self.draw.randint(1, 128)};
cp.async.bulk.commit_group; {wait}
s{n}:
"""

    steps = (add, load, store, work, fetch, sync, arrive, copy, write)

    def entry(self) -> str:
        threads, shape = 32 * self.warps, ", ".join(map(str, self.shape))
        first = " ".join(f"mbarrier.init.shared.b64 [%r1+{8 * n}], {threads};" for n in range(BARRIERS - 1))
        return f"""
.visible .entry {self.name}(.param .u64 map, .param .u64 out, .param .u64 far)
.explicitcluster .reqnctapercluster {shape} {{
.reg .b64 %w<9>; .reg .b32 %r<40>; .reg .b16 %h<3>; .reg .pred %p<6>;
mov.u32 %r0, %tid.x; mov.u32 %r1, image; mov.u32 %r2, %cluster_ctarank;
mov.u32 %r30, %ctaid.x; mov.u32 %r31, %ctaid.y; mov.u32 %r32, %nctaid.x; mad.lo.u32 %r30, %r31, %r32, %r30;
setp.ne.u32 %p0, %r0, 0; @%p0 bra begun;
{first} mbarrier.init.shared.b64 [%r1+{8 * (BARRIERS - 1)}], 1; fence.proxy.async;
begun: mad.lo.u32 %r3, %r0, 4, %r1; add.u32 %r3, %r3, {CELLS_AT}; mov.u32 %r8, %r30; st.shared.u32 [%r3], %r8;
ld.param.u64 %w0, [map]; ld.param.u64 %w1, [out]; ld.param.u64 %w4, [far];
mad.lo.u32 %r14, %r30, 4096, %r0; mul.wide.u32 %w2, %r14, 4; add.u64 %w1, %w1, %w2;
{SYNC}
{" ".join(self.lines)}
{SYNC}
ld.shared.u32 %r9, [%r3]; st.global.u32 [%w1+8192], %r8; st.global.u32 [%w1+12288], %r9;
ret; }}"""

    def run(self, image: Any, engine: str) -> tuple[Any, Any, Any]:
        grid = tuple(n * count for n, count in zip(self.shape, self.clusters, strict=False))
        blocks = grid[0] * grid[1]
        a = np.arange(64 * 64, dtype=np.uint16)
        out, far = np.zeros(4096 * blocks, np.uint32), np.zeros(BOX_BYTES * blocks, np.uint8)
        arguments = (TensorMap(a, (64, 64), (64, 16), swizzle="none"), out, far)
        launch = MachineLaunch(
            image,
            (*grid, 1),
            (32 * self.warps, 1, 1),
            arguments,
            dynamic_shared_bytes=4096,
            check_shared=False,
            most_checks=4000,
        )
        try:
            result = run_machine_code(launch, GPU, engine=engine, keep=Record.ALL).result
        except SmlabError as error:
            return str(error), out, far
        return result, out, far


def check_engines_agree(seeds: Iterable[int]) -> None:
    """Programs are assembled together: that takes a tenth of the time."""
    programs = [ClusterProgram(seed) for seed in seeds]
    head = ".version 8.7\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 image[];\n"
    cubin = assemble(head + "".join(program.entry() for program in programs), "sm_90a")[0]
    for program in programs:
        image = from_cubin(cubin, program.name, program.name)
        expected, found = (program.run(image, engine) for engine in ("simpy", "compiled"))
        if isinstance(expected[0], str):
            assert expected[0] == found[0], program.name
            assert "never completes: the one at" in found[0], program.name
            continue
        assert first_difference(expected[0], found[0]) is None, program.name
        assert np.array_equal(expected[1], found[1]), program.name
        assert np.array_equal(expected[2], found[2]), program.name


@pytest.mark.parametrize("first", range(0, 12, 4))
def test_both_engines_agree(first: int) -> None:
    check_engines_agree(range(first, first + 4))


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(1000, 11000, 50))
def test_both_engines_agree_on_many(first: int) -> None:
    check_engines_agree(range(first, first + 50))
