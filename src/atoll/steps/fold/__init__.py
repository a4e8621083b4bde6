"""Atoll's aggregates over the rows of a microbatch."""
