"""``smlab run``: machine code on a simulated GPU."""
