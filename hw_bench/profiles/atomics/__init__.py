"""What a profile says of shared-memory atomics: counters, samples, and what the utilization model needs."""
