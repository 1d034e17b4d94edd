"""CUDA graphs of PyTorch on a simulated GPU: what a script captures is written down, and replayed.

As on a real GPU a capture launches no kernel and changes no tensor that was there before it. What operators
of PyTorch return is computed once, so that it has a shape and a place; a replay computes it again into that
place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from smlab.sim.frontends.triton_driver import SimulatedDriver


def graph_answers(driver: SimulatedDriver) -> dict[str, Any]:
    """What takes the place of ``torch.cuda``'s classes and functions, by their names."""
    graph = type("CUDAGraph", (_Graph,), {"driver": driver})
    return {
        "CUDAGraph": graph,
        "graph": _Capture,
        "graph_pool_handle": lambda: (0, 0),
        "is_current_stream_capturing": lambda: driver.captured is not None,
    }


class _Graph:
    """Steps in the order in which they were captured."""

    driver: SimulatedDriver

    def __init__(self, keep_graph: bool = False) -> None:
        self._steps: list[Callable[[], object]] = []
        self._mode: Any = None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        if self.driver.captured is not None:
            raise RuntimeError("a CUDA graph is being captured already")
        self._steps.clear()
        self.driver.captured, self._mode = self._steps, _writing_down(self._steps)
        self._mode.__enter__()

    def capture_end(self) -> None:
        self._mode.__exit__(None, None, None)
        self.driver.captured = None

    def replay(self) -> None:
        import torch

        with torch.no_grad():
            for step in self._steps:
                step()

    def instantiate(self) -> None:
        """Nothing is left to do."""

    def reset(self) -> None:
        self._steps.clear()

    def pool(self) -> tuple[int, int]:
        return 0, 0


class _Capture:
    """``with torch.cuda.graph(graph):``"""

    def __init__(self, cuda_graph: _Graph, pool: Any = None, stream: Any = None, **_: Any) -> None:
        self._graph = cuda_graph

    def __enter__(self) -> None:
        self._graph.capture_begin()

    def __exit__(self, *_: object) -> None:
        self._graph.capture_end()


def _writing_down(steps: list[Callable[[], object]]) -> Any:
    """A mode that appends what operators do to ``steps``."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class WritingDown(TorchDispatchMode):  # type: ignore[misc,unused-ignore]
        is_of_simulated_gpu = True

        @classmethod
        def is_infra_mode(cls) -> bool:
            return True  # PyTorch would not run what it has compiled

        def __torch_dispatch__(
            self, operator: Any, types: Any, arguments: Any = (), options: Any = None
        ) -> Any:
            options = options or {}
            if operator.overloadpacket.__name__ == "_local_scalar_dense":
                raise RuntimeError("a number is read from the GPU while a CUDA graph is captured")
            if operator.is_view:
                return operator(*arguments, **options)
            written = list(_written(operator, arguments, options))
            returns = operator._schema.returns
            if written and all(one.alias_info is not None for one in returns):
                steps.append(partial(operator, *arguments, **options))
                return None if not returns else written[0] if len(returns) == 1 else tuple(written)
            made = operator(*arguments, **options)
            if not operator.overloadpacket.__name__.startswith("empty"):
                steps.append(partial(_again, operator, arguments, options, made))
            return made

    return WritingDown()


def _written(operator: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Iterator[Any]:
    """The tensors that an operator changes, in the order of its parameters."""
    for place, parameter in enumerate(operator._schema.arguments):
        if parameter.alias_info is not None and parameter.alias_info.is_write:
            yield arguments[place] if place < len(arguments) else options.get(parameter.name)


def _again(operator: Any, arguments: tuple[Any, ...], options: dict[str, Any], made: Any) -> None:
    """Compute an operator's results anew, into where they lie."""
    import torch

    anew = operator(*arguments, **options)
    several = isinstance(made, tuple | list)
    for old, new in zip(made if several else (made,), anew if several else (anew,), strict=True):
        if torch.is_tensor(old):
            old.copy_(new)
