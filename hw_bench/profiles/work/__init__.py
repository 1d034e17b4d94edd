"""What a roofline needs of a kernel: operations, traffic, time, launch, and the counters that tell them."""
