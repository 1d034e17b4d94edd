"""What could be changed: the optimizers, what they match, and how they rewrite a kernel."""
