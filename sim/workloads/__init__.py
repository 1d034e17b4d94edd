"""What runs on the simulated GPU when it is no machine code: workloads, built in or from TOML."""
