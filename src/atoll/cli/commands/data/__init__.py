"""Commands that bring records in and read state."""
