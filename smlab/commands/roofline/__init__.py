"""``smlab roofline``: kernels under their ceilings, level by level."""
