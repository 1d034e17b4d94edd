"""Names that drivers, profilers and tuners give to cards find their descriptions, and no other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from smlab.hw_bench.gpu.descriptions import list_gpus, load_gpu
from smlab.hw_bench.gpu.devices import gpu_called, is_called, words_of

NAMES = {
    "Tesla P100-PCIE-16GB": "p100",
    "Tesla V100-PCIE-32GB": "v100",
    "Tesla V100-PCIE-16GB": "v100",
    "Tesla V100-SXM2-32GB": "v100-sxm2",
    "Tesla V100-SXM2-16GB": "v100-sxm2",
    "NVIDIA TITAN V": "titan-v",
    "TITAN RTX": "titan-rtx",
    "Tesla T4": "t4",
    "NVIDIA T4": "t4",
    "Tesla P4": "p4",
    "GeForce GTX 1080 Ti": "gtx-1080-ti",
    "NVIDIA GeForce RTX 2060": "rtx-2060",
    "NVIDIA GeForce RTX 2060 SUPER": "rtx-2060-super",
    "NVIDIA GeForce RTX 2070 SUPER": "rtx-2070-super",
    "GeForce RTX 2080": "rtx-2080",
    "NVIDIA GeForce RTX 2080 Ti": "rtx-2080-ti",
    "RTX2080Ti": None,  # one word: the model's number does not stand apart
    "2080Ti": "rtx-2080-ti",
    "NVIDIA GeForce RTX 3060": "rtx-3060",
    "NVIDIA GeForce RTX 3060 Laptop GPU": "rtx-3060-laptop",
    "NVIDIA GeForce RTX 3060 Ti": None,
    "NVIDIA GeForce RTX 3080 Ti": None,
    "NVIDIA GeForce RTX 3080 12GB": None,
    "NVIDIA GeForce RTX 3090": "rtx-3090",
    "NVIDIA RTX A4000": "rtx-a4000",
    "NVIDIA RTX A6000": "a6000",
    "NVIDIA RTX 6000 Ada Generation": None,
    "NVIDIA A10": "a10",
    "NVIDIA A100-PCIE-40GB": "a100-40",
    "NVIDIA A100 80GB PCIe": "a100-80",
    "NVIDIA A100-SXM4-40GB": "a100-sxm4-40",
    "NVIDIA A100-SXM4-80GB": "a100-sxm4-80",
    "NVIDIA A100": None,  # two memories, two forms: nobody can tell
    "NVIDIA L40S": "l40s",
    "NVIDIA L40": None,
    "NVIDIA H100 PCIe": "h100-pcie",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA H200": "h200",
    "NVIDIA B200": "b200",
    "AMD Instinct MI250X": None,
    "": None,
}


@pytest.mark.parametrize(("device", "name"), NAMES.items())
def test_a_devices_name_finds_its_description(device: str, name: str | None) -> None:
    found = gpu_called(device)
    assert (found and found.name) == name


@pytest.mark.parametrize("name", list_gpus())
def test_every_description_is_found_by_its_own_title_and_by_no_others(name: str) -> None:
    gpu = load_gpu(name)
    assert gpu_called(gpu.title) is gpu
    others = [load_gpu(other) for other in list_gpus() if other != name]
    assert not any(words_of(other.title) == words_of(gpu.title) for other in others)


def test_a_users_own_description_comes_first() -> None:
    mine = replace(load_gpu("rtx-3090"), name="mine", title="NVIDIA GeForce RTX 3080 12 GB", aliases=())
    assert gpu_called("NVIDIA GeForce RTX 3080 12GB", [mine]) is mine
    assert is_called(mine, "GeForce RTX 3080")
    assert not is_called(mine, "GeForce RTX 3080 Ti")
    own = replace(load_gpu("t4"), name="my-t4")
    assert gpu_called("Tesla T4", [own]) is own
