"""``smlab port``: the same kernels on two or more GPUs: ratios, verdicts and how portable a set is."""
