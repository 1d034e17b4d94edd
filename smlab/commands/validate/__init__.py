"""``smlab validate``: every cross-check, with the report."""
