"""Functions of ``torch.compile`` on a simulated GPU. Needs PyTorch, which CI has not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import smlab
from smlab.commands.run.simulated import ScriptGpu
from smlab.hw_bench.errors import SmlabError

torch: Any = pytest.importorskip("torch")
pytest.importorskip("triton")
pytestmark = pytest.mark.filterwarnings("ignore")  # what PyTorch warns of is its own


@pytest.fixture
def gpu() -> Iterator[ScriptGpu]:
    with smlab.simulated("a100-40") as one:
        torch.manual_seed(0)
        yield one


def _softmax(x: Any) -> Any:
    return torch.nn.functional.softmax(x * 2, dim=-1)


def _turned(x: Any) -> Any:
    """As rotary embeddings do: pieces of rows, put together again."""
    left, right = x.chunk(2, dim=-1)
    return torch.cat([left * 2 - right, right * 2 + left], dim=-1)


def _with_constants(x: Any) -> Any:
    numbers = torch.arange(x.shape[-1], device="cuda") + torch.ones(1, 1, device=x.device)
    return x.cpu().cuda() + numbers.to("cuda") + torch.tensor([1.0]).cuda()


def _indexed(x: Any) -> Any:
    return x[3:40, ::2].clone() + x.sum()


def _in_pieces(x: Any) -> Any:
    """`item` and `tolist` end what is compiled at once."""
    many = int((x * 3).abs().sum().item())
    first = (torch.ones(2, device="cuda") + x.sum() * 0).tolist()[0]
    left, right = x * 2, x + 1
    return left * many - right * first + (left + right)


def _asks_where_it_lies(x: Any) -> Any:
    return x * 2 if x.is_cuda and x.device == torch.device("cuda", 0) else x * 3


@pytest.mark.parametrize(
    "function",
    [_softmax, _turned, _with_constants, _indexed, _in_pieces, _asks_where_it_lies],
)
def test_a_compiled_function_computes_what_pytorch_does(
    gpu: ScriptGpu, function: Callable[[Any], Any]
) -> None:
    x = torch.randn(48, 500, device="cuda")
    done = torch.compile(function)(x)
    assert gpu.runs
    assert not gpu.not_simulated
    torch.testing.assert_close(done, function(x))
    assert done.is_cuda


STATEMENTS_OF_ONE_LINE = (
    "left, right = x.chunk(2, -1)",
    "u = left * c",
    "n = int(u.abs().sum().item())",
    "v = right * s",
    "k = torch.nonzero(u > 1)",
    "t = torch.ones(3, device='cuda').sum().item() + torch.zeros(2, device=x.device).add(1).tolist()[0]",
)
IN_PIECES = f"""
import smlab
gpu = smlab.simulated("a100-40").start()
import torch
torch.manual_seed(0)
def pieces(x, c, s):
    {"; ".join(STATEMENTS_OF_ONE_LINE)}
    w = u - v; z = right * c + left * s
    return u, v, w, z, torch.cat([w, z], -1), k * 2, torch.unique(w.round()).add(1), torch.tensor(n * t)
given = torch.randn(2, 64, 128), torch.randn(64, 64), torch.randn(64, 64)
compiled = torch.compile(pieces)
for _ in range(2):
    torch.testing.assert_close(compiled(*given), pieces(*given))
