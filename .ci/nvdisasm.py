"""Put NVIDIA's disassembler into the environment of this Python: it is one file of a wheel that is otherwise
not needed.

The last release of nvdisasm that knows Volta comes in triton 3.3.1 (nvdisasm 12.8); its own wheels begin with
13, which do not. The wheel's digest is held to the locked one.
"""

import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

WHEEL = Path(__file__).parent / "locked" / "nvdisasm.txt"
MEMBER = "triton/backends/nvidia/bin/nvdisasm"


def main() -> None:
    site = Path(sysconfig.get_paths()["purelib"])
    with tempfile.TemporaryDirectory() as folder:
        options = ("--quiet", "--no-deps", "--require-hashes", "--dest", folder, "--requirement", str(WHEEL))
        subprocess.run([sys.executable, "-m", "pip", "download", *options], check=True, timeout=1800)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extract(MEMBER, site)
    (site / MEMBER).chmod(0o755)
    subprocess.run([str(site / MEMBER), "--version"], check=True, stdout=subprocess.DEVNULL, timeout=60)


if __name__ == "__main__":
    main()
