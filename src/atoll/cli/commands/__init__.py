"""The subcommands, one per file; each file's function has the command's name.

Those of one subject stand together in a folder; ``atoll.cli.app`` lists them all.
"""

from atoll.cli.commands import demo, run, status, version
from atoll.cli.commands.data import append, query
from atoll.cli.commands.topology import pause, resume

__all__ = ["append", "demo", "pause", "query", "resume", "run", "status", "version"]
