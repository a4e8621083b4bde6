"""Aggregates of one value over many rows: counts, sums, extremes, conditions."""
