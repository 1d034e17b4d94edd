"""The machine-code contract: that every timed region is what its benchmark says. No GPU is needed for it."""
