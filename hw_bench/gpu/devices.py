"""Which description a device's own name belongs to: what drivers, profilers and tuners write beside their
numbers.

A name is compared word by word, without the maker's and the brand's: "NVIDIA GeForce RTX 2080 Ti" is
"rtx 2080 ti". Model, suffix (Ti, SUPER, laptop) and form (PCIe, SXM) must be equal. A size of memory or a
form that one side leaves out does not part them, as long as one description alone is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from smlab.hw_bench.gpu.descriptions import Gpu, list_gpus, load_gpu

_SAID_OF_ALL: Final = frozenset(
    {"nvidia", "corporation", "graphics", "gpu", "card", "geforce", "tesla", "quadro"}
)
_FORMS: Final = frozenset({"pcie", "sxm", "nvl"})
_SIZE: Final = re.compile(r"\d+gb")


def words_of(name: str) -> frozenset[str]:
    """The words of a device's name that tell it apart from other models.

    >>> sorted(words_of("NVIDIA A100-SXM4-40GB")), sorted(words_of("Tesla V100 PCIe 32 GB"))
    (['40gb', 'a100', 'sxm'], ['32gb', 'pcie', 'v100'])
    """
    text = name.lower().replace("max-q", "maxq").replace("notebook", "laptop")
    text = re.sub(r"(\d+)\s*gi?b\b", r"\1gb", text)
    text = re.sub(r"(?<=\d)(ti|super)\b", r" \1", text)  # "2080Ti" as tools' file names have it
    words = re.split(r"[^a-z0-9.]+", text)
    return frozenset(re.sub(r"^sxm\d$", "sxm", w) for w in words if w and w not in _SAID_OF_ALL)


def is_called(gpu: Gpu, device: str) -> bool:
    """Whether ``device`` can be the name of ``gpu``: its title, its name or an alias, as above."""
    return _likeness(gpu, words_of(device)) > 0


def gpu_called(device: str, more: Iterable[Gpu] = ()) -> Gpu | None:
    """The description that a device's name belongs to; None where none does, or several as well.

    ``more`` are descriptions of the user's own, which come before the shipped ones.
    """
    words = words_of(device)
    for candidates in ([*more], [load_gpu(name) for name in list_gpus()]):
        rated = [(_likeness(gpu, words), gpu) for gpu in candidates]
        best = max((likeness for likeness, _ in rated), default=0)
        fitting = [gpu for likeness, gpu in rated if likeness == best > 0]
        if len(fitting) == 1:
            return fitting[0]
    return None


def _likeness(gpu: Gpu, words: frozenset[str]) -> int:
    """0: another card. 3: the same words; 2: one side leaves out a size of memory; 1: a form as well."""
    sizes = _sizes(words_of(gpu.title))
    best = 0
    for called in (gpu.title, gpu.name, *gpu.aliases):
        ours = words_of(called)
        best = max(best, _compare(ours if _sizes(ours) or ours == words else ours | sizes, words))
    return best


def _sizes(words: frozenset[str]) -> frozenset[str]:
    return frozenset(w for w in words if _SIZE.fullmatch(w))


def _compare(ours: frozenset[str], theirs: frozenset[str]) -> int:
    if ours == theirs:
        return 3
    optional = [_sizes(words) for words in (ours, theirs)]
    forms = [words & _FORMS for words in (ours, theirs)]
    if ours - optional[0] - forms[0] != theirs - optional[1] - forms[1]:
        return 0
    for mine, other in (optional, forms):
        if mine and other and mine != other:
            return 0
    return 2 if forms[0] == forms[1] else 1
