"""What every service may have, and what its own worker is called; light, for the command line."""

LOCAL_WORKER = "local"
"""The name of the worker that a process is which runs modules by itself, without a cluster."""

UNITS_MAX = 1024
"""So many parallel units one worker may have."""
