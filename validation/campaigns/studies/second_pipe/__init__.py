"""Study: what a second atomic pipe buys."""
