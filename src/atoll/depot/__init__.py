"""Depots: durable, append-only, partitioned logs of records."""

from atoll.depot.blocks import BlockRef, read_block, read_blocks
from atoll.depot.depot import Appended, Depot
from atoll.depot.files import FileSource, file_format
from atoll.depot.partitioner import Custom, HashBy, Partitioner, Random
from atoll.depot.reader import DepotReader
from atoll.depot.spec import DepotSpec, Retention
from atoll.depot.start import StartFrom

__all__ = [
    "Appended",
    "BlockRef",
    "Custom",
    "Depot",
    "DepotReader",
    "DepotSpec",
    "FileSource",
    "HashBy",
    "Partitioner",
    "Random",
    "Retention",
    "StartFrom",
    "file_format",
    "read_block",
    "read_blocks",
]
