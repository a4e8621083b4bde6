"""Leaf values: how each becomes bytes in a store, one at a time and by columns."""
