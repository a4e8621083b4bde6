"""The life of runtimes on a root: the registry of what was said, and what runs of it here."""
