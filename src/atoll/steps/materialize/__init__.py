"""Compute rows once and use them several times."""
