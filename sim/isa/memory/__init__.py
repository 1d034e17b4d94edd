"""Memory as machine code sees it: bounds, accesses of a warp, atomics, bank conflicts, constant banks."""
