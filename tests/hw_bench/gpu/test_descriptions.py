"""The loader: what it gives, and what it refuses, each with a message that names file and key."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu import descriptions
from smlab.hw_bench.gpu.descriptions import FOLDER, list_gpus, load_gpu
from smlab.hw_bench.gpu.schema import KEYS, KINDS


def edited(tmp_path: Path, *edits: tuple[str, str], of: str = "v100") -> Path:
    """A copy of a shipped description with each regular expression replaced once; fails where one is not
    found."""
    text = (FOLDER / f"{of}.toml").read_text()
    for pattern, new in edits:
        text, count = re.subn(pattern, lambda _, new=new: new, text, count=1, flags=re.MULTILINE | re.DOTALL)
        assert count == 1, pattern
    path = tmp_path / "edited.toml"
    path.write_text(text)
    return path


def child(tmp_path: Path, text: str, name: str = "child") -> Path:
    path = tmp_path / f"{name}.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", list_gpus())
def test_every_shipped_description_loads(name: str) -> None:
    gpu = load_gpu(name)
    assert gpu.name == name
    assert gpu.title
    for key, constant in gpu.constants.items():
        assert constant.key == key
        assert constant.kind in KINDS
        assert len(constant.source) > 20, f"{key}: no citation: {constant.source}"
        assert constant.source.startswith("assumed:") == (constant.kind == "assumed")


def test_all_are_listed() -> None:
    assert list_gpus() == sorted(path.stem for path in FOLDER.glob("*.toml"))
    assert len(list_gpus()) >= 38


@pytest.mark.parametrize(
    ("alias", "name"),
    [("v100-pcie", "v100"), ("a100-pcie-40", "a100-40"), ("rtx-a6000", "a6000")],
)
def test_an_alias_names_the_same_gpu(alias: str, name: str) -> None:
    assert load_gpu(alias) is load_gpu(name)


def test_no_two_descriptions_share_a_name() -> None:
    names = [n for name in list_gpus() for n in (name, *load_gpu(name).aliases)]
    assert len(names) == len(set(names))


def test_constants_come_in_the_order_of_the_schema() -> None:
    order = [key.name for key in KEYS]
    for name in list_gpus():
        assert list(load_gpu(name).constants) == [k for k in order if load_gpu(name).has(k)]


def test_access_by_type() -> None:
    gpu = load_gpu("v100")
    assert gpu.integer("sm.max_warps") == 64
    assert isinstance(gpu.integer("clock.boost_hz"), int)
    assert gpu.number("atomic.add.base_interval_cycles") == pytest.approx(3.431)
    assert gpu.text("sm.scheduler_policy") == "glr"
    assert gpu["gpu.sms"].unit == "SMs"
    assert not gpu.has("atomic.popc_inc.latency_cycles")
    assert load_gpu("a100-40").has("atomic.popc_inc.latency_cycles")


@pytest.mark.parametrize(
    ("call", "key", "message"),
    [
        ("integer", "atomic.add.base_interval_cycles", "not a whole number"),
        ("number", "sm.scheduler_policy", "not a number"),
        ("text", "sm.max_warps", "not a name"),
        ("number", "sm.max_warp", "perhaps sm.max_warps"),
        ("number", "atomic.popc_inc.latency_cycles", "does not have it"),
    ],
)
def test_wrong_access_is_told(call: str, key: str, message: str) -> None:
    with pytest.raises(SmlabError, match=message) as caught:
        getattr(load_gpu("v100"), call)(key)
    assert str(caught.value).startswith(f"v100: {key}: ")


def test_a_gpu_can_be_pickled_and_hashed() -> None:
    gpu = load_gpu("a100-80")
    copy = pickle.loads(pickle.dumps(gpu))
    assert dict(copy.constants) == dict(gpu.constants)
    assert len({gpu, copy}) == 2


def test_with_values_replaces_and_says_so() -> None:
    gpu = load_gpu("v100")
    other = gpu.with_values({"atomic.queue_entries": 8, "sm.scheduler_policy": "lrr"}, source="command line")
    assert other.integer("atomic.queue_entries") == 8
    assert other.text("sm.scheduler_policy") == "lrr"
    constant = other["atomic.queue_entries"]
    assert (constant.kind, constant.source, constant.unit) == ("assumed", "command line", "warp-instructions")
    assert (constant.low, constant.high) == (None, None)
    assert gpu.integer("atomic.queue_entries") == 16


@pytest.mark.parametrize("value", [8, 8.0, np.int64(8), np.float64(8)])
def test_with_values_takes_a_number_in_any_dress(value: float) -> None:
    other = load_gpu("v100").with_values({"atomic.queue_entries": value}, source="a test")
    assert type(other["atomic.queue_entries"].value) is int


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"atomic.queue_entry": 8}, "atomic.queue_entry: unknown key .*perhaps atomic.queue_entries"),
        ({"atomic.queue_entries": 0}, "atomic.queue_entries: out of range .*got 0; .*from 1 to 1,048,576"),
        ({"atomic.queue_entries": 8.5}, "atomic.queue_entries: wrong type .*whole number"),
        ({"atomic.queue_entries": True}, "atomic.queue_entries: wrong type"),
        ({"atomic.queue_entries": "8"}, "atomic.queue_entries: wrong type"),
        ({"dram.latency_cycles": float("nan")}, "dram.latency_cycles: is not finite"),
        ({"sm.scheduler_policy": "a policy"}, "not a possible value .*'a policy'; expected a name"),
        ({"sm.max_warps": 62}, "not a multiple of sm.schedulers"),
        ({"atomic.popc_inc.latency_cycles": 24}, "7.0 has no ATOMS.POPC.INC"),
    ],
)
def test_with_values_checks_again(values: dict[str, int | float | str], message: str) -> None:
    with pytest.raises(SmlabError, match=message) as caught:
        load_gpu("v100").with_values(values, source="command line")
    assert str(caught.value).startswith("command line")


def test_with_values_refuses_an_unknown_kind() -> None:
    with pytest.raises(SmlabError, match=r"unknown kind .*guessed"):
        load_gpu("v100").with_values({"atomic.queue_entries": 8}, source="command line", kind="guessed")


def test_a_copy_loads_from_its_path(tmp_path: Path) -> None:
    path = edited(tmp_path)
    by_path, by_string = load_gpu(path), load_gpu(str(path))
    assert by_path.name == "edited"
    assert dict(by_path.constants) == dict(by_string.constants)
    shipped = load_gpu("v100")
    differ = {k for k, constant in by_path.constants.items() if constant != shipped[k]}
    # What an SM generation's file knows as measured on the V100 is not known of a card of another name.
    measured = {"pipe.sfu.latency_cycles", "icache.l0_bytes", "icache.l1_bytes", "launch.gap_s"}
    assert differ == {*measured, "l2.slice_bytes"}
    assert by_path["pipe.sfu.latency_cycles"].kind == "assumed"
    assert by_path["pipe.sfu.latency_cycles"].value == shipped["pipe.sfu.latency_cycles"].value


REFUSED = {
    "unknown key": ("max_warps = ", "max_warp = ", "sm.max_warp: unknown key .*perhaps sm.max_warps"),
    "unknown table": (r"^\[dram\]$", "[drum]", "drum: unknown key"),
    "missing key": (r"^max_warps = [^\n]*\n", "", "sm.max_warps: is missing .*warps"),
    "missing value": (r"max_warps = { value = 64, ", "max_warps = { ", "sm.max_warps: value is missing"),
    "missing unit": (r'(?<=value = 64, )unit = "warps", ', "", "sm.max_warps: unit is missing .*'warps'"),
    "missing kind": (
        r'(?<=unit = "warps", )kind = "spec", ',
        "",
        "sm.max_warps: kind is missing .*spec, published, measured, calibrated, assumed",
    ),
    "missing source": (
        r'(?<=unit = "warps", kind = "spec"), source = "cuda-guide-table"',
        "",
        "sm.max_warps: source is missing",
    ),
    "wrong unit": ('unit = "warps"', 'unit = "threads"', "sm.max_warps: wrong unit .*'threads'.*'warps'"),
    "unit not a string": ('unit = "warps"', "unit = 3", "sm.max_warps.unit: wrong type .*a string"),
    "boolean": ("value = 64, unit", "value = true, unit", "sm.max_warps: wrong type .*True"),
    "string for a number": ("value = 64, unit", 'value = "64", unit', "sm.max_warps: wrong type .*'64'"),
    "fraction for a whole number": (
        "value = 64, unit",
        "value = 64.5, unit",
        "sm.max_warps: wrong type .*whole",
    ),
    "not a number": ("value = 375, unit", "value = -inf, unit", "dram.latency_cycles: is not finite"),
    "no SMs": ("value = 80, unit", "value = 0, unit", "gpu.sms: out of range .*got 0; .*from 1 to 4,096 SMs"),
    "latency below 1": ("value = 19, unit", "value = 0.5, unit", "shared.load_latency_cycles: out of range"),
    "interval below 1": (
        r"(?<=\[pipe.fp32\]\ninterval_cycles = { value = )2",
        "0.5",
        "pipe.fp32.interval_cycles: out of range .*from 1 to",
    ),
    "no name": ('value = "glr"', 'value = "g t o"', "sm.scheduler_policy: .*'g t o'; expected a name"),
    "number for a name": ('value = "glr"', "value = 1", "sm.scheduler_policy: not a possible value"),
    "unknown kind": (
        'warps", kind = "spec"',
        'warps", kind = "sure"',
        "sm.max_warps: unknown kind .*'sure'.*spec",
    ),
    "unknown source": (
        r'(?<=warps", kind = "spec", source = ")cuda-guide-table',
        "cuda-guide-tabel",
        "sm.max_warps: unknown source .*perhaps cuda-guide-table",
    ),
    "assumed with a citation": (
        'warps", kind = "spec"',
        'warps", kind = "assumed"',
        "sm.max_warps: kind assumed does not go with its source",
    ),
    "spec with an assumption": (
        'kind = "assumed", source = "assumed-scheduler"',
        'kind = "spec", source = "assumed-scheduler"',
        "sm.scheduler_policy: kind spec does not go with its source",
    ),
    "empty source": (
        r'(?<=^cuda-guide-table = )"[^"]*"',
        '""',
        "sources.cuda-guide-table: is not a citation",
    ),
    "unknown field": ("low = 180", "lo = 180", "l2.latency_cycles.lo: unknown field .*perhaps low"),
    "low above the value": (
        "low = 180",
        "low = 194",
        "l2.latency_cycles.low: does not enclose the value .*194",
    ),
    "high below the value": ("high = 221", "high = 190", "l2.latency_cycles.high: does not enclose .*190"),
    "infinite high": ("high = 221", "high = inf", "l2.latency_cycles.high: is not finite"),
    "low a string": ("low = 180", 'low = "180"', "l2.latency_cycles.low: wrong type .*a number"),
    "interval of a name": (
        'value = "glr", ',
        'value = "glr", low = 1, ',
        "policy.low: a name has no interval",
    ),
    "constant not a table": (
        r"^max_warps = [^\n]*",
        "max_warps = 64",
        "sm.max_warps: is not an inline table",
    ),
    "no such group": (r"^\[banks\]\n[^\[]*", "", "banks.count: is missing"),
    "no title": (r"^title = [^\n]*\n", "", "title: missing"),
    "title not a string": (r"^title = [^\n]*", "title = 100", "title: is not a string"),
    "unknown architecture": (
        '"volta"',
        '"voltaire"',
        "architecture: unknown architecture .*'voltaire'.*volta",
    ),
    "capability not a version": ('"7.0"', '"seven"', "compute_capability: is not a version .*'seven'"),
    "aliases not a list": (r"^aliases = [^\n]*", 'aliases = "v"', "aliases: is not a list of strings"),
    "without, alone": (r"^aliases = [^\n]*", "without = []", "without: has a meaning only with extends"),
    "malformed TOML": (r"^\[gpu\]$", "[gpu", r"is not valid TOML: .*\(at line \d+, column \d+\)"),
    "popc-inc on Volta": (
        r"^\[l1\]$",
        "[atomic.popc_inc]\nlatency_cycles = { value = 24, unit = 'cycles', kind = 'assumed', "
        "source = 'assumed-control' }\n[l1]",
        "atomic.popc_inc.latency_cycles: compute capability 7.0 has no ATOMS.POPC.INC",
    ),
    "base clock above boost": ("value = 1230e6", "value = 1400e6", "clock.base_hz: exceeds clock.boost_hz"),
    "block's shared memory above the SM's": (
        r"(?<=^shared_bytes_per_block = { value = )98304",
        "98560",
        "sm.shared_bytes_per_block: exceeds sm.shared_bytes .*98560.*98304",
    ),
    "warps not shared evenly": ("value = 64, unit", "value = 62, unit", "sm.max_warps: is not a multiple"),
    "threads not the warps'": (
        "value = 2048, unit",
        "value = 1536, unit",
        "sm.max_threads: .*got 1536; .*2048",
    ),
    "L2 not slower than L1": (
        'latency_cycles = { value = 28, unit = "cycles", kind = "published", source = "jia-2018", low = 28, '
        "high = 36",
        'latency_cycles = { value = 193, unit = "cycles", kind = "published", source = "jia-2018"',
        "l2.latency_cycles: must exceed l1.latency_cycles",
    ),
    "memory not slower than L2": (
        "value = 375, unit([^}]*)low = 280, ",
        'value = 190, unit = "cycles", kind = "published", source = "jia-2018", ',
        "dram.latency_cycles: must exceed l2.latency_cycles .*190.*193",
    ),
    "stream above the rating": (
        "value = 846e9([^}]*)high = 846e9",
        'value = 901e9, unit = "bytes/s", kind = "published", source = "van-lanker-2024"',
        "dram.sustained_bandwidth_bytes_per_s: exceeds dram.bandwidth_bytes_per_s",
    ),
    "an atomic in less than a cycle": (
        r"value = 3.4310, unit = .cycles., kind = .calibrated., source = .gtc-s33322-fit., low = 3.3562",
        'value = 0.005, unit = "cycles", kind = "calibrated", source = "gtc-s33322-fit"',
        "atomic.add.base_interval_cycles: .*less than a cycle .*0.994",
    ),
}


@pytest.mark.parametrize(("pattern", "new", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_refused_with_file_and_key(tmp_path: Path, pattern: str, new: str, message: str) -> None:
    path = edited(tmp_path, (pattern, new))
    with pytest.raises(SmlabError, match=message) as caught:
        load_gpu(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["banks = 32", "gpu = []", "sources = 'none'", "sources = {a = 1}"])
def test_a_value_where_a_table_belongs_is_refused(tmp_path: Path, text: str) -> None:
    path = child(tmp_path, f'extends = "v100"\ntitle = "mine"\n{text}\n')
    with pytest.raises(SmlabError, match=f"child.toml: {text.split(' ')[0]}"):
        load_gpu(path)


def test_an_unknown_gpu_is_told_with_those_like_it() -> None:
    with pytest.raises(SmlabError, match=r"unknown GPU .*'v10O'.*perhaps v100 or v100-sxm2; a name that"):
        load_gpu("v10O")
    with pytest.raises(SmlabError, match=r"unknown GPU .*'h1000'.*perhaps h100-pcie or h100-sxm; a name"):
        load_gpu("h1000")
    with pytest.raises(
        SmlabError, match=r"unknown GPU .*expected a name that `smlab gpus` lists, or the path"
    ):
        load_gpu("")


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(SmlabError, match=r"no-such\.toml: there is no such file"):
        load_gpu(tmp_path / "no-such.toml")
    with pytest.raises(SmlabError, match="is a directory"):
        load_gpu(tmp_path)


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SmlabError, match=r"binary\.toml: is not a text file"):
        load_gpu(path)


CARD = """title = "mine"
extends = "v100"
[sources]
mine = "Own measurement, 2024"
[gpu]
sms = { value = 40, unit = "SMs", kind = "measured", source = "mine" }
[clock]
boost_hz = { value = 690e6, unit = "Hz", kind = "measured", source = "mine" }
[dram]
bandwidth_bytes_per_s = { value = 600e9, unit = "bytes/s", kind = "measured", source = "mine" }
"""
"""A card of one's own in ten lines."""


