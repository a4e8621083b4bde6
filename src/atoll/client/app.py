"""A module on a service, as an app is held in its process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, overload

from atoll.client.asking.module import ModuleCalls, Told, member
from atoll.client.following import RemoteFollowed
from atoll.client.frames import ChangesTold
from atoll.client.managing import RemoteCluster, RemoteOptions, RemoteQueries
from atoll.client.parts import (
    RemoteDepot,
    RemotePState,
    RemoteTopology,
    found_name,
    shape_of,
)
from atoll.client.producing import Producers
from atoll.client.wire import Address, Wire
from atoll.depot.receipt import Awaited, Receipt
from atoll.errors import UsageError
from atoll.path import Path
from atoll.topology.declared import DepotDeclaration, PStateDeclaration, V
from atoll.views.names import part_name
from atoll.views.subscription import PAGE_ENTRIES, After
from atoll.views.typed import TypedPState, typed
from atoll.views.value_change import Position, ValueChange

if TYPE_CHECKING:
    from atoll.module import Microbatch

__all__ = ["RemoteApp"]


class RemoteApp:
    """A module on a service: the methods of :class:`~atoll.cluster.app.App`, over HTTP.

    Made by :func:`atoll.connect`. Safe from any thread. Closing it ends the connection; the module
    goes on.

    What differs from a local app: paths with functions of Python cannot be sent; what changes
    placement answers with plain data; and there are no DataFrames.

    Attributes:
        name: The module.
        url: Where the service is.
    """

    def __init__(self, address: Address, module: str) -> None:
        """Made by :func:`atoll.connect`."""
        self.name = module
        self.url = address.url
        self._wire = Wire(address)
        self._calls = ModuleCalls(module)
        self._producers = Producers()
        self.queries = RemoteQueries(self._wire, self._calls)
        """The queries, to list and to ask by name."""
        self.options = RemoteOptions(self._wire, self._calls)
        """The options that can be changed while it runs."""
        self.cluster = RemoteCluster(self._wire, self._calls)
        """Who is in the cluster, what runs where, and how to change it."""

    def __repr__(self) -> str:
        """Its name and where: ``<module 'shop' at http://127.0.0.1:7410>``."""
        return f"<module {self.name!r} at {self.url}>"

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection."""
        self.close()

    def depot(self, name: str | DepotDeclaration[Any]) -> RemoteDepot:
        """A depot, to append to and to read, by its name or as it was declared.

        Raises:
            NotFoundError: When the module has none of that name.
            UsageError: When it was declared by another module.
        """
        row_class = None if isinstance(name, str) else name.row_class
        called = part_name(name, self.name)
        described = self._wire.run(self._calls.get("depots", called))
        return RemoteDepot(self._wire, self._calls, described, self._producers, row_class)

    @overload
    def pstate(self, name: PStateDeclaration[V]) -> TypedPState[V]: ...
    @overload
    def pstate(self, name: str) -> RemotePState: ...
    def pstate(self, name: str | PStateDeclaration[Any]) -> RemotePState | TypedPState[Any]:
        """A PState, to read as of the last commit.

        Args:
            name: Its name; or what declared it, to get values of the declared types.

        Raises:
            NotFoundError: When there is none of that name, or it is private.
            UsageError: When it was declared by another module, or with another schema.
        """
        if isinstance(name, PStateDeclaration):
            return typed(self.pstate(name.name), name, self.name)
        described = self._wire.run(self._calls.get("pstates", name))
        return RemotePState(self._wire, self._calls, shape_of(described))

    def subscribe(
        self,
        pstate: str | PStateDeclaration[Any],
        path: Path | None = None,
        *,
        after: After | None = None,
        page_entries: int = PAGE_ENTRIES,
        timeout_seconds: float = 60.0,
    ) -> RemoteFollowed[ValueChange]:
        """The changes of one value of a PState, commit by commit; the value itself comes first.

        It goes on by itself, behind what came last, when the connection was lost.

        Args:
            pstate: The PState.
            path: Leads to the value; the whole PState when None.
            after: The position of the last change received; or a receipt, or its token.
            page_entries: How many entries of a collection the pages of its first value hold.
            timeout_seconds: How long to wait for what a receipt tells of.

        Raises:
            NotFoundError: When there is no PState of that name, or it is private.
            PathError: When the path does not fit the schema.
            UsageError: When ``after`` is no position.
        """
        told = changes_told(
            self._calls,
            part_name(pstate, self.name),
            path,
            after,
            page_entries,
            timeout_seconds,
        )
        return RemoteFollowed(self._wire, told)

    def query(self, name: str, /, *, timeout_seconds: float = 10.0, **arguments: Any) -> Any:
        """Ask a query of the module; all its reads see one commit of each topology.

        Raises:
            NotFoundError: When there is no query of that name.
            UsageError: When an argument is missing, unknown or of another type.
            QueryTimeoutError: When the time is over.
            QueryError: When the query came to several rows and returns one.
            UserCodeError: When one of its functions raises.
        """
        return self.queries.ask(name, arguments, timeout_seconds)

    def topology(self, name: str | Microbatch) -> RemoteTopology:
        """A topology, to wait for, pause and look at.

        Raises:
            NotFoundError: When there is none of that name.
        """
        called = part_name(name, self.name)
        found_name(called, self.topologies(), "topology", self.name)
        return RemoteTopology(self._wire, self._calls, called)

    def depots(self) -> list[str]:
        """The names of the depots."""
        return self._listed("depots")

    def pstates(self) -> list[str]:
        """The names of the PStates, but for private ones."""
        return self._listed("pstates")

    def topologies(self) -> list[str]:
        """The names of the topologies."""
        return self._listed("topologies")

    def graph(self) -> dict[str, Any]:
        """Its depots, steps and PStates as nodes, and edges between them, as plain data."""
        found: dict[str, Any] = self._wire.run(self._calls.get("graph"))
        return found

    def status(self) -> dict[str, Any]:
        """The status of every topology, and the size of every depot."""
        found: dict[str, Any] = self._wire.run(self._calls.get("status"))
        return found

    def wait(self, *receipts: Told, timeout_seconds: float = 60.0) -> dict[str, int]:
        """Wait until readers see all that comes of what was appended.

        Raises:
            ReceiptError: When a receipt is of another depot or root, or records of it were trimmed
                before they were read.
            TopologyFailedError: When one of the topologies stopped as failed.
            WaitTimeoutError: When it takes longer.
        """
        return self._wire.run(self._calls.wait(receipts, timeout_seconds))

    def wait_idle(self, *, timeout_seconds: float = 60.0) -> None:
        """Wait until no topology has anything to do: no records, rows of others, or timers due."""
        self._wire.run(self._calls.wait_idle(timeout_seconds))

    def wait_committed(
        self,
        depot: str,
        ends: Mapping[int, int] | None = None,
        *,
        timeout_seconds: float = 60.0,
    ) -> dict[str, int]:
        """Wait until every topology that reads a depot has committed its records."""
        return self._wire.run(self._calls.wait_committed(depot, ends, timeout_seconds))

    def wait_fresh(self, pstate: str, *, timeout_seconds: float = 60.0) -> int:
        """Wait until a PState shows all that the depots of its topology hold now."""
        return self._wire.run(self._calls.wait_fresh(pstate, timeout_seconds))

    def pause(self) -> None:
        """Pause every topology; returns when none runs a microbatch."""
        for name in self.topologies():
            self.topology(name).pause()

    def resume(self) -> None:
        """Let every topology go on."""
        for name in self.topologies():
            self.topology(name).resume()

    def close(self) -> None:
        """Close the connection; the module goes on."""
        self._wire.close()

    def _listed(self, what: str) -> list[str]:
        found: list[str] = self._wire.run(self._calls.get(what, read=member(what)))
        return found


def changes_told(
    calls: ModuleCalls,
    pstate: str,
    path: Path | None,
    after: After | None,
    page_entries: int,
    timeout_seconds: float,
) -> ChangesTold:
    """How a subscription is asked for."""
    if page_entries < 1:
        raise UsageError(f"a page cannot hold {page_entries} entries", hint="choose 1 or more")
    steps = json.dumps((path or Path()).to_json())
    params = {"path": steps, "page_entries": str(page_entries)}
    call = calls.get("pstates", pstate, "subscribe", params=params)
    call = replace(call, values=True, wait_seconds=timeout_seconds, wait_in_body=False)
    return ChangesTold(call, _position(after))


def _position(after: After | None) -> str | None:
    match after:
        case None:
            return None
        case Receipt() | Awaited():
            return after.token
        case tuple():
            return str(Position.of(after))
    return str(after)
