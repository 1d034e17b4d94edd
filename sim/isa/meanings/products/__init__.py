"""Products of matrices in plain Python: on tensor cores, by groups of warps, in tensor memory."""
