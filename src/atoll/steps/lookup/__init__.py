"""Add a PState's value to each row."""
