"""Mutated studies: each is refused in one line or runs; none raises anything else, hangs or fills memory."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from smlab.validation.experiments.design.example import EXAMPLE

BASES = (
    EXAMPLE,
    """
title = "a queue"
question = "What if?"
responses = ["wait", "response_time"]
[base]
model = "mm1-run"
set.customers = 200
[factors]
arrival_rate = { range = [0.1, 0.9], levels = 3 }
service_rate = { distribution = "normal", mean = 2, sd = 0.1, low = 1.5, high = 3, levels = 2 }
[design]
kind = "grid"
replications = 10
seed = 7
[stop]
response = "wait"
of = "ratio"
half_width = 0.5
most_replications = 20
""",
    """
title = "drawn"
responses = ["cycles", "error_closed_points", "stalls"]
[base]
gpu = "titan-v"
workload = "histogram"
set.pixels = 4096
set.sms = 1
[factors]
threads = [32, 64]
image = ["solid", "uniform"]
gpu.dram.latency_cycles = { log_range = [100, 1000] }
[design]
kind = "sobol"
samples = 16
second_order = true
""",
)
VALUES = (
    *("0", "-1", "1", "3", "1000000000", "1000000000000", str(10**30)),
    *(
        "2.5",
        "1e308",
        "-1e-308",
        "nan",
        "inf",
        "true",
        "1979-05-27",
        "[]",
        "[[]]",
        "{}",
        "[1, 1]",
        '["a", 1]',
    ),
    *('""', '"text"', '"\\u001b[31m"', '"a\\nb"', '"gpu"', '"cycles"', '"' + "x" * 5000 + '"'),
    *("[" * 2000 + "]" * 2000, "{ range = [0, 1] }", "{ range = [1, 2], levels = 1000000000 }"),
    *("{ range = [1, 1e300], levels = 5 }", "{ of = ['v100', 'x'] }"),
)
HUGE = (
    (0, "set.warps = 8", "set.warps = 1000000000"),
    (0, "set.iterations = 50", "set.iterations = 1000000000000000"),
    (0, "values = [1, 2]", "values = [1, 1e9]"),
    (1, "replications = 10", "replications = 1000000000000"),
    (1, "levels = 3", "levels = 1000000000"),
    (1, "set.customers = 200", "set.customers = 1000000000000"),
    (1, "most_replications = 20", "most_replications = 1000000000000"),
    (2, "samples = 16", "samples = 1099511627776"),
    (2, "set.pixels = 4096", "set.pixels = 1000000000000"),
)
"""Numbers that once asked for more memory or time than there is: base, text, what replaces it."""
PROGRAM = """
import json, resource, signal, sys, time
from pathlib import Path
from smlab.hw_bench.errors import SmlabError
from smlab.validation.experiments.design.study import read_study
from smlab.validation.experiments.run.outcome import Interrupted
from smlab.validation.experiments.run.running import run_whatif

resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
signal.signal(signal.SIGALRM, signal.default_int_handler)

def first_points(done, total, ran):
    if ran > 2:
        raise KeyboardInterrupt

for path in sorted(Path(sys.argv[1]).glob("*.toml")):
    began, said = time.process_time(), ""
    signal.alarm(60)
    try:
        run_whatif(read_study(path), path.with_suffix(""), jobs=1, progress=first_points)
        outcome = "ran"
    except SmlabError as error:
        outcome, said = "refused", str(error)
    except Interrupted:
        outcome = "ran"
    except BaseException as error:
        outcome, said = type(error).__name__, str(error)[:500]
    signal.alarm(0)
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps([path.name, outcome, said, time.process_time() - began, peak_kb]), flush=True)
"""


def mutated(number: int) -> str:
    """A base with one to three changes: a value replaced, a line lost, doubled or cut, bytes in between."""
    rng = random.Random(number)
    lines = BASES[number % len(BASES)].splitlines()
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        place = rng.randrange(len(lines))
        kind = rng.randrange(12)
        if kind == 0:
            del lines[place]
        elif kind == 1:
            lines.insert(place, lines[rng.randrange(len(lines))])
        elif kind == 2:
            lines[place] = lines[place][: rng.randrange(len(lines[place]) + 1)]
        else:
            keyed = [i for i, line in enumerate(lines) if "=" in line and not line.startswith("#")]
            if keyed:
                place = rng.choice(keyed)
                lines[place] = lines[place].split("=")[0] + "= " + rng.choice(VALUES)
    return "\n".join(lines) + "\n"


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory by setrlimit")
def test_mutated_studies_are_refused_in_one_line_or_run(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    count = 100 if request.config.getoption("--thorough") else 25
    for number in range(count):
        (tmp_path / f"{number:03}.toml").write_text(mutated(number))
    for number, (base, text, huge) in enumerate(HUGE):
        assert text in BASES[base]
        (tmp_path / f"huge{number}.toml").write_text(BASES[base].replace(text, huge, 1))
    (tmp_path / "0.toml").write_text(BASES[0])  # first, to import and to compile
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    finished = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    rows = [json.loads(line) for line in finished.stdout.splitlines()]
    assert len(rows) == count + len(HUGE) + 1
    assert rows[0][1] == "ran"
    assert not [row for row in rows if row[1] not in ("ran", "refused")]
    assert not [row for row in rows if len(row[2].splitlines()) > 1]
    assert not [row for row in rows[1:] if row[3] > 10]
    assert rows[-1][4] < 2_000_000
