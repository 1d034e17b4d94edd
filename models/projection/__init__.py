"""A kernel's time on another GPU: bounds of both, residency, uncertainty, and what its machine code says."""
