"""Real servers for the tests of sources."""

from postgres import database, postgres_server

__all__ = ["database", "postgres_server"]
