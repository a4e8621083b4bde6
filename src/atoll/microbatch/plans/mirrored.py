"""Which commits of other topologies a microbatch reads, and that they stay readable.

A plan names, for each topology whose PStates it reads (mirrors of another module's, or what a
query reads of the same module), the commit as of which every attempt reads them. Before the plan
is made the commit is *pinned*: an object beside that topology's own says so, and that topology
keeps the commit readable while the pin is there. A pin goes when the microbatch has committed, or
its topology has gone back.

Why nothing slips through: a coordinator decides what stays readable when it builds a commit, and
keeps two commits before it at least. So a commit that is the last one *after* it was pinned, or
the one before that, is readable as of the next one, which may have been decided before; and
whoever builds the one after that sees the pin. A pin bears the epoch of the life that made it, and
a life drops none of a later one: one that stood still may wake up long after it was fenced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from atoll.errors import StateError
from atoll.microbatch.commits.history import latest_commit
from atoll.storage.objects import ObjectExistsError, ObjectStore
from atoll.storage.roots import RootStore

_TRIES_MAX = 100


class MirroredTopologies:
    """The topologies whose PStates one topology reads.

    Args:
        store: The root.
        reader: The module and topology that read.
        mirrored: The modules and topologies that are read.
        epoch: The life of the reader's coordinator.
    """

    def __init__(
        self,
        store: ObjectStore,
        reader: tuple[str, str],
        mirrored: Sequence[tuple[str, str]],
        epoch: int,
    ) -> None:
        self._store = store
        self._epoch = epoch
        self._reader = ".".join(reader)
        self._mirrored = mirrored
        self._late: tuple[int, dict[str, int]] = (0, {})

    def pin(self, microbatch: int) -> dict[str, int]:
        """Pin the last commit of each, for the plan of a microbatch.

        Raises:
            StateError: When one commits faster than it can be pinned.
        """
        return {f"{m}/{t}": self._pin(m, t, microbatch) for m, t in self._mirrored}

    def completed(self, microbatch: int, named: Mapping[str, int]) -> dict[str, int]:
        """What a plan names, with what is missing there pinned now.

        The version of the module that made the plan and died read less. Nothing that its attempts
        wrote counts, so this life may choose; all its attempts read the same.
        """
        missing = [each for each in self._mirrored if "/".join(each) not in named]
        if missing and self._late[0] != microbatch:
            self._late = (microbatch, {f"{m}/{t}": self._pin(m, t, microbatch) for m, t in missing})
        return {**self._late[1], **named} if missing else dict(named)

    def release(self, microbatch: int | None = None) -> None:
        """Drop the pins of a microbatch that has committed, and of those before it.

        All when it is None: no plan of the topology stands any more.
        """
        for module, topology in self._mirrored:
            for name in self._store.list(_folder(module, topology)):
                pin = _Pin.of(name)
                mine = pin.reader == self._reader and pin.epoch <= self._epoch
                if mine and (microbatch is None or pin.microbatch <= microbatch):
                    self._store.delete(name)

    def _pin(self, module: str, topology: str, microbatch: int) -> int:
        head = latest_commit(self._store, module, topology)
        for _ in range(_TRIES_MAX):
            folder = _folder(module, topology)
            name = f"{folder}/{_Pin(microbatch, head.id, self._epoch, self._reader).name}"
            with contextlib.suppress(ObjectExistsError):
                self._store.create(name, b"")
            now = latest_commit(self._store, module, topology)
            if now.timeline == head.timeline and now.id <= head.id + 1:
                return head.id
            self._store.delete(name)
            head = now
        raise StateError(
            f"topology {topology!r} of module {module!r} commits faster than it can be pinned",
            hint="this is tried again by itself",
        )


def lowest_pin(store: ObjectStore, module: str, topology: str) -> int | None:
    """The lowest commit of a topology that another one is about to read; None for none."""
    return min((_Pin.of(n).commit for n in store.list(_folder(module, topology))), default=None)


def readers_above(store: ObjectStore, module: str, topology: str, commit: int) -> list[str]:
    """Who is about to read a commit of a topology that is later than the one given."""
    pins = map(_Pin.of, store.list(_folder(module, topology)))
    return sorted({pin.reader for pin in pins if pin.commit > commit})


def drop_stale_pins(
    store: RootStore,
    module: str,
    reads: Mapping[str, Collection[tuple[str, str]]],
    epoch: int,
) -> None:
    """Drop what topologies of a module pinned that are gone, or no longer read it.

    Args:
        store: The root.
        module: The module, at the beginning of a life.
        reads: For each of its topologies the modules and topologies that it reads.
        epoch: The life.
    """
    for owner in store.folders(""):
        for topology in store.folders(owner):
            for name in store.list(_folder(owner, topology)):
                pin = _Pin.of(name)
                reader, _, reading = pin.reader.partition(".")
                wanted = (owner, topology) in reads.get(reading, ())
                if reader == module and pin.epoch < epoch and not wanted:
                    store.delete(name)


class _Pin(NamedTuple):
    """What the name of a pin says."""

    microbatch: int
    commit: int
    epoch: int
    reader: str

    @classmethod
    def of(cls, name: str) -> _Pin:
        microbatch, commit, epoch, reader = name.rsplit("/", 1)[-1].split("-", 3)
        return cls(int(microbatch), int(commit), int(epoch), reader)

    @property
    def name(self) -> str:
        return f"{self.microbatch:020d}-{self.commit:020d}-{self.epoch}-{self.reader}"


def _folder(module: str, topology: str) -> str:
    return f"{module}/{topology}/pins"
