"""Study: how wrong the occupancy estimator is across Ampere-like SMs."""
