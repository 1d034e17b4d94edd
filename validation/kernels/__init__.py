"""Executed machine code held against kernels that others measured: counters and times of a tuning space.

The kernel is compiled by us, executed on the simulated GPU as a study (`smlab.validation.experiments`, so it
resumes and runs on Dask), and compared row by row with a search that KTT made on a real card. Nothing is
fitted to those rows. ``python -m smlab.validation.kernels DIR --card rtx-2080-ti --out OUT`` does it.
"""
