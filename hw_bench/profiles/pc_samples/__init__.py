"""PC samples by instruction: what they hold, the files that have them, and the code that they belong to."""
