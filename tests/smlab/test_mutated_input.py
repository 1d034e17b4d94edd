"""Profiles and workloads with something wrong in them, through the commands: read, or refused in one line."""

import random
import time
from pathlib import Path

import pytest

from smlab.cli.main import run
from smlab.examples import PROFILE

TOKENS = (
    b"",
    b"0",
    b"-1",
    b"nan",
    b"inf",
    b"1e400",
    b"9" * 400,
    b"\0",
    b"\xff",
    b'"',
    b",",
    b"=x()",
    b"\x1b[2J",
)
MAX_S = 10.0  # of processor time


def mutated(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5, 30])):
        i = rng.randrange(len(out)) if out else 0
        match rng.randrange(5):
            case 0:
                out[i : i + 1] = rng.choice(TOKENS)
            case 1:
                del out[i : i + rng.randrange(400)]
            case 2:
                out[i:i] = out[i : i + rng.randrange(400)] * rng.choice([1, 2, 50])
            case 3:
                del out[i:]
            case _:
                marks = [k for k, byte in enumerate(out) if byte in b',"=\n']
                if len(marks) > 1:
                    k = rng.randrange(len(marks) - 1)
                    out[marks[k] + 1 : marks[k + 1]] = rng.choice(TOKENS)
    return bytes(out)


@pytest.mark.parametrize(
    "seeds", [range(10), pytest.param(range(10, 310), marks=pytest.mark.thorough)], ids=["ten", "300"]
)
@pytest.mark.parametrize(
    "command",
    [
        ("utilization", "--gpu", "a100-40"),
        ("roofline",),
        ("project", "--from", "a100-40", "--to", "h100-pcie"),
        ("simulate", "--gpu", "a100-40", "--max-cycles", "2000000"),
    ],
    ids=lambda command: command[0],
)
def test_mutated_input_is_read_or_refused(
    command: tuple[str, ...], seeds: range, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = sorted(PROFILE.parent.glob("*.toml")) if command[0] == "simulate" else [PROFILE]
    for seed in seeds:
        rng = random.Random(seed)
        source = rng.choice(sources)
        path = tmp_path / f"{seed}{source.suffix}"
        path.write_bytes(mutated(source.read_bytes(), rng))
        began = time.process_time()
        status = run([command[0], str(path), *command[1:]])
        assert time.process_time() - began < MAX_S or seed == seeds[0], seed  # the first one loads the engine
        told = capsys.readouterr().err
        assert status in (0, 2), seed
        if status == 2:
            assert [line.startswith("smlab: ") for line in told.splitlines()].count(True) == 1, (seed, told)
