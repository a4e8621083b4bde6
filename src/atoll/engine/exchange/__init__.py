"""Rows on their way: read, packed for actors, counted, rejected."""
