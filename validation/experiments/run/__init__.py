"""Running a study: points evaluated on local processes or Dask, stored as they come, exported in the
design's order."""
