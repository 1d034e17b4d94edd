"""A launch file to start from, for a kernel that was given without one."""

from __future__ import annotations

from pathlib import Path

from smlab.commands.arguments import macros_of
from smlab.hw_bench.gpu.descriptions import load_gpu
from smlab.hw_bench.sass.image import KernelImage
from smlab.hw_bench.sass.linking import demangled
from smlab.sim.frontends.registry import load_kernel

NUMBERS = {1: "uint8", 2: "uint16", 4: "int32", 8: "int64"}
ARRAY = (
    'dtype = "float32"',
    "shape = [1024]",
    'make = "zeros"    # or arange or uniform; or file = "x.npy" in place of shape and make',
    "returned = true   # it comes back, for --check and --result",
)


def print_skeleton(
    kernel: str, gpu: str, name: str | None, defines: tuple[str, ...], folders: tuple[Path, ...] = ()
) -> None:
    """Print a launch for the kernel's parameters; nothing for a Python file, which is not executed for
    this."""
    if ".py:" not in kernel:
        architecture = load_gpu(gpu).sm_architecture
        macros = macros_of(defines)
        image = load_kernel(Path(kernel), architecture, name=name, defines=macros, folders=folders)
        print(skeleton(image))


def skeleton(image: KernelImage) -> str:
    """A launch file (TOML): a parameter of eight bytes is taken for an array's address, any other for a
    number."""
    lines = [
        f"# A launch of {demangled(image.function.name)}; put in your numbers, and give it as --launch.",
        "[launch]",
        "grid = 1",
        "block = 256",
        f"shared_bytes = 0   # dynamic; the kernel declares {image.shared_bytes:,}",
    ]
    if image.parameters is None:
        lines.append("\n# The file does not tell the parameters: one [[argument]] for each, in their order.")
        return "\n".join([*lines, "[[argument]]", 'name = "p0"', *ARRAY])
    for number, parameter in enumerate(image.parameters):
        lines += ["", "[[argument]]", f'name = "p{number}"']
        if parameter.size == 8:
            lines += [*ARRAY, '# For a number instead: dtype = "int64", value = 0 and no other key.']
        elif parameter.size in NUMBERS:
            lines += [f'dtype = "{NUMBERS[parameter.size]}"   # {parameter.size} bytes', "value = 0"]
        else:
            lines += [
                f"# {parameter.size} bytes, as an array of a file:",
                'dtype = "uint8"',
                'file = "p.npy"',
            ]
    return "\n".join(lines)
