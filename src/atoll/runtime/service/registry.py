"""Which runtimes there are on a root: one numbered object per change, so none is ever half done.

``<root>/meta/runtimes/<number>``. What is there now is what the changes come to, in order
(:func:`follow`, pure). Two processes that change at once: one takes the number, the other looks
again and decides anew. Nothing is taken away: a deleted runtime keeps its name for ever, since
identities of what it did outside begin with it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from atoll.errors import DamageError
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectExistsError, ObjectStore

PREFIX = "meta/runtimes"

Status = Literal["created", "running", "stopped", "deleted"]

_STATUS: dict[str, Status] = {
    "created": "created",
    "started": "running",
    "stopped": "stopped",
    "deleted": "deleted",
}


class RuntimeChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change of one runtime.

    Args:
        kind: What happened.
        id: The runtime.
        at: When, epoch milliseconds.
        owner: Of a new one: who owns it.
        name: Of a new one.
        definition: Of a new one: what was sent, with the name that it got.
        copies: Of a new one, or one that was scaled: how many copies it has from now on.
        drop: Of one with fewer copies: whether the state of those that go is deleted.
        move: Of one with other copies: whether state by key goes to those that own the keys.
    """

    kind: Literal["created", "started", "stopped", "scaled", "deleted"]
    id: str
    at: int
    owner: str = ""
    name: str = ""
    definition: dict[str, Any] = {}
    copies: int = 0
    drop: bool = False
    move: bool = False


class Registered(msgspec.Struct, frozen=True):
    """A runtime as the changes left it.

    Args:
        id: Never given twice.
        owner: Who owns it.
        name: Never given twice to one owner.
        definition: What was declared, under the name that it got.
        copies: How many copies it has.
        status: Where it is in its life.
        number: Of the change that made it.
        revision: Of its last change.
        created: When it was made, epoch milliseconds.
        started: When it was last started, or None.
        copies_before: How many copies it had before the last change of that.
        drop: Whether that change deletes the state of the copies that went.
        move: Whether it moves state by key.
        last: The kind of its last change.
    """

    id: str
    owner: str
    name: str
    definition: dict[str, Any]
    copies: int
    status: Status
    number: int
    revision: int
    created: int
    started: int | None = None
    copies_before: int = 0
    drop: bool = False
    move: bool = False
    last: str = "created"

    @property
    def unique_name(self) -> str:
        """The name that tells it from those of other owners."""
        return f"{self.owner}-{self.name}"

    @property
    def module(self) -> str:
        """The name of its module: readable, and unique by the number."""
        readable = re.sub(r"[^A-Za-z0-9_]", "_", self.name)[:40]
        return f"runtime-{self.number}-{readable}"


def follow(
    known: dict[str, Registered], number: int, change: RuntimeChange
) -> dict[str, Registered]:
    """What there is after one more change; ``known`` stays as it is."""
    if change.kind == "created":
        made = Registered(
            change.id,
            change.owner,
            change.name,
            change.definition,
            change.copies,
            "created",
            number,
            number,
            change.at,
            copies_before=change.copies,
        )
        return {**known, change.id: made}
    before = known[change.id]
    after = msgspec.structs.replace(
        before,
        status=_STATUS.get(change.kind, before.status),
        revision=number,
        started=change.at if change.kind == "started" else before.started,
        last=change.kind,
    )
    if change.kind == "deleted":  # its name is taken for ever; the rest nobody asks for again
        after = msgspec.structs.replace(after, definition={})
    if change.kind == "scaled":
        after = msgspec.structs.replace(
            after,
            copies=change.copies,
            copies_before=before.copies,
            drop=change.drop,
            move=change.move,
        )
    return {**known, change.id: after}


def free_name(name: str, taken: Iterable[str]) -> str:
    """A name that was never given: the one wanted, or with the next number that is free.

    As Coral does it: ``name`` becomes ``name2``, ``runtime1`` ``runtime2``, ``1234`` ``1235``.
    """
    known = set(taken)
    if name not in known:
        return name
    prefix = name.rstrip("0123456789")
    number = int(name[len(prefix) :] or 1) + 1
    while f"{prefix}{number}" in known:
        number += 1
    return f"{prefix}{number}"


class Registry:
    """The changes on a root, and what they come to.

    Args:
        store: The root.
    """

    def __init__(self, store: ObjectStore) -> None:
        """Nothing is read yet."""
        self._objects = NumberedObjects(store, PREFIX)
        self._known: dict[str, Registered] = {}
        self._last = 0
        self._lock = threading.Lock()

    def all(self) -> dict[str, Registered]:
        """Every runtime that there ever was, by id, as of now.

        Raises:
            DamageError: When an object is missing or cannot be read.
        """
        return self._seen()[0]

    def change(self, decide: Callable[[dict[str, Registered]], RuntimeChange]) -> Registered:
        """Make a change durable that is right at the moment when it is made.

        Args:
            decide: Gives the change from what there is; may be asked again, and may raise.
        """
        while True:
            known, last = self._seen()
            change, number = decide(known), last + 1
            payload = msgspec.json.encode(change)
            try:
                self._objects.create(number, payload)
            except ObjectExistsError:
                self._objects.settle(number)
                continue
            return self.all()[change.id]

    def _seen(self) -> tuple[dict[str, Registered], int]:
        """What there is, and the number of the last change that made it so."""
        latest = self._objects.latest(self._last or None) or 0
        with self._lock:  # each change is taken once, whoever looks at the same time
            for number in range(self._last + 1, latest + 1):
                self._take(number, self._objects.read(number))
            return self._known, self._last

    def _take(self, number: int, payload: bytes) -> None:
        try:
            change = msgspec.json.decode(payload, type=RuntimeChange)
            self._known = follow(self._known, number, change)
        except (msgspec.MsgspecError, KeyError) as error:
            raise DamageError(
                f"a change of the runtimes cannot be followed: {error}",
                hint="restore the file from a backup",
                file=self._objects.name(number),
            ) from error
        self._last = number
