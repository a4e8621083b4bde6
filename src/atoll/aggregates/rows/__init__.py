"""Aggregates that keep rows or their values: the first, the last, the best, all of them."""
