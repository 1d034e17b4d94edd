"""``smlab utilization``: how busy the shared-memory atomic unit was, with interval and verdict."""
