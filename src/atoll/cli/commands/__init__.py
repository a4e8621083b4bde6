"""The subcommands, one per file; each file's function has the command's name."""

from atoll.cli.commands import append, demo, pause, query, resume, run, status, version

__all__ = ["append", "demo", "pause", "query", "resume", "run", "status", "version"]
