"""Triton's kernels from Python, from files and in scripts: what Triton would launch is executed."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import smlab
from smlab import SmlabError
from smlab.sim.frontends.host_arrays import ArgumentMemory, ToldPointers
from smlab.sim.isa.memory.global_memory import GlobalMemory

pytest.importorskip("triton")

import triton
import triton.language as tl
from triton.runtime import driver

import triton_kernels as kernels
from whole_files import TUNED_TRITON

N = 1000
LAUNCH = """
[launch]
grid = "ceil(1000 / BLOCK)"

[options]
BLOCK = 256
num_warps = 2

[[argument]]
name = "x"
dtype = "float32"
shape = [1000]
make = "arange"

[[argument]]
name = "y"
dtype = "float32"
shape = [1000]
make = "arange"

[[argument]]
name = "out"
dtype = "float32"
shape = [1000]
make = "zeros"
returned = true

[[argument]]
name = "n"
dtype = "int32"
value = 1000
"""


@pytest.fixture
def arrays() -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [*random.random((2, N), dtype=np.float32), np.zeros(N, np.float32)]


@pytest.fixture(autouse=True)
def _untouched() -> Iterator[None]:
    """What stands for the GPU is put back."""
    before = dict(vars(driver))
    yield
    assert vars(driver) == before


@triton.jit
def typed(small, large, wide, real, flag, pointer, out, SHIFT: tl.constexpr):
    tl.store(out, small + large + wide + SHIFT)
    tl.store(out + 1, real.to(tl.int64) + flag)
    if pointer is not None:
        tl.store(out + 2, tl.load(pointer).to(tl.int64))


@triton.jit
def first_element(x, out, ROWS: tl.constexpr):
    at = tl.arange(0, ROWS)
    tl.store(out + at, tl.load(x + at * 7))


def test_a_grid_may_be_a_function_of_the_options(arrays: list[np.ndarray]) -> None:
    x, y, out = arrays
    done = smlab.run(
        kernels.add,
        lambda meta: (triton.cdiv(N, meta["BLOCK"]),),
        x,
        y,
        out,
        N,
        gpu="a100-40",
        BLOCK=128,
        num_warps=2,
    )
    assert np.array_equal(out, x + y)
    assert (done.launch.grid, done.launch.block) == ((8, 1, 1), (64, 1, 1))


def test_arguments_are_specialized_as_triton_does_it() -> None:
    """A number 1 is compiled in, as is None; others are parameters of the type that Triton gives them."""
    out = np.zeros(3, np.int64)
    pointer = np.full(4, 7, np.int8)
    done = smlab.run(typed, 1, 1, 2**31, np.int64(-5), 2.75, True, None, out, gpu="a100-40", SHIFT=10)
    assert out.tolist() == [2**31 + 6, 3, 0]
    sizes = [p.size for p in done.launch.image.parameters or ()]
    assert sizes[:4] == [8, 4, 4, 1]
    smlab.run(typed, 1, 3, 4, 5, 0.0, False, pointer, out, gpu="a100-40", SHIFT=0)
    assert out.tolist() == [12, 0, 7]


def test_views_keep_their_place_in_what_they_are_views_of() -> None:
    whole = np.arange(200, dtype=np.float32).reshape(20, 10)
    out = np.zeros(16, np.float32)
    smlab.run(first_element, 1, whole[2:, 3:], out, gpu="a100-40", ROWS=16)
    assert np.array_equal(out, 23 + 7 * np.arange(16))
    smlab.run(first_element, 1, out[::-1][:1], out[:0], gpu="a100-40", ROWS=1)


def test_types_of_other_packages() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for kind in (ml_dtypes.bfloat16, np.float16):
        x = np.arange(64).astype(kind)
        out = np.zeros_like(x)
        smlab.run(kernels.add, 1, x, x, out, 64, gpu="a100-40", BLOCK=64)
        assert np.array_equal(out.astype(float), 2 * np.arange(64))


def test_a_file_with_a_launch(tmp_path: Path) -> None:
    (tmp_path / "launch.toml").write_text(LAUNCH)
    command = [sys.executable, "-m", "smlab", "run", f"{kernels.__file__}:add", "--gpu", "rtx-3090"]
    options = ["--launch", "launch.toml", "--result", "out.npz", "--json", "-D", "BLOCK=128"]
    done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["blocks"] == 8
    with np.load(tmp_path / "out.npz") as found:
        assert np.array_equal(found["out"], 2 * np.arange(N))


def test_an_autotuner_gives_one_of_its_configurations(tmp_path: Path) -> None:
    file = tmp_path / "tuned.py"
    file.write_text(TUNED_TRITON)
    threads = []
    for options in ({}, {"config": 1}, {"config": 1, "num_warps": 1}):
        x = np.ones(N, np.float32)
        grid = lambda meta: (triton.cdiv(N, meta["BLOCK"]),)  # noqa: E731
        done = smlab.run(f"{file}:doubled", grid, x, N, gpu="a100-40", **options)
        assert (x == 2).all()
        threads.append((done.launch.blocks, done.launch.threads))
    assert threads == [(16, 128), (2, 256), (2, 32)]
    with pytest.raises(SmlabError, match=r"config: no such configuration \(got 2; expected 0 to 1\)"):
        smlab.run(f"{file}:doubled", 1, np.ones(4, np.float32), 4, gpu="a100-40", config=2)


def test_a_script_launches_on_the_simulator(arrays: list[np.ndarray]) -> None:
    x, y, out = arrays
    with smlab.simulated("a100-40", sms="all") as gpu:
        compiled = kernels.add[(4,)](x, y, out, N, BLOCK=256)
        kernels.add[lambda meta: (triton.cdiv(N, meta["BLOCK"]),)](x, x, y, n=N, BLOCK=512)
        properties = driver.active.utils.get_device_properties(driver.active.get_current_device())
        milliseconds = triton.testing.do_bench(lambda: kernels.add[(1,)](x, x, out, 9, BLOCK=64))
    assert np.array_equal(y, 2 * x)
    assert out[10] != y[10]
    assert [run.blocks for run in gpu.runs] == [4, 2, 1]
    assert milliseconds == pytest.approx(gpu.runs[-1].seconds * 1e3)
    assert gpu.seconds == sum(run.seconds for run in gpu.runs)
    assert properties["multiprocessor_count"] == 108
    assert compiled.n_regs == gpu.runs[0].launch.image.registers


def test_launches_of_a_script_find_a_warm_l2_and_benchmarks_a_cold_one(arrays: list[np.ndarray]) -> None:
    x, y, out = arrays
    with smlab.simulated("a100-40", sms="all") as gpu:
        for _ in range(5):
            kernels.add[(4,)](x, y, out, N, BLOCK=256)
        milliseconds = triton.testing.do_bench(lambda: kernels.add[(4,)](x, y, out, N, BLOCK=256))
    first, second, *_ = gpu.runs
    assert second.cycles < 0.9 * first.cycles
    assert milliseconds == pytest.approx(first.seconds * 1e3)
    (row,) = gpu.program.rows
    assert (row.launches, row.steady) == (6, True)
    assert row.simulated < 6
    assert gpu.program.gaps == 5


def test_two_gpus_do_not_share_what_was_compiled_or_chosen(tmp_path: Path) -> None:
    (tmp_path / "tuned.py").write_text(TUNED_TRITON)
    architectures, chosen = [], []
    for name, tune in (("a100-40", False), ("rtx-3090", True)):
        with smlab.simulated(name, tune=tune) as gpu:
            space: dict[str, Any] = {}
            sys.path.insert(0, str(tmp_path))
            try:
                exec("from tuned import doubled", space)
            finally:
                sys.path.remove(str(tmp_path))
            space["doubled"][lambda meta: (triton.cdiv(N, meta["BLOCK"]),)](np.ones(N, np.float32), N)
        architectures.append({run.launch.image.architecture for run in gpu.runs})
        chosen.append((len(gpu.runs), min(run.seconds for run in gpu.runs) == gpu.runs[-1].seconds))
    assert architectures == [{80}, {86}]
    assert chosen == [(1, True), (3, True)]


def test_what_cannot_be_done_is_told_in_one_line(arrays: list[np.ndarray], tmp_path: Path) -> None:
    x, y, out = arrays
    (tmp_path / "launches.py").write_text(
        "import numpy as np, triton\nfrom triton_kernels import add\nx = np.ones(4, np.float32)\n"
        "add[(1,)](x, x, x, 4, BLOCK=4)\n"
    )
    cases: dict[str, Any] = {
        r"block: this kernel tells its threads itself": {"block": 128, "BLOCK": 128},
        r"add: does not compile for sm_80: KeyError.*BLOCKS": {"BLOCKS": 128, "BLOCK": 128},
        r"add: does not compile for sm_80: TypeError.*BLOCK": {},
        r"add: does not compile for sm_80: .*power of 2": {"BLOCK": 100},
    }
    for message, options in cases.items():
        with pytest.raises(SmlabError, match=message) as told:
            smlab.run(kernels.add, 4, x, y, out, N, gpu="a100-40", **options)
        assert "\n" not in str(told.value)
    x.setflags(write=False)
    with pytest.raises(SmlabError, match="add: x: cannot be written to"):
        smlab.run(kernels.add, 4, x, y, out, N, gpu="a100-40", BLOCK=256)
    with pytest.raises(SmlabError, match="add: the file launches it when it is executed"):
        smlab.run(f"{tmp_path / 'launches.py'}:add", 4, gpu="a100-40")
    with pytest.raises(TypeError, match="unexpected keyword argument 'sm'"):
        smlab.simulated("a100-40", sm=3)


SCRIPT = """
import smlab; gpu = smlab.simulated("rtx-3090").start()
import torch, triton, triton.language as tl
from triton.runtime import driver

