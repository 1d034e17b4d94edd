"""SM generations, and the alternatives that a description carries."""

from __future__ import annotations

from pathlib import Path

import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.hw_bench.gpu.descriptions import load_gpu


def child(tmp_path: Path, text: str, name: str = "child") -> Path:
    path = tmp_path / f"{name}.toml"
    path.write_text(text)
    return path


class TestGenerations:
    def test_what_was_measured_on_one_card_is_assumed_on_another(self) -> None:
        key = "mio.address_interval_cycles"
        assert load_gpu("a6000")[key].kind == "published"
        other = load_gpu("a100-40")[key]
        assert (other.kind, other.value) == ("assumed", load_gpu("a6000")[key].value)
        assert other.source.startswith("assumed: as on a6000, where it is published: Huerta")

    def test_a_board_says_otherwise_and_is_heard(self, tmp_path: Path) -> None:
        text = (
            'title = "mine"\nextends = "v100"\nsame_card = true\n[sources]\nmine = "a test of precedence"\n'
            "[mio]\n"
            'queue_entries = { value = 9, unit = "warp-instructions", kind = "measured", source = "mine" }\n'
        )
        assert load_gpu(child(tmp_path, text)).integer("mio.queue_entries") == 9

    def test_a_capability_without_a_file_takes_the_nearest_below(self, tmp_path: Path) -> None:
        text = 'title = "mine"\nextends = "a6000"\nsame_card = true\ncompute_capability = "8.7"\n'
        newer = load_gpu(child(tmp_path, text))
        assert newer.integer("mio.request_interval_cycles") == 2


class TestAlternatives:
    def test_the_first_is_the_description(self) -> None:
        gpu = load_gpu("v100")
        (own, same), (other, rounds), (last, two) = gpu.variants()
        assert (own.name, other.name, last.name) == ("occupancy", "rounds", "two-pipes")
        assert same is gpu
        assert own.weight + other.weight + last.weight == pytest.approx(1, abs=1e-12)
        assert two.integer("atomic.pipes") == 2
        assert rounds.number("atomic.round_gap_cycles") > 0 == gpu.number("atomic.round_gap_cycles")
        assert rounds["atomic.round_gap_cycles"].kind == "assumed"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('name = "a"\nweight = 0.4\nsource = "s"', "the weights do not add up .*0.4"),
            ('name = "a"\nweight = 1.0\nsource = "t"', r"alternatives\[0\].source: unknown source .*'t'"),
            ('name = "a"\nweight = 2.0\nsource = "s"', r"alternatives\[0\].weight: "),
            ('name = "a"\nsource = "s"', r"alternatives\[0\].weight: Field required"),
            (
                'name = "a"\nweight = 0.5\nsource = "s"\n[[alternatives]]\nname = "b"\nweight = 0.5\n'
                'source = "s"\n'
                'values = { "atomic.ad.base_interval_cycles" = 1 }',
                "unknown key .*atomic.ad.base",
            ),
            (
                'name = "a"\nweight = 0.5\nsource = "s"\n[[alternatives]]\nname = "b"\nweight = 0.5\n'
                'source = "s"\n'
                'values = { "mio.queue_entries" = 0 }',
                "mio.queue_entries: out of range .*0",
            ),
            (
                'name = "a"\nweight = 1.0\nsource = "s"\nvalues = { "mio.queue_entries" = 2 }',
                "the first one is",
            ),
        ],
    )
    def test_refused_with_the_place(self, tmp_path: Path, text: str, message: str) -> None:
        head = 'title = "mine"\nextends = "v100"\nsame_card = true\n[sources]\ns = "a test"\n'
        top = f"{head}[[alternatives]]\n{text}\n"
        with pytest.raises(SmlabError, match=message) as caught:
            load_gpu(child(tmp_path, top))
        assert "\n" not in str(caught.value)
