"""Kernels in PTX that use the copy engine and barriers in shared memory."""

from typing import Any

from smlab.hw_bench.sass.tools import assemble
from smlab.sim.frontends.machine_code import from_cubin


def kernel(parameters: str, body: str, architecture: str = "sm_90a") -> Any:
    version = "8.7" if architecture == "sm_90a" else "8.8"
    text = f"""
.version {version}
.target {architecture}
.address_size 64
.extern .shared .align 1024 .b8 image[];
.visible .entry k({parameters}) {{
.reg .b64 %w<9>; .reg .b32 %r<20>; .reg .pred %p<6>;
mov.u32 %r0, %tid.x; mov.u32 %r1, image;
{body}
ret; }}"""
    return from_cubin(assemble(text, architecture)[0], "k", "k")
