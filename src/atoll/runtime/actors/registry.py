"""The types of runtime actors by name: Atoll's own, and those of installed packages.

A package adds a type by an entry point of the group ``atoll.runtime_actors`` whose name is the
type's and whose object is a subclass of ``ActorType``. The names in definitions are looked up in
this list and nowhere else: a definition can name no module. A package cannot take the name of a
type of Atoll's, nor that of another package's.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib import metadata
from typing import Any

from atoll.errors import DeclarationError
from atoll.runtime.actors.filter import Filter
from atoll.runtime.actors.fsm import Fsm
from atoll.runtime.actors.function import Function
from atoll.runtime.actors.generator import Generator
from atoll.runtime.actors.httpbroadcast import HttpBroadcast
from atoll.runtime.actors.httpclient import HttpClient
from atoll.runtime.actors.interface import ActorType
from atoll.runtime.actors.json import Json
from atoll.runtime.actors.kafka_consumer import KafkaConsumer
from atoll.runtime.actors.kafka_producer import KafkaProducer
from atoll.runtime.actors.linearregression import LinearRegression
from atoll.runtime.actors.log import Log
from atoll.runtime.actors.lookup import Lookup
from atoll.runtime.actors.minmax import MinMax
from atoll.runtime.actors.sample import Sample
from atoll.runtime.actors.sql import Sql
from atoll.runtime.actors.stats import Stats
from atoll.runtime.actors.tabulate import Tabulate
from atoll.runtime.actors.threshold import Threshold
from atoll.runtime.actors.window import Window
from atoll.runtime.actors.zscore import ZScore

ENTRY_POINTS = "atoll.runtime_actors"

BUILT_IN: tuple[type[ActorType[Any]], ...] = (
    Filter,
    Fsm,
    Function,
    Generator,
    HttpBroadcast,
    HttpClient,
    Json,
    KafkaConsumer,
    KafkaProducer,
    LinearRegression,
    Log,
    Lookup,
    MinMax,
    Sample,
    Sql,
    Stats,
    Tabulate,
    Threshold,
    Window,
    ZScore,
)
"""Atoll's own types, by name in order."""


@lru_cache(maxsize=1)
def actor_types() -> dict[str, ActorType[Any]]:
    """Every type that a definition may name, by name.

    Raises:
        DeclarationError: When an installed package's type cannot be loaded, is none, or has a
            name that is taken.
    """
    return with_packages(metadata.entry_points(group=ENTRY_POINTS))


def with_packages(found: Iterable[metadata.EntryPoint]) -> dict[str, ActorType[Any]]:
    """Atoll's own types and these.

    Raises:
        DeclarationError: As :func:`actor_types` does.
    """
    types: dict[str, ActorType[Any]] = {kind.name: kind() for kind in BUILT_IN}
    for entry in sorted(found, key=lambda each: each.name):
        if entry.name in types:
            raise _refusal(entry, "its name is taken")
        types[entry.name] = _loaded(entry)
    return types


def _loaded(entry: metadata.EntryPoint) -> ActorType[Any]:
    try:
        kind = entry.load()
    except Exception as error:  # what an import of another's package may raise
        raise _refusal(entry, f"{type(error).__name__}: {error}") from error
    if not (isinstance(kind, type) and issubclass(kind, ActorType)):
        raise _refusal(entry, "it is no subclass of ActorType")
    if getattr(kind, "name", None) != entry.name:
        raise _refusal(entry, f"the type calls itself {getattr(kind, 'name', None)!r}")
    return kind()


def _refusal(entry: metadata.EntryPoint, why: str) -> DeclarationError:
    package = entry.dist.name if entry.dist else "unknown"
    return DeclarationError(
        f"the runtime actor type {entry.name!r} cannot be used: {why}",
        hint="correct the package or uninstall it",
        package=package,
        entry_point=entry.value,
    )