DEVICE = driver.active.get_active_torch_device()
properties = driver.active.utils.get_device_properties(DEVICE.index)
assert driver.active.get_current_target().backend == "cuda"

few, many = triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 512})

@triton.autotune(configs=[few, many], key=["n"], reset_to_zero=["out"])
@triton.jit
def sums(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + at, mask=at < n, other=0)))

@triton.jit
def rows(x, out, columns, count, WIDE: tl.constexpr):
    for row in tl.range(tl.program_id(0), count, tl.num_programs(0)):
        at = tl.arange(0, WIDE)
        value = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
        tl.store(out + row, tl.max(value, axis=0))

assert torch.cuda.is_available() and torch.cuda.get_device_capability() == (8, 6)
assert torch.cuda.get_device_properties(0).multi_processor_count == properties["multiprocessor_count"]
side: torch.cuda.Stream | None = torch.cuda.Stream()
began, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
torch.manual_seed(0)
x = torch.rand((40, 50), device=DEVICE)
assert x.is_cuda and x.device.type == "cuda" and x.get_device() == 0
out = torch.empty(40, device="cuda")
kernel = rows.warmup(x, out, 50, 40, WIDE=64, num_warps=2, grid=(1,))
kernel._init_handles()
programs = properties["multiprocessor_count"] * properties["max_num_regs"] // (kernel.n_regs * 64)
assert programs > 40 and kernel.metadata.shared <= properties["max_shared_mem"]
with torch.cuda.device(x.device), torch.cuda.stream(side):
    began.record()
    kernel[(8, 1, 1)](x, out, 50, 40, 64)
    ended.record(torch.cuda.current_stream())