class TestExtends:
    def test_a_child_overrides_and_inherits(self, tmp_path: Path) -> None:
        gpu = load_gpu(child(tmp_path, CARD))
        assert gpu.integer("gpu.sms") == 40
        assert gpu["gpu.sms"].source == "Own measurement, 2024"
        assert (gpu.architecture, gpu.compute_capability) == ("volta", "7.0")
        assert gpu["sm.max_warps"] == load_gpu("v100")["sm.max_warps"]
        assert gpu.aliases == ()

    def test_what_the_board_decides_is_scaled_and_what_was_seen_on_the_parents_card_is_assumed(
        self, tmp_path: Path
    ) -> None:
        """Half the SMs at half the clock, two thirds of the bandwidth."""
        parent, gpu = load_gpu("v100"), load_gpu(child(tmp_path, CARD))
        own = {"gpu.sms", "clock.boost_hz", "dram.bandwidth_bytes_per_s"}
        ratios = {key: 1 / 4 for key in parent.constants if key.startswith("peak.")}
        ratios |= {"l2.bandwidth_bytes_per_s": 1 / 4, "l1.sustained_bandwidth_bytes_per_s": 1 / 4}
        ratios |= {"clock.base_hz": 1 / 2, "clock.sm_hz": 1 / 2}
        ratios |= {"dram.sustained_bandwidth_bytes_per_s": 2 / 3, "clock.memory_hz": 2 / 3}
        assert parent.has("power.limit_w")
        assert not gpu.has("power.limit_w")
        for key, constant in gpu.constants.items():
            before = parent[key]
            if key in own:
                assert constant.kind == "measured"
            elif key in ratios:
                assert constant.kind == "assumed"
                assert constant.value == pytest.approx(before.value * ratios[key])
                assert re.search(r"^assumed: v100's value scaled with .*; there it is", constant.source)
                if before.low is not None:
                    assert constant.low == pytest.approx(before.low * ratios[key])
            elif before.kind in ("published", "measured", "calibrated") or key in ("l2.bytes", "dram.bytes"):
                assert constant.kind == "assumed"
                assert constant.source == f"assumed: as on v100, where it is {before.kind}: {before.source}"
                assert constant.value == before.value
            else:
                assert constant == before

    @pytest.mark.parametrize("left_out", ["sms", "boost_hz", "bandwidth_bytes_per_s"])
    def test_what_belongs_to_the_board_must_be_said(self, tmp_path: Path, left_out: str) -> None:
        lines = [line for line in CARD.splitlines() if not line.startswith(left_out)]
        with pytest.raises(
            SmlabError, match=rf"\.{left_out}: is missing: it belongs to the board .*same_card"
        ):
            load_gpu(child(tmp_path, "\n".join(lines)))

    def test_a_peak_that_lanes_and_clock_do_not_give_is_refused(self, tmp_path: Path) -> None:
        """The parent's peak on half the SMs, said in so many words."""
        peak = 'fp32_flops_per_s = { value = 14e12, unit = "FLOP/s", kind = "spec", source = "mine" }'
        with pytest.raises(SmlabError, match=r"peak\.fp32_flops_per_s: disagrees .*expected about 3.53"):
            load_gpu(child(tmp_path, f"{CARD}[peak]\n{peak}\n"))

    def test_unless_it_is_the_same_card(self, tmp_path: Path) -> None:
        gpu = load_gpu(child(tmp_path, 'title = "mine"\nextends = "v100"\nsame_card = true\n'))
        assert dict(gpu.constants) == dict(load_gpu("v100").constants)

    def test_constants_can_be_left_out(self, tmp_path: Path) -> None:
        text = CARD.replace("extends", 'without = ["peak.sustained_flops_per_s"]\nextends')
        assert not load_gpu(child(tmp_path, text)).has("peak.sustained_flops_per_s")

    def test_but_not_those_that_are_needed(self, tmp_path: Path) -> None:
        path = child(tmp_path, 'extends = "v100"\nwithout = ["gpu.sms"]\n')
        with pytest.raises(SmlabError, match=r"gpu\.sms: is missing"):
            load_gpu(path)

    def test_another_file_by_relative_path(self, tmp_path: Path) -> None:
        child(tmp_path, 'title = "parent"\nextends = "a100-40"\nsame_card = true\n', "parent")
        gpu = load_gpu(child(tmp_path, 'title = "mine"\nextends = "./parent.toml"\nsame_card = true\n'))
        assert (gpu.title, gpu.integer("gpu.sms")) == ("mine", 108)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('extends = "v200"', "child.toml: extends: unknown GPU .*'v200'"),
            ('extends = "gone.toml"', "child.toml: extends: there is no such file .*gone.toml"),
            ("extends = 100", "child.toml: extends: is not a string"),
            ('extends = "child.toml"', r"child.toml: extends: goes round in a circle \(child -> child\)"),
            (
                'extends = "v100"\nwithout = ["gpu.sm"]',
                "child.toml: without: v100 has no such key .*'gpu.sm'",
            ),
            ('extends = "v100"\nsame_card = "yes"', "child.toml: same_card: is neither true nor false"),
            ("same_card = true", "child.toml: same_card: has a meaning only with extends"),
        ],
    )
    def test_refused(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(SmlabError, match=message):
            load_gpu(child(tmp_path, text + "\n"))

    def test_a_longer_circle(self, tmp_path: Path) -> None:
        child(tmp_path, 'extends = "b.toml"\n', "a")
        child(tmp_path, 'extends = "a.toml"\n', "b")
        with pytest.raises(SmlabError, match=r"b.toml: extends: goes round in a circle \(a -> b -> a\)"):
            load_gpu(tmp_path / "a.toml")


def test_a_broken_neighbour_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A description is found by its name without a look into the others."""
    edited(tmp_path).rename(tmp_path / "good.toml")
    (tmp_path / "broken.toml").write_text("[")
    monkeypatch.setattr(descriptions, "FOLDER", tmp_path)
    assert load_gpu("good").name == "good"


def test_kernels_with_tensor_products_have_a_clock_of_their_own() -> None:
    gpu = load_gpu("h100-sxm")
    at = gpu.at_tensor_clock()
    assert at.number("clock.sm_hz") == gpu.number("clock.tensor_hz") < gpu.number("clock.sm_hz")
    assert (at.constants["clock.sm_hz"].low, at.constants["clock.sm_hz"].high) == (1.6e9, 1.83e9)
    # Whoever tells a clock has seen it.
    seen = gpu.with_values({"clock.sm_hz": 1.5e9}, source="seen")
    assert seen.at_tensor_clock().number("clock.sm_hz") == 1.5e9
    assert load_gpu("v100").at_tensor_clock() == load_gpu("v100")
