"""The page of a kernel: one HTML file of a run, of advice, or of a comparison."""
