"""A Python function per row, with state and timers."""
