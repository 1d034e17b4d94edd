"""Machine code on the simulated SM: SASS is decoded to micro-operations, and executed when it is issued.

`image` is what a kernel is before its launch (instructions, constants, parameters), `launch` what a launch
adds (grid, arguments, memory with bounds). `decode` turns each instruction into a micro-operation by a
table with a row an opcode; `record` says how one lies in memory. What a micro-operation means is written
twice: `meanings` and `interpreter` in plain Python over lanes, `vectors` and `execute` in machine code of
32 lanes at a time. `functional` runs a grid without timing.
"""
