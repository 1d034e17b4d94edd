"""``smlab claims``: what the papers claim, judged by code."""
