"""Recorded kernels as what warps execute: Accel-Sim's traces (format version 5), read, run, and written.

`text` is the format: a kernel's header, and one line an instruction with its lanes and addresses. `reading`
reads a file. `writing` writes one of what was executed here (`smlab.sim.execution.recording`). A trace has
registers but no control codes, so `dependences` finds what waits for what. `source` leads the warps of both
engines along their recorded instructions. `run` lowers a trace and times it.
"""
