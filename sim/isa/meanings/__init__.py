"""What each micro-operation computes, lane by lane in plain Python: the reference."""
