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
    from atoll import agg, path
    from atoll.cluster.local import LocalCluster
    from atoll.cluster.spark import SparkCluster
    from atoll.depot import start
    from atoll.module import Module
    from atoll.python_values import python_rows as rows
    from atoll.views.connect import connect

__all__ = [
    "AtollError",
    "List",
    "LocalCluster",
    "Map",
    "Module",
    "Set",
    "SparkCluster",
    "Struct",
    "agg",
    "connect",
    "path",
    "rows",
    "start",
]

__version__ = "0.1.0"

_LAZY = {
    "LocalCluster": ("atoll.cluster.local", "LocalCluster"),
    "SparkCluster": ("atoll.cluster.spark", "SparkCluster"),
    "Module": ("atoll.module", "Module"),
    "agg": ("atoll.agg", None),
    "connect": ("atoll.views.connect", "connect"),
    "path": ("atoll.path", None),
    "rows": ("atoll.python_values", "python_rows"),
    "start": ("atoll.depot.start", None),
}


def __dir__() -> list[str]:
    """The public names, also those that are loaded when they are first used."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _LAZY:
        raise AttributeError(f"module 'atoll' has no attribute {name!r}")
    module_name, attribute = _LAZY[name]
    module = importlib.import_module(module_name)
    value = module if attribute is None else getattr(module, attribute)
    globals()[name] = value
    return value
