"""``smlab whatif``: studies over parameters of hardware and workload."""
