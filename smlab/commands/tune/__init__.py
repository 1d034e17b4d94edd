"""``smlab tune``: all configurations of a kernel, simulated and ranked."""
