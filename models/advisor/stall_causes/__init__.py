"""Whose fault the samples of a stalled instruction are: slices, scoreboards, paths, arrivals."""
