"""Which kinds of sinks there are: Atoll's own, and those that installed packages name.

A package names its sink in the entry-point group ``atoll.sinks``::

    [project.entry-points."atoll.sinks"]
    clickhouse = "atoll_clickhouse:ClickHouse"

Nothing has to be registered to be used: ``write_to`` takes any :class:`~atoll.sinks.Sink`. The
group says what there is, keeps two packages from calling different things alike, and is what the
contract tests go through.
"""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points

from atoll.errors import SinkError
from atoll.sinks.interface import Sink

GROUP = "atoll.sinks"

_OWN = {
    "delta": "atoll.sinks.delta:Delta",
    "folder": "atoll.sinks.folder:Folder",
    "iceberg": "atoll.sinks.iceberg:Iceberg",
    "kafka": "atoll.kafka.sink:KafkaTopic",
    "postgres": "atoll.sinks.postgres:Postgres",
    "webhook": "atoll.sinks.webhook:Webhook",
}


def sink_kinds() -> dict[str, type[Sink]]:
    """Every kind of sink whose package can be imported, by its name.

    Raises:
        SinkError: When two packages give one name, or a name leads to what is no sink.
    """
    named = [(kind, where, "atoll") for kind, where in _OWN.items()]
    named += [
        (each.name, each.value, each.dist.name if each.dist else "?")
        for each in entry_points(group=GROUP)
    ]
    found: dict[str, tuple[str, str]] = {}
    for kind, where, package in named:
        known = found.setdefault(kind, (where, package))
        if known[0] != where:
            raise SinkError(
                f"packages {known[1]} and {package} both have a sink of kind {kind!r}",
                hint="uninstall one of them",
            )
    return {kind: _loaded(kind, *found[kind]) for kind in sorted(found)}


def _loaded(kind: str, where: str, package: str) -> type[Sink]:
    module, _, name = where.partition(":")
    loaded = getattr(importlib.import_module(module), name, None)
    if not (isinstance(loaded, type) and issubclass(loaded, Sink)) or loaded.kind != kind:
        raise SinkError(
            f"package {package} names {where} as the sink {kind!r}, which it is not",
            hint=f"let it be a subclass of atoll.sinks.Sink with kind = {kind!r}",
        )
    return loaded
