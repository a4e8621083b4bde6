"""Drop rows that came before: ``stream.deduplicate("id", within="1 hour")``."""
