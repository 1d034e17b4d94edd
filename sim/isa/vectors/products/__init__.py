"""Products of matrices in machine code: by a warp, with scales of blocks, eight columns at a time."""
