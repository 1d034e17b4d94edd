"""The machine-code contract: that every timed region is what its benchmark says, and gives right results."""
