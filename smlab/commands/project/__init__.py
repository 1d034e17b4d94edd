"""``smlab project``: a kernel's time on another GPU, and how wrong such projections are."""
