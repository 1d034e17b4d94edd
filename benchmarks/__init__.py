"""Speeds, measured as ratios in one run."""
