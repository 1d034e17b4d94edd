"""Operational laws and closed systems: what must hold of every simulation, and random machines and kernels
to try it on."""
