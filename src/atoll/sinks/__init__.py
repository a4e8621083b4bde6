"""Sinks: where rows go that leave Atoll. One file per sink, and the interface that each fulfils.

A stream ends in one with ``stream.write_to(sink, name=...)``. What a microbatch has for it is
brought there after the commit, one microbatch after the other, by a thread of the sink's own.
Sinks of third parties stand in the entry-point group ``atoll.sinks``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atoll.kafka.sink import KafkaTopic
    from atoll.sinks.delta import Delta, delta_version
    from atoll.sinks.folder import Folder
    from atoll.sinks.iceberg import Iceberg, iceberg_snapshot
    from atoll.sinks.interface import (
        Guarantee,
        Opening,
        Sink,
        SinkParcel,
        SinkRows,
        SinkWriter,
    )
    from atoll.sinks.postgres import Postgres
    from atoll.sinks.reading import FolderReader, read_folder
    from atoll.sinks.registry import sink_kinds
    from atoll.sinks.webhook import Webhook

__all__ = [
    "Delta",
    "Folder",
    "FolderReader",
    "Guarantee",
    "Iceberg",
    "KafkaTopic",
    "Opening",
    "Postgres",
    "Sink",
    "SinkParcel",
    "SinkRows",
    "SinkWriter",
    "Webhook",
    "delta_version",
    "iceberg_snapshot",
    "read_folder",
    "sink_kinds",
]

_LAZY = {
    "Delta": "atoll.sinks.delta",
    "Folder": "atoll.sinks.folder",
    "FolderReader": "atoll.sinks.reading",
    "KafkaTopic": "atoll.kafka.sink",
    "Guarantee": "atoll.sinks.interface",
    "Iceberg": "atoll.sinks.iceberg",
    "Opening": "atoll.sinks.interface",
    "Postgres": "atoll.sinks.postgres",
    "Sink": "atoll.sinks.interface",
    "SinkParcel": "atoll.sinks.interface",
    "SinkRows": "atoll.sinks.interface",
    "SinkWriter": "atoll.sinks.interface",
    "Webhook": "atoll.sinks.webhook",
    "delta_version": "atoll.sinks.delta",
    "iceberg_snapshot": "atoll.sinks.iceberg",
    "read_folder": "atoll.sinks.reading",
    "sink_kinds": "atoll.sinks.registry",
}


def __getattr__(name: str) -> Any:
    """Load a sink when it is first used: some need packages that others do without."""
    if name not in _LAZY:
        raise AttributeError(f"module 'atoll.sinks' has no attribute {name!r}")
    found = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = found
    return found
