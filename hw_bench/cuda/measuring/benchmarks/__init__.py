"""How each benchmark is measured: its points, launches, checks and rows."""
