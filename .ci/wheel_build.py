"""Builds the wheel of the tracked files, with machine code made ahead: ``python .ci/wheel_build.py FOLDER``.

The machine code is made from the same copy of the files, so their digest is the one that it carries.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PREBUILT = Path("sim", "object_code", "prebuilt")


def build(place: Path) -> Path:
    """The wheel, in the folder ``place``: nothing that lies about gets into it."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        for name in filter(None, listed.decode().split("\0")):
            if (ROOT / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, tree / name)
        command = [sys.executable, "-m", "smlab.sim.object_code.prebuild", str(tree / PREBUILT)]
        subprocess.run(command, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, check=True)
        # With the setuptools of this environment, whose digest was checked.
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
        subprocess.run([*pip, "--wheel-dir", str(place), str(tree)], check=True)
    (wheel,) = place.glob("smlab-*.whl")
    return wheel


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))