torch.cuda.synchronize()
assert abs(began.elapsed_time(ended) * 1e-3 / gpu.runs[-1].seconds - 1) < 1e-9
assert torch.equal(out, x.max(dim=1).values)
total = torch.zeros(1, device=DEVICE)
sums[lambda meta: (triton.cdiv(2000, meta["BLOCK"]),)](x, total, 2000)
assert torch.allclose(total, x.sum()) and sums.best_config is few
times = triton.testing.do_bench(lambda: rows[(8,)](x, out, 50, 40, WIDE=64), quantiles=[0.5, 0.2, 0.8])
assert len(times) == 3 and abs(times[0] * 1e-3 / gpu.runs[-1].seconds - 1) < 1e-9
print(gpu)
"""


def test_a_script_that_asks_for_its_device(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "<rtx-3090, simulated: 3 launches" in done.stdout


def test_a_configuration_without_room_is_passed_over() -> None:
    """A tile of 128 KB does not fit into the shared memory of a block."""
    x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    out = np.zeros_like(x)
    with smlab.simulated("rtx-3090") as gpu:
        large = triton.Config({"BM": 256, "BN": 128}, num_warps=16)
        tuned = triton.autotune(configs=[large, triton.Config({"BM": 32, "BN": 32})], key=["M"])
        kernel = tuned(kernels.transpose)
        kernel[lambda meta: (64 // meta["BM"], 64 // meta["BN"])](x, out, 64, 64)
    assert len(gpu.runs) == 1
    assert kernel.best_config.kwargs == {"BM": 32, "BN": 32}
    assert np.array_equal(out, x.T)


def test_an_autotuner_below_heuristics_passes_over_what_has_no_room() -> None:
    """A kernel that was tuned before says nothing about this one."""
    x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    large, small = triton.Config({"BM": 1024}, num_warps=16), triton.Config({"BM": 32})
    with smlab.simulated("rtx-3090"):
        for configs in ([small, large], [large, small]):
            out = np.zeros_like(x)
            tuned = triton.autotune(configs=configs, key=["M"])(kernels.transpose)
            kernel = triton.heuristics({"BN": lambda _: 32})(tuned)
            kernel[lambda meta: (64 // meta["BM"], 2)](x, out, 64, 64)
            assert np.array_equal(out, x.T)
            assert tuned.best_config is small


@pytest.mark.parametrize("gpu", ["h100-sxm", "b200"])
def test_a_program_of_two_blocks(gpu: str) -> None:
    """``num_ctas``: two blocks of a cluster share a program's work, and combine what they found."""
    x = np.random.default_rng(0).standard_normal((3, 1024)).astype(np.float32)
    out = np.zeros_like(x)
    with smlab.simulated(gpu) as one:
        kernels.softmax[(3,)](x, out, 1024, 1024, BLOCK=1024, num_ctas=2)
    wanted = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(out, wanted / wanted.sum(axis=1, keepdims=True), rtol=1e-5)
    assert one.program.rows[0].grid == (6, 1, 1)


