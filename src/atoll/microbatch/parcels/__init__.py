"""Parcels: rows that a commit appends to a depot of another module, on their way there."""
