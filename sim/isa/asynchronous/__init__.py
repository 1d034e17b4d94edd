"""What Hopper does aside from its warps, in machine code: products by groups of warps, barriers in shared
memory, copies."""
