"""Aggregates into one value of a column, where a PState would hold elements or parts."""
