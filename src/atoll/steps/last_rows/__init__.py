"""Aggregates over the last rows of a key: ``stream.over("seller", rows=10, ...)``."""
