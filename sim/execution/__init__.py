"""Machine code on the simulated GPU: a launch run whole or as a sample, with timing or without."""
