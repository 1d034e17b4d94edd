"""Launches of ours on a real H100: packed here, replayed on the card, and put beside the simulation."""
