"""What leaves a copy: rows for the event log, effects, counts for the batch state calculator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from atoll.runtime.actors.interface import Effect, Event
from atoll.runtime.engine.memory import UNWRITABLE

LEAVING_DDL = (
    "kind string, actor string, copy long, instance long, number long, at long, key string, "
    "body string"
)
"""``kind``: ``incoming`` or ``outgoing`` for the event log, ``effect``; for the batch state
calculator ``register``, ``count`` and ``offer``."""

_encode = msgspec.json.encode


class Leaving:
    """Gathers what leaves one copy in one call.

    Args:
        copy: Its number.
    """

    def __init__(self, copy: int) -> None:
        """Nothing leaves."""
        self.copy = copy
        self.rows: list[dict[str, Any]] = []
        self.unwritable: list[tuple[str, str]] = []
        """By actor why something that it gave could not leave: JSON cannot say it."""
        self._counts: dict[str, tuple[int, dict[str, int]]] = {}

    def log(  # a row's columns
        self, kind: str, actor: str, instance: int, number: int, at: int, event: Event
    ) -> None:
        """An event that came or went, for the event log."""
        self._row(kind, actor, instance, number, at, "", event)

    def effect(self, actor: str, instance: int, at: int, effect: Effect) -> None:
        """Something to do outside."""
        body = {"kind": effect.kind, "request": effect.request}
        self._row("effect", actor, instance, 0, at, effect.key, body)

    def registered(self, actor: str, instances: int, copies: int, at: int) -> None:
        """That the copy has instances of an actor, and how many copies there are."""
        names = [f"{self.copy}.{instance}" for instance in range(instances)]
        body = {"instances": names, "copies": copies}
        self._row("register", actor, 0, 0, at, "", body)

    def counted(self, actor: str, instance: int, seen: int, at: int) -> None:
        """An event count update: how many events an instance has had, in all."""
        _, seen_by = self._counts.setdefault(actor, (at, {}))
        seen_by[f"{self.copy}.{instance}"] = seen
        self._counts[actor] = (min(at, self._counts[actor][0]), seen_by)

    def offered(self, actor: str, number: int, at: int, body: Any) -> None:
        """That a snapshot was offered to the copies."""
        self._row("offer", actor, 0, number, at, "", body)

    def taken(self) -> Iterator[dict[str, Any]]:
        """All of it, once."""
        yield from self.rows
        self.rows = []
        for actor, (at, seen_by) in self._counts.items():
            self._row("count", actor, 0, sum(seen_by.values()), at, "", seen_by)
        yield from self.rows
        self.rows, self._counts = [], {}

    def _row(  # noqa: PLR0913  # a row's columns
        self, kind: str, actor: str, instance: int, number: int, at: int, key: str, body: Any
    ) -> None:
        try:
            data = _encode(body).decode()
        except UNWRITABLE as error:
            self.unwritable.append((actor, f"what it gave cannot be written: {error}"[:500]))
            return
        self.rows.append(
            {
                "kind": kind,
                "actor": actor,
                "copy": self.copy,
                "instance": instance,
                "number": number,
                "at": at,
                "key": key,
                "body": data,
            }
        )
