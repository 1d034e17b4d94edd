"""A description that is wrong is noticed: no share of a roof above 105 % without a word of which constant to
look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.profiles.work.kernel_work import KernelWork
from smlab.models.projection.peak_rates import maxima_of
from smlab.models.projection.projection import project
from smlab.models.roofline.ceilings import ceilings
from smlab.models.roofline.violations import CONSTANTS, bound_violations

CARDS = {
    "rtx-3090": "a6000",
    "rtx-3070": "rtx-3090",
    "rtx-4090": "l4",
    "a100-sxm4-80": "a100-40",
    "titan-rtx": "rtx-2080-ti",
}
WRONG = ("sms", "boost", "bandwidth", "nothing")


def described(folder: Path, card: str, parent: str, wrong: str) -> Path:
    """The card in ten lines; one of its figures is too small, as of a smaller board."""
    gpu = load_gpu(card)
    sms, boost = gpu.integer("gpu.sms"), gpu.number("clock.boost_hz")
    bandwidth = gpu.number("dram.bandwidth_bytes_per_s")
    sms = sms * 2 // 3 if wrong == "sms" else sms
    boost = boost * 0.75 if wrong == "boost" else boost
    bandwidth = bandwidth * 0.6 if wrong == "bandwidth" else bandwidth
    of = 'kind = "spec", source = "maker"'
    path = folder / f"my-{card}-{wrong}.toml"
    path.write_text(
        f'title = "Mine"\nextends = "{parent}"\n[sources]\nmaker = "the maker\'s page, as I remember it"\n'
        f'[gpu]\nsms = {{ value = {sms}, unit = "SMs", {of} }}\n'
        f'[clock]\nboost_hz = {{ value = {boost}, unit = "Hz", {of} }}\n'
        f'[dram]\nbandwidth_bytes_per_s = {{ value = {bandwidth}, unit = "bytes/s", {of} }}\n'
    )
    return path


def at_the_roofs(card: str) -> KernelWork:
    """Kernels that reach each roof of the real card: arithmetic, issue, shared memory, DRAM."""
    top = maxima_of(load_gpu(card))
    shared = top.shared_bytes_per_s / 128
    columns: list[dict[str, Any]] = [
        {"fp32_fma": top.fma_flops_per_s[1] / 2},
        {"instructions": top.issue_per_s},
        {"shared_wavefronts": shared, "shared_ideal_wavefronts": shared},
        {"dram_bytes": top.bandwidth[2]},
    ]
    zero = dict.fromkeys({name for column in columns for name in column}, 0.0)
    rows = [{**zero, **column} for column in columns]
    return KernelWork.of(
        ["arithmetic", "issue", "shared", "dram"],
        [1.0] * 4,
        **{name: [r[name] for r in rows] for name in zero},
    )


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize(("card", "parent"), CARDS.items())
def test_a_card_of_ten_lines_gives_no_share_above_105_percent_unnoticed(
    tmp_path: Path, card: str, parent: str, wrong: str
) -> None:
    try:
        gpu = load_gpu(described(tmp_path, card, parent, wrong))
    except SmlabError as error:
        assert "\n" not in str(error)  # noqa: PT017 - refused is as good as told
        return
    work = at_the_roofs(card)
    found = ceilings(work, gpu)
    beyond = np.flatnonzero(found.bound_s > 1.05 * work.seconds)
    if wrong != "nothing":
        assert len(beyond), "a figure too small makes some kernel too fast"
    told = {v.index: v.reason for v in bound_violations(found, maxima_of(gpu, "spec"))}
    flags = project(work, gpu, load_gpu("a100-40"))
    for i in beyond.tolist():
        keys = CONSTANTS[str(found.limiter[i])]
        assert any(f"{key} = " in told[i] for key in keys), told[i]
        assert gpu.name in told[i]
        row = flags.index.tolist().index(i)
        assert any("look at " in flag for flag in flags.flags[row])


def test_the_shipped_card_itself_is_below_all_its_roofs() -> None:
    for card in CARDS:
        assert not ceilings(at_the_roofs(card), load_gpu(card)).exceeds.any(), card
