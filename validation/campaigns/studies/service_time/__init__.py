"""Study: where S(n, e, c) comes from."""
