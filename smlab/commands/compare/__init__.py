"""``smlab compare``: what changed between two runs of a kernel."""
