"""Put NVIDIA's disassembler into the environment of this Python: it is one file of a wheel that is otherwise
not needed.

The last release of nvdisasm that knows Volta comes in triton 3.3.1 (nvdisasm 12.8); its own wheels begin with
13, which do not.
"""

import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

WHEEL = "triton==3.3.1"
MEMBER = "triton/backends/nvidia/bin/nvdisasm"


def main() -> None:
    site = Path(sysconfig.get_paths()["purelib"])
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, WHEEL]
        subprocess.run(command, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extract(MEMBER, site)
    (site / MEMBER).chmod(0o755)
    subprocess.run([str(site / MEMBER), "--version"], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
