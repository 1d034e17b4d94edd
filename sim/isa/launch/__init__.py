"""Kernel images and launches: grid, block, arguments, memory, and what a kernel prints."""
