"""Forward kernels of Liger on the simulated GPU, beside what its authors measured.

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
from pathlib import Path
from typing import Any, Final

from smlab.hw_bench.gpu.descriptions import load_gpu

EVENTS: Final = "launch.events_overhead_s"
CARDS: Final = {
    "NVIDIA A100-SXM4-80GB": "a100-sxm4-80",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA H100 PCIe": "h100-pcie",
    "NVIDIA GeForce RTX 3090": "rtx-3090",
}
Row = Mapping[str, str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("table", type=Path, help="all_benchmark_data.csv")
    parser.add_argument("kernel", choices=sorted(CALLS), help="by its name in the table")
    parser.add_argument("--card", choices=sorted(CARDS), required=True, help="by its name in the table")
    parser.add_argument(
        "--provider", choices=("liger", "torch_compile"), default="liger", help="whose kernel"
    )
    parser.add_argument("--most", type=int, default=1 << 40, help="leave out rows of a greater size")
    given = parser.parse_args()
    gpu = load_gpu(CARDS[given.card])
    front_door = importlib.import_module("smlab")  # which no room imports
    front_door.simulated(gpu, sms=4, complete=False).start()
    testing = importlib.import_module("triton.testing")
    for row in _rows(given.table, given.kernel, given.provider, given.card):
        if int(row["x_value"]) > given.most:
            continue
        simulated_us = testing.do_bench(CALLS[given.kernel](row)) * 1e3 + gpu.number(EVENTS) * 1e6
        measured_us = float(row["y_value_50"]) * 1e3
        told = {"x": f"{row['x_name']}={row['x_value']}", "simulated_us": round(simulated_us, 2)}
        print(json.dumps(told | {"measured_us": round(measured_us, 2)}), flush=True)


def _rows(table: Path, kernel: str, provider: str, card: str) -> Iterator[Row]:
    """Forward times of one provider's kernel, in the table's order."""
    wanted = {
        "kernel_name": kernel,
        "gpu_name": card,
        "metric_name": "speed",
        "kernel_provider": provider,
        "kernel_operation_mode": "forward",
    }
    with table.open() as file:
        yield from (row for row in csv.DictReader(file) if wanted.items() <= row.items())


def _function(module: str, name: str) -> Callable[..., object]:
    call: Callable[..., object] = getattr(importlib.import_module(f"liger_kernel.ops.{module}"), name).apply
    return call


def _tensor(*shape: int, like: Mapping[str, Any]) -> Any:
    """Numbers of a row's type; times do not depend on their values."""
    torch = importlib.import_module("torch")
    return torch.full(shape, 0.5, dtype=getattr(torch, str(like.get("dtype", "float32")).split(".")[-1]))


def _asked(row: Row) -> tuple[dict[str, Any], int]:
    return json.loads(row["extra_benchmark_config_str"]), int(row["x_value"])


def _rms_norm(row: Row) -> Callable[[], object]:
    asked, width = _asked(row)
    x, weight = _tensor(asked["M"], width, like=asked), _tensor(width, like=asked)
    call = _function("rms_norm", "LigerRMSNormFunction")
    return lambda: call(x, weight, 1e-6)


def _layer_norm(row: Row) -> Callable[[], object]:
    asked, width = _asked(row)
    x, weight, bias = (_tensor(*shape, like=asked) for shape in ((asked["M"], width), (width,), (width,)))
    call = _function("layer_norm", "LigerLayerNormFunction")
    return lambda: call(x, weight, bias, 1e-6)


def _rope(row: Row) -> Callable[[], object]:
    asked, size = _asked(row)
    by_width = row["x_name"] == "H"
    length = asked["seq_len"] if by_width else size
    wide = (size if by_width else asked["hidden_size"]) // asked["num_q_heads"]
    heads = (asked["num_q_heads"], asked["num_kv_heads"])
    q, k = (_tensor(1, length, many, wide, like=asked).transpose(1, 2) for many in heads)
    cosine, sine = (_tensor(1, length, wide, like=asked) for _ in range(2))
    call = _function("rope", "LigerRopeFunction")
    return lambda: call(q, k, cosine, sine)


def _softmax(row: Row) -> Callable[[], object]:
    asked, width = _asked(row)
    x, call = _tensor(asked["M"], width, like=asked), _function("softmax", "LigerSoftmaxFunction")
    return lambda: call(x)


def _relu_squared(row: Row) -> Callable[[], object]:
    asked, width = _asked(row)
    x, call = _tensor(asked["M"], width, like=asked), _function("relu_squared", "LigerReLUSquaredFunction")
    return lambda: call(x)


def _distance(module: str, name: str, *more: object) -> Callable[[Row], Callable[[], object]]:
    """Of two distributions over a vocabulary."""

    def make(row: Row) -> Callable[[], object]:
        asked, width = _asked(row)
        p, q = (_tensor(asked["B"] * asked["T"], width, like=asked) for _ in range(2))
        call = _function(module, name)
        return lambda: call(p, q, *more)

    return make


def _embedding(row: Row) -> Callable[[], object]:
    """Of numbers drawn at random, as there."""
    asked, many = _asked(row)
    torch = importlib.import_module("torch")
    torch.manual_seed(0)
    weight, chosen = _tensor(many, asked["D"], like=asked), torch.randint(0, many, (asked["B"], asked["T"]))
    if row["kernel_provider"] == "torch_compile":
        look_up = torch.compile(torch.nn.functional.embedding)
        look_up(chosen, weight)  # it is compiled before the clock starts
        return lambda: look_up(chosen, weight)
    call = _function("experimental.embedding", "LigerEmbeddingFunction")
    return lambda: call(weight, chosen)


CALLS: Final[Mapping[str, Callable[[Row], Callable[[], object]]]] = {
    "rms_norm": _rms_norm,
    "layer_norm": _layer_norm,
    "rope": _rope,
    "softmax": _softmax,
    "relu_squared": _relu_squared,
    "embedding": _embedding,
    "tvd": _distance("tvd", "LigerTVDLossFunction", None, "batchmean", -100),
    "kl_div": _distance("kl_div", "LigerKLDivLossFunction", "batchmean", False, 1e-10),
}
"""What the benchmark of each kernel times."""


if __name__ == "__main__":
    main()
