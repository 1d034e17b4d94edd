"""Study: which scheduler policy serves atomics best."""
