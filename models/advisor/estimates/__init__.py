"""What a change would gain: the kernel replayed on one SM, and the equations of Zhou et al."""
