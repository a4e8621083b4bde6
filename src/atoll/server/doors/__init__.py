"""A door: a service that runs nothing, reads the root, and passes on what it cannot answer."""
