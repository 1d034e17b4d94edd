"""Which forms of PTX the simulator executes; see README.md."""
