"""The study that ``smlab whatif --example`` writes."""

EXAMPLE = """\
# What limits shared-memory atomics: latency, interval, or the depth of the queue?
#
#   smlab whatif THIS_FILE
#
# The docstring of validation/experiments/design/study.py has all that a study may contain.

title = "What limits shared-memory atomics?"
question = "How much faster with half the latency, half the interval, or twice the queue of the atomic unit?"
responses = ["cycles", "speedup", "utilization"]    # and others: error_closed_points, stalls, ...

[base]
gpu = "v100"            # `smlab gpus` lists them
workload = "atomics"    # a built-in workload, or the path of a workload file
set.warps = 8           # settings for all points; gpu.KEY sets a constant of the GPU
set.iterations = 50
set.returns = true
set.same_word = 4
set.lanes = 32

# Each factor here multiplies constants. It may also be a key with its values, such as
# warps = [2, 4, 8, 16, 32] or gpu.atomic.queue_entries = { range = [4, 32], levels = 4 }.
[factors.latency]
scale = ["gpu.atomic.add.latency_cycles"]
values = [0.5, 1]

[factors.interval]
scale = ["gpu.atomic.add.base_interval_cycles", "gpu.atomic.add.pass_interval_cycles"]
values = [0.5, 1]

[factors.queue]
scale = ["gpu.atomic.queue_entries"]
values = [1, 2]

[design]
kind = "grid"           # or one-at-a-time, sobol (with samples = 256), random (with samples = 1000)
replications = 1        # with random workloads: more, with the same random numbers in all cases
seed = 1
"""