assert gpu.runs
"""


def test_a_line_in_many_pieces_keeps_its_values(tmp_path: Path) -> None:
    """PyTorch 2.13 loses some where it traces through a mode. It does so in a script, not in a test."""
    (tmp_path / "script.py").write_text(IN_PIECES)
    subprocess.run([sys.executable, "script.py"], cwd=tmp_path, check=True, timeout=300)


def _not_compiled(x: Any) -> Any:
    """PyTorch compiles nothing of a function that breaks off in a loop."""
    for scale in range(2):
        torch._dynamo.graph_break()
        square, double = x * x, x + x
        x = square * scale + (double + square) - (x - square)
    return x


def test_what_is_not_compiled_is_computed_as_ever(gpu: ScriptGpu) -> None:
    x = torch.randn(50).round()
    assert torch.equal(torch.compile(_not_compiled)(x), _not_compiled(x))
    assert not gpu.runs


def test_a_function_that_changes_its_argument(gpu: ScriptGpu) -> None:
    def add(x: Any) -> Any:
        x.add_(1)
        return x * 2

    x = torch.zeros(300)
    assert torch.equal(torch.compile(add)(x), torch.full((300,), 2.0))
    assert torch.equal(x, torch.ones(300))


def test_gradients_are_computed_by_kernels(gpu: ScriptGpu) -> None:
    layers = torch.nn
    model = layers.Sequential(layers.LayerNorm(64), layers.GELU(), layers.LayerNorm(64)).cuda()
    x = torch.randn(16, 64, device="cuda")
    model(x).square().sum().backward()
    expected = [one.grad.clone() for one in model.parameters()]
    model.zero_grad()
    loss = torch.compile(model)(x).square().sum()
    forward = len(gpu.runs)
    loss.backward()
    assert 0 < forward < len(gpu.runs)
    for one, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(one.grad, gradient)


@pytest.mark.parametrize("asked", [None, "bfloat16"])
def test_autocast_computes_in_the_type_that_cuda_would(gpu: ScriptGpu, asked: str | None) -> None:
    layer, x = torch.nn.Linear(32, 32).cuda(), torch.randn(8, 32, device="cuda")

    def apply(x: Any) -> Any:
        with torch.autocast("cuda", dtype=asked and getattr(torch, asked)):
            return layer(x)

    kinds = {apply(x).dtype, torch.compile(apply)(x).dtype}
    assert kinds == {torch.float16 if asked is None else torch.bfloat16}


def test_gradients_within_a_function(gpu: ScriptGpu) -> None:
    def gradient(x: Any) -> Any:
        return torch.func.grad(lambda one: (one.sin() * one).sum())(x)

    x = torch.randn(300)
    torch.testing.assert_close(torch.compile(gradient)(x), x.cos() * x + x.sin())
    assert gpu.runs


def test_what_a_library_computes_is_named(gpu: ScriptGpu) -> None:
    a, b = torch.randn(64, 32), torch.randn(32, 48)
    done = torch.compile(lambda: torch.relu(a @ b))()
    torch.testing.assert_close(done, torch.relu(a @ b))
    assert gpu.not_simulated == {"aten.mm": 1}
    assert "computed by PyTorch, in no time: 1 aten.mm" in repr(gpu)


@pytest.mark.parametrize("tune", [False, True])
def test_max_autotune_writes_products_itself(tune: bool) -> None:
    """Of the second product, too, a configuration is chosen that fits."""
    with smlab.simulated("h100-sxm", tune=tune) as gpu:
        a, b, c = (torch.randn(64, 64).half(), torch.randn(64, 64).half(), torch.randn(64, 32).half())
        done = torch.compile(lambda a, b, c: torch.relu(a @ b) @ c, mode="max-autotune")(a, b, c)
        torch.testing.assert_close(done, torch.relu(a @ b) @ c, rtol=1e-2, atol=0.1)
        assert not gpu.not_simulated
        assert (len(gpu.runs) > 2) is tune  # each configuration has its own


def test_what_asks_for_cuda_graphs_has_launches(gpu: ScriptGpu) -> None:
    x, function = torch.randn(20, 300), torch.compile(_softmax, mode="reduce-overhead")
    for _ in range(3):
        torch.testing.assert_close(function(x), _softmax(x))
    assert len(gpu.runs) == 3


def test_flex_attention(gpu: ScriptGpu) -> None:
    attention: Any = pytest.importorskip("torch.nn.attention.flex_attention")
    q, k, v = (torch.randn(1, 2, 128, 32).half() for _ in range(3))

    def causal(score: Any, batch: Any, head: Any, query: Any, key: Any) -> Any:
        return torch.where(query >= key, score, -float("inf"))

    done = torch.compile(attention.flex_attention)(q, k, v, score_mod=causal)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(done, expected, rtol=1e-2, atol=1e-2)
    assert gpu.runs
    assert not gpu.not_simulated


def test_each_gpu_has_code_of_its_own_and_none_is_left() -> None:
    twice = torch.compile(lambda x: x * 2)
    machine_code = []
    for name in ("a100-40", "h100-sxm"):
        with smlab.simulated(name) as gpu:
            assert torch.equal(twice(torch.ones(5000)), torch.full((5000,), 2.0))
            machine_code.append([one.text for one in gpu.runs[0].instructions])
    assert machine_code[0] != machine_code[1]
    assert not torch.cuda.is_available()
    assert torch.equal(twice(torch.ones(3)), torch.full((3,), 2.0))
    assert torch.ones(1).device.type == "cpu"


def test_another_pytorch_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._inductor.runtime.benchmarking as benchmarking

    monkeypatch.delattr(benchmarking, "Benchmarker")
    gpu = smlab.simulated("a100-40")
    with pytest.warns(UserWarning, match="^torch.compile: "):
        gpu.start()
    with gpu, pytest.raises(SmlabError, match=r"^torch.compile: .*expected PyTorch 2.13"):
        torch.compile(_softmax)


def test_products_may_have_a_wider_type_than_their_factors(gpu: ScriptGpu) -> None:
    """`out_dtype`, which PyTorch's CPU has not. Sums of many numbers show in which type they are made."""
    a = torch.full((4, 4096), 1.001, dtype=torch.bfloat16, device="cuda")
    b, c = torch.ones(4096, 2, dtype=torch.bfloat16, device="cuda"), torch.ones(4, 2, dtype=torch.bfloat16)
    for made in (torch.mm(a, b, out_dtype=torch.float32), torch.mm(a, b, torch.float32)):
        assert made.dtype == torch.float32
        assert torch.equal(made, torch.full((4, 2), 4096.0))
    assert torch.equal(torch.addmm(c, a, b, out_dtype=torch.float32), torch.full((4, 2), 4097.0))
    assert torch.mm(a, b).dtype == torch.bfloat16


