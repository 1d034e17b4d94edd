"""Dong & Pai's case study (Section 4) as a study that can be rerun and varied: the image histogram over
sizes and launches.

`images` draws and reads images, `grid` says which points there are, `point` simulates one and estimates
it from its counters, `study` runs them and keeps what is done, `facts` judges, `figures` draws Figures 3
to 5 again, `files` writes results.
"""
