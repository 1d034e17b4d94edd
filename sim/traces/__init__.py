"""Recorded kernels as what warps execute: Accel-Sim's traces (format version 5), read, run, and written.

`text` is the format: a kernel's header, and one line an instruction with its lanes and addresses; `reading`
makes of a file what was recorded, `writing` a file of what was executed here (`recording` in
`smlab.sim.machine_code`). `dependences` finds what waits for what, since a trace has registers but no control
codes; `source` leads the warps of both engines along their recorded instructions, and `run` lowers a trace
and times it.
"""
