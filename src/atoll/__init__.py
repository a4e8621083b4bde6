"""Atoll: stateful event processing on Apache Spark, exactly once.

Declare partitioned event logs (depots), partitioned state you can query (PStates) and microbatch
topologies between them. ``import atoll`` is light: engine and server are loaded when used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from atoll.errors import AtollError
from atoll.schema import List, Map, Set, Struct

if TYPE_CHECKING:
    from atoll import agg, path, secret
    from atoll.client.connecting import connect, connect_async
    from atoll.cluster.app import App
    from atoll.cluster.local import LocalCluster
    from atoll.cluster.spark import SparkCluster
    from atoll.depot import start
    from atoll.depot.producers.table import Producer
    from atoll.depot.receipt import Receipt
    from atoll.kafka.declare import Kafka
    from atoll.literals import lit
    from atoll.module import Module
    from atoll.python_values import python_rows as rows
    from atoll.steps.process.timers import Timers
    from atoll.stream.stream import Stream
    from atoll.topology.rows import Row

__all__ = [
    "App",
    "AtollError",
    "Kafka",
    "List",
    "LocalCluster",
    "Map",
    "Module",
    "Producer",
    "Receipt",
    "Row",
    "Set",
    "SparkCluster",
    "Stream",
    "Struct",
    "Timers",
    "agg",
    "connect",
    "connect_async",
    "lit",
    "path",
    "rows",
    "secret",
    "start",
]

__version__ = "0.1.0"

_LAZY = {
    "LocalCluster": ("atoll.cluster.local", "LocalCluster"),
    "SparkCluster": ("atoll.cluster.spark", "SparkCluster"),
    "Module": ("atoll.module", "Module"),
    "agg": ("atoll.agg", None),
    "App": ("atoll.cluster.app", "App"),
    "Producer": ("atoll.depot.producers.table", "Producer"),
    "Receipt": ("atoll.depot.receipt", "Receipt"),
    "Row": ("atoll.topology.rows", "Row"),
    "Stream": ("atoll.stream.stream", "Stream"),
    "Timers": ("atoll.steps.process.timers", "Timers"),
    "Kafka": ("atoll.kafka.declare", "Kafka"),
    "connect": ("atoll.client.connecting", "connect"),
    "connect_async": ("atoll.client.connecting", "connect_async"),
    "lit": ("atoll.literals", "lit"),
    "path": ("atoll.path", None),
    "rows": ("atoll.python_values", "python_rows"),
    "secret": ("atoll.secret", None),
    "start": ("atoll.depot.start", None),
}


def __dir__() -> list[str]:
    """The public names, also those that are loaded when they are first used."""
    return sorted([*__all__, "__version__"])


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _LAZY:
        raise AttributeError(f"module 'atoll' has no attribute {name!r}")
    module_name, attribute = _LAZY[name]
    module = importlib.import_module(module_name)
    value = module if attribute is None else getattr(module, attribute)
    globals()[name] = value
    return value
