"""A source and its depot without a cluster, for tests that take turns by hand."""

from __future__ import annotations

import itertools
from contextlib import contextmanager

from atoll.ddl import parse_ddl
from atoll.depot import Depot, DepotSpec
from atoll.sources.feeding import Feeder
from atoll.sources.kept import SourceLog
from atoll.storage.local import LocalStore
from atoll.topology.declared import REJECTED_DDL

_epochs = itertools.count(1)


@contextmanager
def fed(root, source, ddl="v long", *, setting_aside=False, epoch=None):
    """One life of a source: ``(feeder, depot, aside)``; the root stays."""
    epoch = epoch or next(_epochs)
    folder = root / "m" / "depots"
    log = SourceLog(LocalStore(root), "m", "d", source.id)
    with (
        Depot(folder / "d", DepotSpec("d", parse_ddl(ddl)), epoch) as depot,
        Depot(folder / "aside", DepotSpec("aside", parse_ddl(REJECTED_DDL)), epoch) as aside,
    ):
        feeder = Feeder(source, depot, aside if setting_aside else None, log, lambda: 0)
        try:
            yield feeder, depot, aside
        finally:
            feeder.close()


def drained(feeder):
    """Take turns until there is nothing new; how many records and refused ones came."""
    records = refused = 0
    while (turn := feeder.turn()) is not None:
        records += turn.records
        refused += turn.refused
    return records, refused


def values(depot, column="v"):
    """All that a depot of one partition holds."""
    return depot.read(0, 0, depot.end_offsets()[0]).column(column).to_pylist()
