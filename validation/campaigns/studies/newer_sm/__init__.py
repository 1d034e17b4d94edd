"""Study: what V100 code gains from newer SMs, one constant at a time."""
