"""A GPU of each architecture, one more from a description of our own where no board is described yet."""

from collections.abc import Callable
from pathlib import Path

import pytest

from smlab import Gpu, load_gpu

BOARDS = {
    "sm_75": "t4",
    "sm_80": "a100-40",
    "sm_86": "rtx-3090",
    "sm_89": "rtx-4090",
    "sm_90": "h100-pcie",
    "sm_100": "b200",
}
OWN = """
title = "A card of compute capability 12.0"
extends = "b200"
compute_capability = "12.0"
same_card = true
"""


@pytest.fixture(scope="session")
def gpu_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Gpu]:
    path: Path = tmp_path_factory.mktemp("boards") / "card.toml"
    path.write_text(OWN)

    def gpu(architecture: str) -> Gpu:
        found = load_gpu(BOARDS.get(architecture, str(path)))
        assert found.sm_architecture == architecture
        return found

    return gpu
