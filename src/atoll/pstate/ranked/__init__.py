"""Entries of maps and sets in an order of their values, kept with every write."""
