"""Launch files: what they say, and what is refused in one line before anything is allocated."""

import resource
from pathlib import Path

import numpy as np
import pytest

from smlab.hw_bench.errors import SmlabError
from smlab.sim.isa.launch import launch_file
from smlab.sim.isa.launch.launch_file import LaunchFile, read_launch

HEAD = "launch = { grid = 1, block = 32 }\n"


def read(folder: Path, text: str) -> LaunchFile:
    path = folder / "launch.toml"
    path.write_text(HEAD + text)
    return read_launch(path)


def argument(text: str) -> str:
    return f"[[argument]]\nname = 'x'\n{text}\n"


REFUSED = {
    "argument = [1]": "argument 1: is not a table .got 1",
    "argument = 1": "argument: is not a list of tables .got 1",
    "constant = 5": "constant: is not a table .got 5",
    "constant = { a = 5 }": "constant a: is not a table .got 5",
    argument("dtype = 'int32'\nvalue = 1.9"): "not a int32 .got 1.9; expected a whole number",
    argument("dtype = 'int32'\nvalue = '1'"): "not a int32 .got '1'",
    argument("dtype = 'int32'\nvalue = true"): "not a int32 .got True",
    argument("dtype = 'uint8'\nvalue = [1, 256]"): "not a uint8 .got 256; expected a whole .* 0 to 255",
    argument("dtype = 'float32'\nvalue = 1e39"): "not a float32 .got 1e.39",
    argument("dtype = 'int32'\nvalue = nan"): "not a int32",
    argument("dtype = 'int32'\nvalue = [[1], [1, 2]]"): "not an array of int32",
    argument("dtype = '>i4'\nvalue = 1"): "a dtype of big-endian numbers",
    argument("dtype = 'float128'\nvalue = 1"): "a dtype that no kernel takes .got 'float128'",
    argument("dtype = 'complex64'\nvalue = 1"): "a dtype that no kernel takes",
    argument("dtype = 'i4,('\nvalue = 1"): "unknown dtype .got 'i4,.'",
    argument("dtype = 'i4,i4'\nvalue = 1"): "unknown dtype",
    argument("dtype = 5\nvalue = 1"): "unknown dtype .got 5",
    argument("value = 1"): "unknown dtype",
    argument("dtype = 'int8'\nmake = 'zeros'\nshape = " + str([1] * 65)): "not a shape .* 1 to 32 sizes",
    argument("dtype = 'int8'\nmake = 'zeros'\nshape = []"): "not a shape",
    argument("dtype = 'int8'\nmake = 'zeros'\nshape = [9223372036854775807]"): "too large .* for all arrays",
    argument("dtype = 'int8'\nmake = 'arange'\nshape = 129"): "numbers beyond a int8 .got '0 to 128'",
    argument("dtype = 'int8'\nmake = 'uniform'\nshape = 1\nhigh = 129"): "high: beyond a int8 .got 129",
    argument("dtype = 'int8'\nmake = 'uniform'\nshape = 1\nlow = 0.5"): "low: beyond a int8 .got 0.5",
    argument("dtype = 'int8'\nmake = 'uniform'\nshape = 1\nlow = 1"): "high: is not above low",
    argument("dtype = 'float32'\nmake = 'uniform'\nshape = 1\nhigh = inf"): "high: beyond a float32 .got inf",
    argument("dtype = 'float32'\nmake = 'uniform'\nshape = 1\nseed = -1"): "seed: not a seed .got -1",
    argument("dtype = 'int32'\nvalue = 1\nseed = 3"): "seed: means nothing with value",
    argument("dtype = 'int32'\nmake = 'zeros'\nshape = 1\nreturned = 'yes'"): "returned: not a truth value",
    argument("dtype = 'int32'\nvalue = 1\nreturned = true"): "a scalar cannot come back",
    argument("dtype = 'int32'\nvalue = 36893488147419103232"): "a whole number that is too large",
    "[[argument]]\nname = ['n']\ndtype = 'int32'\nvalue = 1": "argument 1: name: not a name .got .'n'.",
    argument('file = "a\\u0000.npy"'): "cannot be read: embedded null byte",
    argument("file = 5"): "file: not a name of a file",
    argument("file = 'launch.toml'"): "no array of numpy",
    argument("file = 'promised.npy'"): "no array of numpy",
    argument("file = 'big.npy'"): "a dtype of big-endian numbers",
    argument("file = 'small.npy'\ndtype = 'int64'"): "has another dtype .got 'int32'; expected int64",
    "x = " + "[" * 150 + "]" * 150: "is nested too deeply",
}


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_launch_is_refused(text: str, tmp_path: Path) -> None:
    np.save(tmp_path / "big.npy", np.zeros(4, dtype=">i4"))
    np.save(tmp_path / "small.npy", np.zeros(4, dtype="<i4"))
    whole = (tmp_path / "small.npy").read_bytes()
    (tmp_path / "promised.npy").write_bytes(whole.replace(b"(4,), }          ", b"(40000000000,), }"))
    with pytest.raises(SmlabError, match=REFUSED[text]) as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_numbers_are_what_they_are_in_the_file(tmp_path: Path) -> None:
    constants = "constant.c = { dtype = 'f4', value = [1, 2.5] }\n"
    found = read(tmp_path, constants + argument("dtype = 'uint64'\nvalue = 18446744073709551615"))
    assert found.arguments[0] == np.uint64(2**64 - 1)
    assert found.constants["c"].tolist() == [1, 2.5]


def test_random_numbers_are_the_same_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of one draw, which stored results depend on."""
    monkeypatch.setattr(launch_file, "CHUNK", 1000)
    generator = np.random.default_rng(7)
    wanted = {"float32": (generator.random(4096) * 3 - 1).astype(np.float32)}
    wanted["uint8"] = generator.integers(0, 256, size=4096).astype(np.uint8)
    ends = {"float32": (-1, 2), "uint8": (0, 256)}
    for dtype, expected in wanted.items():
        low, high = ends[dtype]
        made = f"make = 'uniform'\nshape = [64, 64]\nseed = 7\nlow = {low}\nhigh = {high}"
        (found,) = read(tmp_path, argument(f"dtype = '{dtype}'\n{made}")).arguments
        assert found.shape == (64, 64)
        assert (found.reshape(-1) == expected).all(), dtype


def test_all_arrays_of_a_launch_have_one_limit_and_little_beside_it(tmp_path: Path) -> None:
    half = f"dtype = 'int8'\nmake = 'zeros'\nshape = [{launch_file.MAX_BYTES // 2}]\n"
    arrays = "".join(f"[[argument]]\nname = 'a{n}'\n{half}" for n in range(2))
    assert len(read(tmp_path, arrays).arguments) == 2
    with pytest.raises(SmlabError, match=r"argument 3 \(x\): too large .got '1 bytes'"):
        read(tmp_path, arrays + argument("dtype = 'int8'\nmake = 'zeros'\nshape = 1"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read(tmp_path, argument("dtype = 'uint8'\nmake = 'uniform'\nhigh = 256\nshape = [200, 1000, 1000]"))
    grown_bytes = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert grown_bytes < 300e6
