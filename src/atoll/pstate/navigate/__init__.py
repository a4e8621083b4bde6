"""Following paths: in values in memory, and from the places in a store to such values."""
