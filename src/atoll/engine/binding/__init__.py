"""Binds what was declared by name to types, once per deployment."""
