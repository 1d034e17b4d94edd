"""Calls of published Triton libraries, and of kernels of ours in Triton, whose launches a card was given.

Each row is a name and a function that makes its tensors and gives the call. Sizes are those of language
models of 8 billion weights, or what a test of the library takes. Which rows there are was decided before any
was timed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import torch

Call = Callable[[], object]
TOKENS: Final = 8192
WIDTH: Final = 4096
INNER: Final = 14336
WORDS: Final = 128256
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32


def rows() -> Iterator[tuple[str, Callable[[], Call]]]:
    """All calls, by name."""
    for name, module, function, forward in _liger():
        yield f"liger/{name}", partial(_forward, module, function, forward)
    for name, module, function, forward in _liger_with_gradients():
        yield f"liger/{name}/backward", partial(_backward, module, function, forward)
    for name, make in FLA.items():
        yield f"fla/{name}", partial(_fla, name, make)
    for name, (compiled, shapes) in COMPILED.items():
        yield f"compiled/{name}", partial(_compiled, compiled, shapes)


def drawn(*shape: int, of: torch.dtype = BF16) -> torch.Tensor:
    """Numbers of a normal distribution."""
    return torch.randn(shape, dtype=FP32).to(of)


def _ops(module: str, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(importlib.import_module(f"liger_kernel.ops.{module}"), name).apply
    return found


def _forward(module: str, name: str, make: Callable[[], Sequence[Any]]) -> Call:
    return partial(_ops(module, name), *make())


def _backward(module: str, name: str, make: Callable[[], Sequence[Any]]) -> Call:
    """The gradients of all that the function reads."""
    given = make()
    leaves = [x.requires_grad_() for x in given if torch.is_tensor(x) and x.is_floating_point()]
    made = _ops(module, name)(*given)
    outputs = [one for one in (made if isinstance(made, tuple) else (made,)) if one.requires_grad]
    with_what = [torch.randn_like(output) for output in outputs]
    return lambda: torch.autograd.grad(outputs, leaves, with_what, allow_unused=True)


Row = tuple[str, str, str, Callable[[], Sequence[Any]]]


def _liger_with_gradients() -> Iterator[Row]:
    """Forward and backward are two rows."""
    tokens = partial(drawn, 2048, WIDTH)
    yield "rms_norm", "rms_norm", "LigerRMSNormFunction", lambda: (tokens(), drawn(WIDTH), 1e-6)
    yield (
        *("layer_norm", "layer_norm", "LigerLayerNormFunction"),
        lambda: (tokens(), drawn(WIDTH), drawn(WIDTH), 1e-6),
    )
    yield (
        *("fused_add_rms_norm", "fused_add_rms_norm", "LigerFusedAddRMSNormFunction"),
        lambda: (tokens(), tokens(), drawn(WIDTH), 1e-6),
    )
    for channels in (128, 512):
        yield (
            *(f"group_norm{channels}", "group_norm", "LigerGroupNormFunction"),
            partial(_images, channels),
        )
    yield "swiglu", "swiglu", "LigerSiLUMulFunction", lambda: (drawn(1024, INNER), drawn(1024, INNER))
    yield "geglu", "geglu", "LigerGELUMulFunction", lambda: (drawn(1024, INNER), drawn(1024, INNER))
    yield "softmax", "softmax", "LigerSoftmaxFunction", lambda: (drawn(4096, 4096),)
    yield "dyt", "dyt", "LigerDyTFunction", lambda: (tokens(), drawn(1), drawn(WIDTH), drawn(WIDTH))
    yield "relu_squared", "relu_squared", "LigerReLUSquaredFunction", lambda: (tokens(),)
    yield "poly_norm", "poly_norm", "LigerPolyNormFunction", lambda: (tokens(), drawn(3), drawn(1), 1e-6)
    yield "sparsemax", "sparsemax", "LigerSparsemaxFunction", lambda: (drawn(1024, 2048, of=FP32), -1)
    yield (
        *("neighborhood_attention", "fused_neighborhood_attention"),
        "LigerFusedNeighborhoodAttentionFunction",
        lambda: (*(drawn(2, 8, 1024, 64, of=FP16) for _ in range(3)), 7, 1),
    )


def _liger() -> Iterator[Row]:
    """Forward."""
    yield from _liger_with_gradients()
    yield (
        "rms_norm_wide",
        "rms_norm",
        "LigerRMSNormFunction",
        lambda: (drawn(1024, 16384), drawn(16384), 1e-6),
    )
    yield "rope", "rope", "LigerRopeFunction", lambda: _rotated(2048)
    yield "rope_short", "rope", "LigerRopeFunction", lambda: _rotated(256)
    yield "cross_entropy", "cross_entropy", "LigerCrossEntropyFunction", partial(_entropy, 512, WORDS)
    yield "cross_entropy_32k", "cross_entropy", "LigerCrossEntropyFunction", partial(_entropy, 2048, 32000)
    yield "kl_div", "kl_div", "LigerKLDivLossFunction", partial(_distributions, 1024)
    yield "jsd", "jsd", "LigerJSDFunction", partial(_distributions, 1024)
    yield "tvd", "tvd", "LigerTVDLossFunction", partial(_distributions, 1024)
    yield (
        *("embedding", "experimental.embedding", "LigerEmbeddingFunction"),
        lambda: (drawn(32000, 1024), torch.randint(0, 32000, (4, 2048))),
    )


def _images(channels: int) -> Sequence[Any]:
    """64 of 1,024 places, and groups of four channels."""
    weights = (drawn(channels, of=FP32) for _ in range(2))
    return (drawn(64, channels, 1024, of=FP32), *weights, channels, channels // 4, 1e-6)


def _rotated(length: int) -> Sequence[torch.Tensor]:
    q, k = (drawn(2, length, heads, 128).transpose(1, 2) for heads in (32, 8))
    return q, k, drawn(1, length, 128), drawn(1, length, 128)


def _entropy(rows: int, words: int) -> Sequence[Any]:
    return drawn(rows, words), torch.randint(0, words, (rows,)), None


def _distributions(rows: int) -> Sequence[torch.Tensor]:
    return tuple(drawn(rows, 32000, of=FP32).log_softmax(-1) for _ in range(2))


def _heads(*wide: int, length: int = 2048, heads: int = 16) -> list[torch.Tensor]:
    return [drawn(1, length, heads, width) for width in wide]


def _decays(length: int = 2048, heads: int = 16) -> torch.Tensor:
    return torch.nn.functional.logsigmoid(drawn(1, length, heads, of=FP32))


def _unit(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(x.float(), dim=-1).to(x.dtype)


def _gla() -> tuple[str, Sequence[Any], Mapping[str, Any]]:
    q, k, v, g = _heads(128, 128, 128, 128)
    return "gla.chunk_gla", (q, k, v, torch.nn.functional.logsigmoid(g)), {}


def _recurrent_gla() -> tuple[str, Sequence[Any], Mapping[str, Any]]:
    q, k, v, g = _heads(128, 128, 128, 128, length=256)
    return "gla.fused_recurrent_gla", (q, k, v, torch.nn.functional.logsigmoid(g)), {}


def _delta() -> tuple[str, Sequence[Any], Mapping[str, Any]]:
    q, k, v = _heads(128, 128, 128)
    return "delta_rule.chunk_delta_rule", (q, _unit(k), v, drawn(1, 2048, 16).sigmoid()), {}


def _gated_delta() -> tuple[str, Sequence[Any], Mapping[str, Any]]:
    q, k, v = _heads(128, 128, 128)
    beta = drawn(1, 2048, 16).sigmoid()
    return "gated_delta_rule.chunk_gated_delta_rule", (q, _unit(k), v, _decays(), beta), {}


def _simple_gla() -> tuple[str, Sequence[Any], Mapping[str, Any]]:
    return "simple_gla.chunk_simple_gla", _heads(128, 128, 128), {"g": _decays()}


def _retention() -> tuple[str, Sequence[Any], Mapping[str, Any]]:
    return "retention.chunk_retention", _heads(128, 128, 128), {}


def _linear() -> tuple[str, Sequence[Any], Mapping[str, Any]]:
    return "linear_attn.chunk_linear_attn", _heads(128, 128, 128), {"normalize": False}


def _attention() -> tuple[str, Sequence[Any], Mapping[str, Any]]:
    return "attn.parallel_attn", _heads(128, 128, 128), {}


def _forgetting() -> tuple[str, Sequence[Any], Mapping[str, Any]]:
    return "forgetting_attn.parallel_forgetting_attn", (*_heads(64, 64, 64), _decays()), {}


def _rwkv() -> tuple[str, Sequence[Any], Mapping[str, Any]]:
    r, k, v, w = _heads(64, 64, 64, 64)
    return "rwkv6.chunk_rwkv6", (r, k, v, torch.nn.functional.logsigmoid(w), drawn(16, 64)), {}


def _hgrn() -> tuple[str, Sequence[Any], Mapping[str, Any]]:
    x, g = drawn(4, 2048, 1024), torch.nn.functional.logsigmoid(drawn(4, 2048, 1024))
    return "hgrn.chunk_hgrn", (x, g), {}


FLA: Final = {
    "chunk_gla": _gla,
    "recurrent_gla": _recurrent_gla,
    "delta_rule": _delta,
    "gated_delta_rule": _gated_delta,
    "simple_gla": _simple_gla,
    "retention": _retention,
    "linear_attention": _linear,
    "attention": _attention,
    "forgetting_attention": _forgetting,
    "rwkv6": _rwkv,
    "hgrn": _hgrn,
}


def _fla(name: str, make: Callable[[], tuple[str, Sequence[Any], Mapping[str, Any]]]) -> Call:
    """An operator of flash-linear-attention."""
    what, given, more = make()
    module, _, function = what.rpartition(".")
    return partial(getattr(importlib.import_module(f"fla.ops.{module}"), function), *given, **more)


def _residual_norm(x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
    total = (x + y).float()
    return total.to(x.dtype), (total * (total.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()).to(
        x.dtype
    ) * weight


def _gate(x: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return torch.nn.functional.silu(a) * b


def _masked_softmax(x: torch.Tensor) -> torch.Tensor:
    rows = torch.arange(x.shape[-2])[:, None]
    return x.masked_fill(torch.arange(x.shape[-1]) > rows, float("-inf")).float().softmax(-1).to(x.dtype)


def _rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return x * cosine + torch.cat((-b, a), -1) * sine


def _adam(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
    weight, gradient, first, second = given
    first = first * 0.9 + gradient * 0.1
    second = second * 0.95 + gradient * gradient * 0.05
    return weight - 1e-3 * (first / (second.sqrt() + 1e-8) + 0.1 * weight), first, second


COMPILED: Final[Mapping[str, tuple[Callable[..., Any], Sequence[tuple[tuple[int, ...], torch.dtype]]]]] = {
    "residual_norm": (_residual_norm, [((2048, 4096), BF16), ((2048, 4096), BF16), ((4096,), BF16)]),
    "gate": (_gate, [((1024, 2 * INNER), BF16)]),
    "masked_softmax": (_masked_softmax, [((16, 1024, 1024), BF16)]),
    "rotate": (_rotate, [((2, 32, 2048, 128), BF16), ((2048, 128), BF16), ((2048, 128), BF16)]),
    "adam": (_adam, [((4096, 2048), FP32)] * 4),
    "column_sums": (lambda x: x.float().sum(0), [((8192, 4096), BF16)]),
    "batch_statistics": (
        lambda x: torch.var_mean(x.float(), dim=(0, 2, 3), correction=0),
        [((32, 128, 56, 56), FP16)],
    ),
    "transpose_add": (lambda x, y: x.T.contiguous() + y, [((4096, 4096), BF16), ((4096, 4096), BF16)]),
    "pool": (lambda x: torch.nn.functional.avg_pool2d(x, 3, 2), [((32, 64, 112, 112), FP16)]),
    "argmax": (lambda x: x.argmax(-1), [((512, 32000), BF16)]),
    "running_sum": (lambda x: x.float().cumsum(-1), [((4096, 2048), BF16)]),
    "gelu_tanh": (
        lambda x, b: torch.nn.functional.gelu((x + b).float(), approximate="tanh").to(BF16),
        [((2048, INNER), BF16), ((INNER,), BF16)],
    ),
}


def _compiled(function: Callable[..., Any], shapes: Sequence[tuple[tuple[int, ...], torch.dtype]]) -> Call:
    """A function by ``torch.compile``."""
    return partial(torch.compile(function), *(drawn(*shape, of=kind) for shape, kind in shapes))