class Storage:
    """As PyTorch's: bytes of the host."""

    def __init__(self, size: int) -> None:
        self.bytes = np.zeros(size, np.uint8)

    def data_ptr(self) -> int:
        return int(self.bytes.ctypes.data)

    def nbytes(self) -> int:
        return len(self.bytes)


def test_a_kernel_reaches_what_a_table_of_pointers_points_to() -> None:
    told, before = ToldPointers(), GlobalMemory()
    storages = [Storage(800) for _ in range(3)]
    tensors = [
        SimpleNamespace(untyped_storage=lambda one=one: one, storage_offset=lambda: 2, element_size=lambda: 4)
        for one in storages
    ]
    pointers = [told.tell(one, before.after()) for one in tensors]
    memory = ArgumentMemory(before.after())
    memory.reach("table", np.array([pointers[2], 7, pointers[0] + 791]), told)
    assert [a.address for a in memory.memory.allocations] == [pointers[0] - 8, pointers[2] - 8]
    memory = ArgumentMemory(before.after())
    del tensors[0], storages[0]  # a pointer to what is no more points nowhere
    memory.reach("table", np.array([pointers[0], pointers[1] + 800 - 8]), told)
    assert not memory.memory.allocations
    with pytest.raises(SmlabError, match="table: a pointer from before"):
        ArgumentMemory(GlobalMemory()).reach("table", np.array([pointers[2]]), told)


def test_a_table_of_pytorch_s_pointers() -> None:
    torch = pytest.importorskip("torch")
    with smlab.simulated("rtx-4090"):
        x = [torch.rand(N, device="cuda") for _ in range(3)]
        table = torch.tensor([one.data_ptr() for one in x], device="cuda")
        out = torch.empty(3, N, device="cuda")
        kernels.gather_rows[(3,)](table, out, N, BLOCK=1024)
    assert torch.equal(out, torch.stack(x))


def test_pytorch_s_tensors_lie_on_the_cpu(arrays: list[np.ndarray]) -> None:
    torch = pytest.importorskip("torch")
    with smlab.simulated("rtx-4090") as gpu:
        device = driver.active.get_active_torch_device()
        x, y = torch.rand(N, device="cuda"), torch.rand(N, device=device).cuda()
        out = torch.empty_like(x)
        assert x.is_cuda
        assert x.device == device == out.device
        kernels.add[(4,)](x, y, out, N, BLOCK=256)
        tile = torch.randn(64, 64, device=torch.device("cuda", 0))
        turned = torch.zeros(64, 64, device="cuda")
        kernels.transpose[(2, 2)](tile[:, :], turned, 64, 64, BM=32, BN=32)
    assert torch.equal(out, x + y)
    assert torch.equal(turned, tile.T)
    assert len(gpu.runs) == 2
    assert not torch.rand(1).is_cuda
