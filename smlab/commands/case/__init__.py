"""``smlab case``: the case studies."""
