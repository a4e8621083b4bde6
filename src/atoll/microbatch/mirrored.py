"""Which commits of other modules' topologies a microbatch reads, and that they stay readable.

A plan names, for each topology whose PStates it mirrors, the commit as of which every attempt
reads them. Before the plan is made the commit is *pinned*: an object beside the mirrored
topology's own says so, and that topology keeps the commit readable while the pin is there. A pin
goes when the microbatch has committed.

Why nothing slips through: a coordinator decides what stays readable when it builds a commit, and
keeps two commits before it at least. So a commit that is still the last one *after* it was pinned
is readable as of the next one, and whoever builds the one after that sees the pin.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from atoll.errors import StateError
from atoll.microbatch.progress import latest_commit
from atoll.storage.objects import ObjectExistsError, ObjectStore

__all__ = ["MirroredTopologies", "lowest_pin", "readers_above"]

_TRIES_MAX = 100


class MirroredTopologies:
    """The topologies that one topology mirrors.

    Args:
        store: The root.
        reader: The module and topology that read.
        mirrored: The modules and topologies that are read.
    """

    def __init__(
        self, store: ObjectStore, reader: tuple[str, str], mirrored: Sequence[tuple[str, str]]
    ) -> None:
        """Nothing is pinned yet."""
        self._store = store
        self._reader = ".".join(reader)
        self._mirrored = mirrored

    def pin(self, microbatch: int) -> dict[str, int]:
        """Pin the last commit of each, for the plan of a microbatch.

        Raises:
            StateError: When one commits faster than it can be pinned.
        """
        return {f"{m}/{t}": self._pin(m, t, microbatch) for m, t in self._mirrored}

    def release(self, microbatch: int) -> None:
        """Drop the pins of a microbatch that has committed, and of those before it."""
        for module, topology in self._mirrored:
            for name in self._store.list(_folder(module, topology)):
                number, _, reader = _parsed(name)
                if reader == self._reader and number <= microbatch:
                    self._store.delete(name)

    def _pin(self, module: str, topology: str, microbatch: int) -> int:
        head = latest_commit(self._store, module, topology)
        for _ in range(_TRIES_MAX):
            folder = _folder(module, topology)
            name = f"{folder}/{microbatch:020d}-{head.id:020d}-{self._reader}"
            with contextlib.suppress(ObjectExistsError):
                self._store.create(name, b"")
            now = latest_commit(self._store, module, topology)
            if (now.id, now.timeline) == (head.id, head.timeline):
                return head.id
            self._store.delete(name)
            head = now
        raise StateError(
            f"topology {topology!r} of module {module!r} commits faster than it can be mirrored",
            hint="this is tried again by itself",
        )


def lowest_pin(store: ObjectStore, module: str, topology: str) -> int | None:
    """The lowest commit of a topology that another one is about to read; None for none."""
    return min((_parsed(n)[1] for n in store.list(_folder(module, topology))), default=None)


def readers_above(store: ObjectStore, module: str, topology: str, commit: int) -> list[str]:
    """Who is about to read a commit of a topology that is later than the one given."""
    pins = map(_parsed, store.list(_folder(module, topology)))
    return sorted({reader for _, pinned, reader in pins if pinned > commit})


def _folder(module: str, topology: str) -> str:
    return f"{module}/{topology}/pins"


def _parsed(name: str) -> tuple[int, int, str]:
    microbatch, commit, reader = name.rsplit("/", 1)[-1].split("-", 2)
    return int(microbatch), int(commit), reader
