"""The images of the case study: shapes, what they do to banks, files that are read and files that are
refused."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from smlab.hw_bench.errors import SmlabError
from smlab.sim.address_patterns import lanes_on_fullest_bank
from smlab.sim.workloads.histogram import recorded_words
from smlab.validation.papers.histogram.images import NAMES, PHOTOGRAPHS, check_name, digest, image, read_image


@pytest.mark.parametrize("name", NAMES)
def test_every_image_has_the_asked_size_and_is_the_same_each_time(name: str) -> None:
    first = image(name, 5000).copy()
    image.cache_clear()
    assert first.shape == (5000, 4)
    assert first.dtype == np.uint8
    assert np.array_equal(first, image(name, 5000))


def passes(name: str, variant: str) -> float:
    tables = recorded_words(image(name, 2**14), 64, 64, variant)
    return float(np.mean([lanes_on_fullest_bank(t.astype(np.int64), 32).mean() for t in tables]))


def test_photographs_lie_between_the_papers_two_images() -> None:
    for name in PHOTOGRAPHS:
        assert passes("uniform", "original") < passes(name, "original") < passes("solid", "original")
        assert passes(name, "reordered") < passes(name, "original")


def test_uniform_bytes_put_three_and_a_half_lanes_on_the_fullest_bank() -> None:
    # 32 lanes on 32 equally likely banks: the fullest has 3.53 on average. Here within five standard errors.
    assert passes("uniform", "original") == pytest.approx(3.53, abs=5 * 0.75 / np.sqrt(4 * 512))
    assert passes("uniform", "reordered") == pytest.approx(3.53, abs=5 * 0.75 / np.sqrt(4 * 512))


def test_files_are_read_as_rgba(tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(0, 256, (5, 7, 4), dtype=np.uint8)
    np.save(tmp_path / "a.npy", values)
    assert np.array_equal(read_image(tmp_path / "a.npy"), values.reshape(-1, 4))
    Image.fromarray(values, "RGBA").save(tmp_path / "a.png")
    assert np.array_equal(read_image(tmp_path / "a.png"), values.reshape(-1, 4))
    np.save(tmp_path / "rgb.npy", values[..., :3])
    assert np.array_equal(read_image(tmp_path / "rgb.npy")[:, :3], values.reshape(-1, 4)[:, :3])
    assert (read_image(tmp_path / "rgb.npy")[:, 3] == 255).all()
    np.save(tmp_path / "grey.npy", values[..., 0])
    grey = read_image(tmp_path / "grey.npy")
    assert np.array_equal(grey[:, 0], grey[:, 2])
    assert np.array_equal(image(str(tmp_path / "a.npy"), 80)[35:70], read_image(tmp_path / "a.npy"))
    assert digest(str(tmp_path / "a.npy")) != digest(str(tmp_path / "rgb.npy"))
    assert digest("uniform") == ""


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jpg", b"x", "not an image's name"),
        ("a.npy", b"nonsense", r"no array of numpy \(.npy\)"),
        ("a.npy", b"", "no array of numpy"),
        ("a.png", b"nonsense", "cannot be read"),
        ("a.png", b"\x89PNG\r\n\x1a\n", "cannot be read"),
    ],
)
def test_what_is_no_image_is_refused_by_its_file(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(SmlabError, match=said) as caught:
        check_name(str(path))
    assert name in str(caught.value)


@pytest.mark.parametrize(
    "values", [np.zeros((4, 4)), np.zeros((0, 4), np.uint8), np.zeros((2, 2, 5), np.uint8)]
)
def test_arrays_that_are_no_images_are_refused(tmp_path: Path, values: np.ndarray) -> None:
    np.save(tmp_path / "a.npy", values)
    with pytest.raises(SmlabError, match=r"a\.npy"):
        read_image(tmp_path / "a.npy")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(SmlabError, match="neither a drawn image nor a file"):
        check_name("sunset")
