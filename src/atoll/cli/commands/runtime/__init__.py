"""``atoll runtime``: pipelines of runtime actors that are declared in JSON."""

from __future__ import annotations

from atoll.cli.commands.runtime import definitions  # the help lists commands in this order

# isort: split
from atoll.cli.commands.runtime import changes, events
from atoll.cli.commands.runtime.group import app

__all__ = ["app", "changes", "definitions", "events"]
