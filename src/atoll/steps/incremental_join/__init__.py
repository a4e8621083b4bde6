"""Rows of two streams that belong together, whenever they come."""
