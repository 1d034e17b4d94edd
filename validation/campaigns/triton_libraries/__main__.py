"""Kernels of Liger on the simulated GPU, forward or backward, beside what its authors measured.

They are timed as there (``triton.testing.do_bench``).

Needs PyTorch (the CPU's), Triton, a release of ``liger-kernel`` on the path, and the table that its source
distribution carries, ``benchmark/data/all_benchmark_data.csv``. Nothing of either is in this repository.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from smlab.hw_bench.gpu.descriptions import load_gpu

EVENTS: Final = "launch.events_overhead_s"
CARDS: Final = {
    "NVIDIA A100-SXM4-80GB": "a100-sxm4-80",
    "NVIDIA B200": "b200",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA H100 PCIe": "h100-pcie",
    "NVIDIA GeForce RTX 3090": "rtx-3090",
}
Row = Mapping[str, str]
Call = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and what it is called with."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("table", type=Path, help="all_benchmark_data.csv")
    parser.add_argument("kernel", choices=sorted(CALLS), help="by its name in the table")
    parser.add_argument("--card", choices=sorted(CARDS), required=True, help="by its name in the table")
    parser.add_argument(
        "--provider", choices=("liger", "torch_compile"), default="liger", help="whose kernel"
    )
    parser.add_argument(
        "--mode", choices=("forward", "backward"), default="forward", help="backward: of forward's graph"
    )
    parser.add_argument("--most", type=int, default=1 << 40, help="leave out rows of a greater size")
    given = parser.parse_args()
    gpu = load_gpu(CARDS[given.card])
    front_door = importlib.import_module("smlab")  # which no room imports
    front_door.simulated(gpu, sms=4, complete=False).start()
    testing = importlib.import_module("triton.testing")
    for row in _rows(given.table, given.kernel, given.provider, given.card, given.mode):
        if int(row["x_value"]) > given.most:
            continue
        function, inputs = CALLS[given.kernel](row)
        timed = _backward(function, inputs) if given.mode == "backward" else partial(function, *inputs)
        simulated_us = testing.do_bench(timed) * 1e3 + gpu.number(EVENTS) * 1e6
        measured_us = float(row["y_value_50"]) * 1e3
        told = {"x": f"{row['x_name']}={row['x_value']}", "simulated_us": round(simulated_us, 2)}
        print(json.dumps(told | {"measured_us": round(measured_us, 2)}), flush=True)


def _rows(table: Path, kernel: str, provider: str, card: str, mode: str) -> Iterator[Row]:
    """Times of one provider's kernel, in the table's order."""
    wanted = {
        "kernel_name": kernel,
        "gpu_name": card,
        "metric_name": "speed",
        "kernel_provider": provider,
        "kernel_operation_mode": mode,
    }
    with table.open() as file:
        yield from (row for row in csv.DictReader(file) if wanted.items() <= row.items())


def _backward(function: Callable[..., Any], inputs: tuple[Any, ...]) -> Callable[[], object]:
    """The gradients of all that the function reads, of a graph that is kept."""
    torch = importlib.import_module("torch")
    leaves = [x.requires_grad_() for x in inputs if torch.is_tensor(x) and x.is_floating_point()]
    made = function(*inputs)
    outputs = made if isinstance(made, tuple) else (made,)
    given = [torch.full_like(output, 0.5) for output in outputs]
    return lambda: torch.autograd.grad(outputs, leaves, given, retain_graph=True, allow_unused=True)


def _function(module: str, name: str) -> Callable[..., Any]:
    call: Callable[..., Any] = getattr(importlib.import_module(f"liger_kernel.ops.{module}"), name).apply
    return call


def _tensor(*shape: int, like: Mapping[str, Any]) -> Any:
    """Numbers of a row's type; times do not depend on their values."""
    torch = importlib.import_module("torch")
    return torch.full(shape, 0.5, dtype=getattr(torch, str(like.get("dtype", "float32")).split(".")[-1]))


def _asked(row: Row) -> tuple[dict[str, Any], int]:
    return json.loads(row["extra_benchmark_config_str"]), int(row["x_value"])


def _rms_norm(row: Row) -> Call:
    asked, width = _asked(row)
    x, weight = _tensor(asked["M"], width, like=asked), _tensor(width, like=asked)
    return _function("rms_norm", "LigerRMSNormFunction"), (x, weight, 1e-6)


