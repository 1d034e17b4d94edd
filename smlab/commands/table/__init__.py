"""``smlab table``: the service table of the shared-memory atomic unit."""
