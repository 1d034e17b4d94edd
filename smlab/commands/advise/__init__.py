"""``smlab advise``: what to change in a kernel, where, and what it would gain."""
