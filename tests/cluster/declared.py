"""The example modules with other names and counts, so that tests vary what must never show."""

from __future__ import annotations

import runpy
from pathlib import Path

from atoll.module import Module

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(file: str, name: str, partitions: int, vnodes: int) -> Module:
    """The module of an example file, under another name and with other counts."""
    import atoll

    real = atoll.Module

    class Varied(real):
        def __init__(self, _name):
            super().__init__(name)

        def depot(self, depot_name, schema, **options):
            return super().depot(depot_name, schema, **{**options, "partitions": partitions})

        def microbatch(self, topology_name, **options):
            return super().microbatch(topology_name, **{**options, "vnode_count": vnodes})

    atoll.Module = Varied
    try:
        return runpy.run_path(str(EXAMPLES / file))["module"]
    finally:
        atoll.Module = real


def key_pairs_module(name: str, partitions: int, vnodes: int) -> Module:
    """Nested counts and a global sum."""
    return example("key_pairs.py", name, partitions, vnodes)


def top_users_module(name: str, partitions: int, vnodes: int) -> Module:
    """Totals and a top list."""
    return example("top_users.py", name, partitions, vnodes)


def time_series_module(name: str, partitions: int, vnodes: int) -> Module:
    """Statistics at four granularities."""
    return example("time_series.py", name, partitions, vnodes)


def bank_module(name: str, partitions: int, vnodes: int) -> Module:
    """Transfers between two keys."""
    return example("bank_transfer.py", name, partitions, vnodes)
