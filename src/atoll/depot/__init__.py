"""Depots: durable, append-only, partitioned logs of records.

The names are loaded when they are first used: a Spark task that only reads blocks of a depot
should not pay, in every new Python worker, for what it takes to write one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atoll.depot.depot import Depot
    from atoll.depot.files import FileSource, file_format
    from atoll.depot.partitioner import Custom, HashBy, Partitioner, Random
    from atoll.depot.producers.table import Producer
    from atoll.depot.reader import DepotReader
    from atoll.depot.receipt import Receipt
    from atoll.depot.segments.blocks import BlockRef, read_block, read_blocks
    from atoll.depot.spec import DepotSpec, Retention
    from atoll.depot.start import StartFrom
    from atoll.depot.tail import Tail, TailBatch

__all__ = [
    "BlockRef",
    "Custom",
    "Depot",
    "DepotReader",
    "DepotSpec",
    "FileSource",
    "HashBy",
    "Partitioner",
    "Producer",
    "Random",
    "Receipt",
    "Retention",
    "StartFrom",
    "Tail",
    "TailBatch",
    "file_format",
    "read_block",
    "read_blocks",
]

_HOMES = {
    "segments.blocks": ("BlockRef", "read_block", "read_blocks"),
    "depot": ("Depot",),
    "files": ("FileSource", "file_format"),
    "partitioner": ("Custom", "HashBy", "Partitioner", "Random"),
    "producers.table": ("Producer",),
    "reader": ("DepotReader",),
    "receipt": ("Receipt",),
    "spec": ("DepotSpec", "Retention"),
    "start": ("StartFrom",),
    "tail": ("Tail", "TailBatch"),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'atoll.depot' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"atoll.depot.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
