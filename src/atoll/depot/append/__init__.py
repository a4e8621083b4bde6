"""Appending: from what a caller hands over to what is durable."""
