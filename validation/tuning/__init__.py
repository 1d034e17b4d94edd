"""Tuning spaces: all configurations of a kernel, simulated and ranked on a GPU that nobody has to have.

`space_file` and `tuner_files` read a space, `simulated` runs configurations in a worker, `search` says which
ones to run longer and when to stop, `ranking` puts them in order.
"""
