"""What a study can be of: the simulator, and closed forms whose sensitivity is known."""
