"""What one more synchronising operation costs: published measurements of three GPUs against the simulator."""
