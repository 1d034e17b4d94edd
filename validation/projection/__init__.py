"""Judging projections of a kernel's time to another GPU: on simulated kernels, and on operators measured
by others."""
