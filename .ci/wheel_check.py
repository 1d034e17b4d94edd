"""Builds the wheel, installs it alone into a fresh environment over the packages that are installed here, and
runs the front door's commands in an empty folder in which a user has packages of our rooms' names.

    python .ci/wheel_check.py [--short]

``--short`` leaves ``validate --quick`` out. Ends with 1 where a command fails. The checkout is
neither on the path nor changed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from wheel_build import build

HOSTILE = 'raise SystemExit("a user\'s own {name} was imported")\n'
API = (
    "import smlab; r = smlab.simulate('atomics', 'v100'); print(r, r.seconds);"
    "print(smlab.roofline(__import__('smlab.examples').examples.PROFILE).to_dataframe().shape)"
)
COMMANDS = (
    ("python", "-c", API),
    ("smlab", "--version"),
    ("smlab", "gpus", "v100"),
    ("smlab", "simulate", "atomics", "--gpu", "v100", "--set", "warps=8", "--set", "iterations=2000"),
    ("smlab", "table", "--gpu", "v100", "--max-n", "4", "--out", "t.csv"),
    ("smlab", "utilization", "--how", "--gpu", "a100-40"),
    ("smlab", "utilization", "--example"),
    ("smlab", "roofline", "--example", "--plot", "roofline.png"),
    ("smlab", "project", "--example"),
    ("smlab", "whatif", "--example"),
    ("smlab", "whatif", "study", "--jobs", "1"),
    ("smlab", "claims", "--only", "dp-spread"),
    ("smlab", "bench", "list"),
    ("smlab", "validate", "--quick"),
)
STUDY = """title = "two levels"
responses = ["wait"]
base.model = "mm1-run"
base.set.customers = 50
factors.arrival_rate = [0.3, 0.8]
design = { kind = "one-at-a-time", replications = 3 }
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        wheel = build(work)
        binaries = install(wheel, work / "venv")
        user = work / "user"
        hostile(user)
        failed = 0
        short = "--short" in sys.argv[1:]
        for command in COMMANDS[: -1 if short else None]:
            name = " ".join(command)[:70]
            call = [str(binaries / command[0]), *command[1:]]
            environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
            done = subprocess.run(
                call, cwd=user, env=environment, capture_output=True, text=True, check=False
            )
            print(f"{'ok    ' if done.returncode == 0 else 'FAILED'}  {name}", flush=True)
            if done.returncode:
                failed += 1
                print(done.stdout[-500:] + done.stderr[-2000:])
        return 1 if failed else 0


def install(wheel: Path, place: Path) -> Path:
    """A fresh environment with the wheel alone; the folder of its programs."""
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    ask = [str(python), "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]
    packages = Path(subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip())
    # Plain paths: .pth files there, such as that of an editable install of this checkout, are not read.
    ours = [p for p in sys.path if Path(p).name in ("site-packages", "dist-packages")]
    (packages / "dependencies.pth").write_text("".join(f"{p}\n" for p in ours))
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--no-deps", str(wheel)], check=True)
    return place / "bin"


def hostile(user: Path) -> None:
    """A folder of a user whose own modules have our rooms' names."""
    for name in ("models", "hw_bench"):
        (user / name).mkdir(parents=True)
        (user / name / "__init__.py").write_text(HOSTILE.format(name=name))
    for name in ("sim", "validation"):
        (user / f"{name}.py").write_text(HOSTILE.format(name=name))
    (user / "study").mkdir()
    (user / "study" / "study.toml").write_text(STUDY)


if __name__ == "__main__":
    sys.exit(main())