def _layer_norm(row: Row) -> Call:
    asked, width = _asked(row)
    x, weight, bias = (_tensor(*shape, like=asked) for shape in ((asked["M"], width), (width,), (width,)))
    return _function("layer_norm", "LigerLayerNormFunction"), (x, weight, bias, 1e-6)


def _rope(row: Row) -> Call:
    q, k = (x.transpose(1, 2) for x in _queries_and_keys(row))
    cosine, sine = (_tensor(1, *q.shape[2:], like={"dtype": str(q.dtype)}) for _ in range(2))
    return _function("rope", "LigerRopeFunction"), (q, k, cosine, sine)


def _llama4_rope(row: Row) -> Call:
    q, k = _queries_and_keys(row)
    frequencies = _tensor(1, q.shape[1], q.shape[3] // 2, like={"dtype": "complex64"})
    return _function("llama4_rope", "LigerLlama4RopeFunction"), (q, k, frequencies)


def _queries_and_keys(row: Row) -> Iterator[Any]:
    """Of shape (1, length, heads, width of a head)."""
    asked, size = _asked(row)
    by_width = row["x_name"] == "H"
    length = asked["seq_len"] if by_width else size
    wide = (size if by_width else asked["hidden_size"]) // asked["num_q_heads"]
    return (_tensor(1, length, asked[heads], wide, like=asked) for heads in ("num_q_heads", "num_kv_heads"))


def _softmax(row: Row) -> Call:
    asked, width = _asked(row)
    return _function("softmax", "LigerSoftmaxFunction"), (_tensor(asked["M"], width, like=asked),)


def _relu_squared(row: Row) -> Call:
    asked, width = _asked(row)
    return _function("relu_squared", "LigerReLUSquaredFunction"), (_tensor(asked["M"], width, like=asked),)


def _group_norm(row: Row) -> Call:
    asked, channels = _asked(row)
    x = _tensor(asked["M"], channels, asked["H"], like=asked)
    weight, bias = (_tensor(channels, like=asked) for _ in range(2))
    groups = channels // asked["channels_per_group"]
    call = _function("group_norm", "LigerGroupNormFunction")
    return call, (x, weight, bias, channels, groups, asked["eps"])


def _megatron_rms_norm(row: Row) -> Call:
    asked, width = _asked(row)
    shapes = ((asked["S"], asked["B"], width), (width,))
    x, weight = (_tensor(*shape, like={"dtype": "bfloat16"}) for shape in shapes)
    return _function("rms_norm", "LigerRMSNormFunction"), (x, weight, 1e-6, 0.0, "llama", False)


def _megatron_swiglu(row: Row) -> Call:
    asked, width = _asked(row)
    both = _tensor(asked["S"], asked["B"], 2 * width, like={"dtype": "bfloat16"})
    return _function("swiglu", "LigerFusedGateUpSiLUMulFunction"), (both,)


def _distance(module: str, name: str, *more: object) -> Callable[[Row], Call]:
    """Of two distributions over a vocabulary."""

    def make(row: Row) -> Call:
        asked, width = _asked(row)
        p, q = (_tensor(asked["B"] * asked["T"], width, like=asked) for _ in range(2))
        return _function(module, name), (p, q, *more)

    return make


def _embedding(row: Row) -> Call:
    """Of numbers drawn at random, as there."""
    asked, many = _asked(row)
    torch = importlib.import_module("torch")
    torch.manual_seed(0)
    weight, chosen = _tensor(many, asked["D"], like=asked), torch.randint(0, many, (asked["B"], asked["T"]))
    if row["kernel_provider"] == "torch_compile":
        look_up = torch.compile(torch.nn.functional.embedding)
        look_up(chosen, weight)  # it is compiled before the clock starts
        return look_up, (chosen, weight)
    return _function("experimental.embedding", "LigerEmbeddingFunction"), (weight, chosen)


CALLS: Final[Mapping[str, Callable[[Row], Call]]] = {
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "rope": _rope,
    "llama4_rope": _llama4_rope,
    "group_norm": _group_norm,
    "megatron_rms_norm": _megatron_rms_norm,
    "megatron_swiglu": _megatron_swiglu,
    "softmax": _softmax,
    "relu_squared": _relu_squared,
    "embedding": _embedding,
    "tvd": _distance("tvd", "LigerTVDLossFunction", None, "batchmean", -100),
    "kl_div": _distance("kl_div", "LigerKLDivLossFunction", "batchmean", False, 1e-10),
}
"""What the benchmark of each kernel times."""


if __name__ == "__main__":
    main()
