"""Kernels of one program, written in a line, and their issue cycles."""

from smlab.hw_bench.gpu.descriptions import Gpu
from smlab.sim import Instruction, Kernel, Loop, Program, Record, simulate
from smlab.sim.result import SimResult


def run(gpu: Gpu, *body: Instruction | Loop, warps: int = 1, blocks: int = 1, **options: object) -> SimResult:
    kernel_options = {k: options.pop(k) for k in ("registers_per_thread", "sms") if k in options}
    kernel = Kernel(
        name="test",
        programs=(Program("p", body),),
        roles=((0,) * warps,),
        blocks=blocks,
        shared_bytes_per_block=options.pop("shared_bytes", 16384),  # type: ignore[arg-type]
        **kernel_options,  # type: ignore[arg-type]
    )
    return simulate(kernel, gpu, keep=Record.ALL, **options)  # type: ignore[arg-type]


def issues(result: SimResult) -> list[int]:
    assert result.issues is not None
    return result.issues.cycle.tolist()


def fp32(*after: str, name: str = "") -> Instruction:
    return Instruction("fp32", name=name, after=after)
