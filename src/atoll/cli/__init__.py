"""The command line, ``atoll``: one file per command under ``commands/``."""

from atoll.cli.app import app, main

__all__ = ["app", "main"]