def test_a_cuda_graph_is_replayed(gpu: ScriptGpu) -> None:
    """While it is captured nothing is launched or changed. A replay takes what lies in its inputs."""
    given, total = torch.zeros(64, 64, device="cuda"), torch.zeros(64, device="cuda")
    compiled = torch.compile(lambda x: torch.softmax(x * 2, -1))
    compiled(given)  # compiled before, as scripts do
    graph, launches = torch.cuda.CUDAGraph(), len(gpu.runs)
    with torch.cuda.graph(graph):
        made = compiled(given)
        twice = made @ made + torch.ones(64, device="cuda")
        view = twice.t()[:2]
        total.add_(view.sum(0))
        largest, _ = twice.max(dim=1)
    assert len(gpu.runs) == launches
    assert torch.equal(total, torch.zeros(64))
    for seed in (1, 2):
        torch.manual_seed(seed)
        given.copy_(torch.randn(64, 64))
        before = total.clone()
        graph.replay()
        wanted = torch.softmax(given * 2, -1)
        assert torch.allclose(made, wanted, atol=1e-6)
        assert torch.allclose(twice, wanted @ wanted + 1, atol=1e-5)
        assert torch.allclose(largest, twice.max(dim=1)[0])
        assert torch.allclose(total, before + twice.t()[:2].sum(0))
    assert len(gpu.runs) == launches + 2


def test_a_number_cannot_be_read_while_a_graph_is_captured(gpu: ScriptGpu) -> None:
    x, graph = torch.ones(4, device="cuda"), torch.cuda.CUDAGraph()
    graph.capture_begin()
    assert torch.cuda.is_current_stream_capturing()
    with pytest.raises(RuntimeError, match="a number is read from the GPU while a CUDA graph is captured"):
        x.sum().item()
    graph.capture_end()
    assert not torch.cuda.is_current_stream_capturing()


class _SaysWhere(torch.autograd.Function):
    """Writes down where its tensors lie, forward and backward."""

    seen: list[tuple[str, bool]] = []  # noqa: RUF012  (PyTorch's own way: no object of it is ever made)

    @staticmethod
    def forward(_: Any, x: Any) -> Any:
        _SaysWhere.seen.append((str(x.device), x.is_cuda))
        return x * 2

    @staticmethod
    def backward(_: Any, given: Any) -> Any:
        _SaysWhere.seen.append((str(given.device), torch.zeros(2, device=given.device).is_cuda))
        return given * 2


@pytest.mark.parametrize("by", ["grad", "backward"])
def test_backward_functions_of_a_script_see_the_gpu(gpu: ScriptGpu, by: str) -> None:
    """Those of Liger ask how many SMs it has, and took one block for a CPU."""
    _SaysWhere.seen.clear()
    x = torch.ones(3, device="cuda", requires_grad=True)
    total = _SaysWhere.apply(x).sum()
    if by == "grad":
        torch.autograd.grad(total, x)
    else:
        total.backward()
    assert _SaysWhere.seen == [("cuda:0", True)] * 2
    assert torch.autograd.function.BackwardCFunction.apply.__name__ == "apply"


def test_operators_of_a_script_see_the_gpu() -> None:
    seen = []

    @torch.library.custom_op("smlab_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        seen.append(str(x.device))
        return x * 2

    with smlab.simulated("a100-40"):
        assert torch.equal(twice(torch.ones(3, device="cuda")), torch.full((3,), 2.0))
        torch.ops.smlab_test.twice(torch.ones(3, device="cuda"))
    twice(torch.ones(3))
    assert seen == ["cuda:0", "cuda:0", "cpu"]


def test_generators_of_random_numbers_are_of_the_gpu(gpu: ScriptGpu) -> None:
    def drawn() -> Any:
        generator = torch.Generator(device="cuda")
        assert str(generator.device) == "cuda"
        assert isinstance(generator, torch.Generator)
        return torch.randn(4, generator=generator.manual_seed(3), device="cuda")

    assert torch.equal(drawn(), drawn())
    assert isinstance(torch.default_generator, torch.Generator)
