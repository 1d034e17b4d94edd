"""The study file: factors, their distributions, and the designs that turn them into cases."""
