"""Objects in a dict, for tests. Nothing outlives the process."""

from __future__ import annotations

import threading
from typing import Any

from atoll.errors import NotFoundError
from atoll.storage.objects import ObjectExistsError, check_name


class MemoryStore:
    """An :class:`~atoll.storage.objects.ObjectStore` in memory.

    A pickled copy is a copy: unlike the other stores, it is not shared between processes.
    """

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """The objects without the lock."""
        with self._lock:
            return {"objects": dict(self._objects)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Objects as pickled, and a lock of its own."""
        self._objects = state["objects"]
        self._lock = threading.Lock()

    def create(self, name: str, data: bytes) -> None:
        """Create the object or raise ObjectExistsError."""
        check_name(name)
        with self._lock:
            if name in self._objects:
                raise ObjectExistsError("the object exists already", file=name)
            self._objects[name] = bytes(data)

    def write(self, name: str, data: bytes) -> None:
        """Write a uniquely named object."""
        check_name(name)
        with self._lock:
            self._objects[name] = bytes(data)

    def settle(self, name: str) -> None:
        """Nothing to do: what is there is as durable as the process."""
        if not self.exists(name):
            raise NotFoundError("no such object", file=name)

    def read(self, name: str) -> bytes:
        """The object's bytes, or NotFoundError."""
        check_name(name)
        with self._lock:
            if name not in self._objects:
                raise NotFoundError("no such object", file=name)
            return self._objects[name]

    def exists(self, name: str) -> bool:
        """Whether the object exists."""
        check_name(name)
        with self._lock:
            return name in self._objects

    def list(self, prefix: str) -> list[str]:
        """The names below the folder ``prefix``, sorted."""
        folder = f"{check_name(prefix.rstrip('/'))}/" if prefix.rstrip("/") else ""
        with self._lock:
            return sorted(name for name in self._objects if name.startswith(folder))

    def delete(self, name: str) -> None:
        """Delete the object if it is there."""
        check_name(name)
        with self._lock:
            self._objects.pop(name, None)
