"""Steps of Python's over rows and batches, one per file."""
