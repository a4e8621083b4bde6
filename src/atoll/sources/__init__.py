"""What feeds depots from outside: ``module.depot("orders", schema, source=Files("in/*.jsonl"))``.

Other packages add kinds under the entry-point group ``atoll.sources``: each is a subclass of
:class:`~atoll.sources.base.Source`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from atoll.sources.base import Source, SourceError
    from atoll.sources.delta import Delta
    from atoll.sources.files import Files
    from atoll.sources.iceberg import Iceberg
    from atoll.sources.once import Once
    from atoll.sources.postgres import Postgres

__all__ = [
    "GROUP",
    "Delta",
    "Files",
    "Iceberg",
    "Once",
    "Postgres",
    "Source",
    "SourceError",
    "kind_named",
]

GROUP = "atoll.sources"
"""The entry-point group."""

_HOMES = {
    "Delta": "delta",
    "Files": "files",
    "Iceberg": "iceberg",
    "Once": "once",
    "Postgres": "postgres",
    "Source": "base",
    "SourceError": "base",
}


def __getattr__(name: str) -> Any:
    """Import a kind when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def kind_named(name: str) -> type[Source]:
    """The kind of that name: one of these, or one that another package brings.

    Raises:
        UsageError: When there is none.
    """
    from importlib.metadata import entry_points

    from atoll.errors import UsageError
    from atoll.sources.base import Source as Base

    own = {getattr(each, "kind", ""): each for each in map(__getattr__, _HOMES)}
    found = own.get(name)
    for each in entry_points(group=GROUP, name=name) if found is None else ():
        found = each.load()
    if not (isinstance(found, type) and issubclass(found, Base)):
        raise UsageError(
            f"there is no source of kind {name!r}",
            hint=f"use one of {', '.join(sorted(filter(None, own)))}, or install what brings it",
        )
    return found
