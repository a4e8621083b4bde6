"""The modules of a root as a door shows them: read here, whoever runs them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, cast

from atoll.ddl import parse_ddl
from atoll.depot.outside import OutsideDepot
from atoll.depot.tail import BATCH_RECORDS, Tail
from atoll.depot.tail_start import Start
from atoll.errors import UsageError
from atoll.server.context import Served
from atoll.server.doors.owners import owner_of
from atoll.storage.places import Place
from atoll.storage.roots import RootStore, open_store
from atoll.views.connect import Connected, connect
from atoll.views.deployment import deployment_number

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.cluster.deploy.stopped import AppOrStopped
    from atoll.path import Path as StatePath
    from atoll.views.readable import ReadablePState
    from atoll.views.subscription import After, Subscription


@dataclass(frozen=True)
class _DepotShape:
    """What is told of a depot."""

    name: str
    schema: pa.Schema
    partitions: int


class DoorDepot:
    """A depot to be described and read; appends are passed on."""

    def __init__(self, outside: OutsideDepot, spec: _DepotShape) -> None:
        self._outside = outside
        self.spec = spec

    def start_offsets(self) -> tuple[int, ...]:
        """By depot partition, the oldest record's offset."""
        self._outside.end_offsets()  # which looks at what is there now
        return self._outside.start_offsets()

    def end_offsets(self) -> tuple[int, ...]:
        """By depot partition, the offset after the last acknowledged record."""
        return self._outside.end_offsets()

    def tail(
        self,
        start: Start = None,
        *,
        partition: int | None = None,
        follow: bool = True,
        batch_records: int = BATCH_RECORDS,
    ) -> Tail:
        """The records from somewhere on, batch by batch."""
        return self._outside.tail(
            start, partition=partition, follow=follow, batch_records=batch_records
        )


class DoorModule:
    """One module, read from the root, as the routes that a door answers itself ask it.

    Args:
        store: The root.
        name: The module.
    """

    failure = None
    """Whether it runs is its owner's to say."""

    def __init__(self, store: RootStore, name: str) -> None:
        self.name = name
        self._store = store
        self._lock = threading.Lock()
        self._known: tuple[int | None, Connected] | None = None

    def depots(self) -> list[str]:
        """The names of the depots."""
        return self._connected().depots()

    def depot(self, name: str) -> DoorDepot:
        """A depot, to describe and to read."""
        connected = self._connected()
        outside = connected.depot(name)
        deployed = connected.deployment.depots[name]
        return DoorDepot(outside, _DepotShape(name, parse_ddl(deployed.ddl), deployed.partitions))

    def pstates(self) -> list[str]:
        """The names of the PStates, but for private ones."""
        return self._connected().pstates()

    def pstate(self, name: str) -> ReadablePState:
        """A PState, to read as of the last commit."""
        return self._connected().pstate(name)

    def topologies(self) -> list[str]:
        """The names of the topologies."""
        return sorted(self._connected().deployment.topologies)

    def topology(self, name: str) -> DoorTopology:
        """A topology, of which nothing is known here but that it is somebody else's."""
        return DoorTopology(name)

    def subscribe(
        self,
        pstate: str,
        path: StatePath | None = None,
        *,
        after: After | None = None,
        page_entries: int = 1000,
        timeout_seconds: float = 60.0,
    ) -> Subscription:
        """The changes of one value of a PState, commit by commit."""
        return self._connected().subscribe(
            pstate, path, after=after, page_entries=page_entries, timeout_seconds=timeout_seconds
        )

    def wait_fresh(self, pstate: str, *, timeout_seconds: float = 60.0) -> NoReturn:
        """Refused: such requests are passed on."""
        del timeout_seconds
        raise UsageError(
            f"only the process that runs PState {pstate!r} knows what is fresh",
            hint="ask it: its address is in the root",
        )

    def _connected(self) -> Connected:
        """The module as it is deployed now; the same object while it is the same version."""
        number = deployment_number(self._store, self.name)
        with self._lock:
            if self._known is None or self._known[0] != number:
                self._known = (number, connect(self._store.root, self.name))
            return self._known[1]


@dataclass(frozen=True)
class DoorTopology:
    """A topology that another process runs."""

    name: str

    def status(self) -> dict[str, Any]:
        """That it is followed."""
        return {"state": "followed", "error": None, "warnings": []}


class DoorModules(Served):
    """All modules that were ever deployed on a root, also those that come later.

    Args:
        root: Where everything lies that lasts.
    """

    def __init__(self, root: Place) -> None:
        super().__init__({}, {})
        self.store = open_store(root)
        self._modules: dict[str, DoorModule] = {}

    def __getitem__(self, name: str) -> AppOrStopped:
        """The module, as far as it is read here."""
        if not _is_deployed(self.store, name):
            raise KeyError(name)
        made = self._modules.setdefault(name, DoorModule(self.store, name))
        # It has what the routes ask that are not passed on to the process that runs the module.
        return cast("AppOrStopped", made)

    def __iter__(self) -> Iterator[str]:
        """Their names."""
        return iter([name for name in self.store.folders("") if _is_deployed(self.store, name)])

    def __len__(self) -> int:
        """How many there are."""
        return sum(1 for _ in self)

    def is_runtime(self, name: str) -> bool:
        """Whether a module is that of a runtime: its owner says, when it is written to."""
        del name
        return False

    def url_of(self, module: str) -> str:
        """Where the process that runs a module is served.

        Raises:
            StoppedError: When nobody serves it.
        """
        return owner_of(self.store, module).url


def _is_deployed(store: RootStore, name: str) -> bool:
    return not name.startswith(".") and "deployments" in store.folders(name)
