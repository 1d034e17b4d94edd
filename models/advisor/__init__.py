"""An advisor for GPU kernels (Zhou et al., "GPA", CGO 2021, and beyond): from samples by instruction to
causes, and to what a change would bring.

`code` is the kernel's control flow at the level of instructions, `slicing` finds what a stalled instruction
waited for, `blame` shares its samples among these causes (as the paper says, as its code does, and ours).
`estimators` are the paper's Equations 2 to 10, `optimizers` match samples with changes, and `advice` ranks
them. Samples are read by `hw_bench.profiles`.
"""
