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
    assert gpu.seconds > 0
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
