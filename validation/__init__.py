"""Comparing models, simulations and measurements of the same thing, and telling how far each can be
trusted."""
