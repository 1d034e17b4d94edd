"""``smlab simulate``: one workload on a simulated GPU."""
