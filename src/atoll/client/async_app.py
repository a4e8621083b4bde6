"""A module on a service for tasks of an event loop: as :mod:`atoll.client.app`, and awaited."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from atoll.client.app import changes_told
from atoll.client.asking.module import ModuleCalls, Told, member, value_of_option
from atoll.client.asking.moved import Moved
from atoll.client.following import AsyncFollowed
from atoll.client.parts import records_told, shape_of, with_refusals
from atoll.client.producing import ARROW_STREAM, Producers, Written
from atoll.client.wire import Address, AsyncWire
from atoll.codec.records.codec import RecordCodec
from atoll.ddl import parse_ddl
from atoll.depot.append.checking import checked_parts
from atoll.depot.receipt import Receipt
from atoll.depot.tail import TailBatch
from atoll.path import Path
from atoll.placement.reschedule.change import UnitChange
from atoll.topology.declared import DepotDeclaration, PStateDeclaration
from atoll.views.names import part_name
from atoll.views.subscription import PAGE_ENTRIES, After
from atoll.views.typed import Shape
from atoll.views.value_change import ValueChange

if TYPE_CHECKING:
    from atoll.depot import Producer
    from atoll.depot.depot import OnInvalid
    from atoll.depot.tail_start import Start
    from atoll.module import Microbatch

__all__ = ["AsyncPState", "AsyncRemoteApp", "AsyncRemoteDepot", "AsyncTopology"]


class AsyncRemoteDepot:
    """A depot of a service, for tasks. Made by :meth:`AsyncRemoteApp.depot`."""

    def __init__(
        self,
        wire: AsyncWire,
        calls: ModuleCalls,
        described: Mapping[str, Any],
        producers: Producers,
        row_class: type | None,
    ) -> None:
        self._wire = wire
        self._calls = calls
        self._producers = producers
        self._row_class = row_class
        self.name: str = described["name"]
        self.partitions: int = described["partitions"]
        self.codec = RecordCodec(parse_ddl(described["ddl"]))

    async def append(
        self, data: Any, on_invalid: OnInvalid = "none", producer: Producer | None = None
    ) -> Receipt:
        """Append records; when this returns they are durable, and stored once."""
        written = await asyncio.to_thread(self._write, data, on_invalid)
        numbered = (
            self._producers.numbered(self.name)
            if producer is None
            else contextlib.nullcontext(producer)
        )
        with contextlib.closing(written), numbered as named:
            call = self._calls.append(self.name, written.pieces, ARROW_STREAM, on_invalid, named)
            return with_refusals(await self._wire.run(call), written)

    async def start_offsets(self) -> tuple[int, ...]:
        """Per depot partition, the oldest offset that is still there."""
        return tuple((await self._described())["start_offsets"])

    async def end_offsets(self) -> tuple[int, ...]:
        """Per depot partition, the offset after the last acknowledged record."""
        return tuple((await self._described())["end_offsets"])

    async def everything(self) -> Receipt:
        """A receipt of all that it holds now."""
        return await self._wire.run(self._calls.everything(self.name))

    async def tail(
        self,
        start: Start = None,
        *,
        partition: int | None = None,
        follow: bool = True,
        batch_records: int = 10_000,
    ) -> AsyncFollowed[TailBatch]:
        """The records from somewhere on: ``async for batch in await depot.tail()``."""
        found = await self._described()
        spans = list(zip(found["start_offsets"], found["end_offsets"], strict=True))
        told = records_told(
            self._calls, self.name, start, spans, self._row_class,
            partition=partition, follow=follow, batch_records=batch_records,
        )  # fmt: skip
        return AsyncFollowed(self._wire, told)

    def _write(self, data: Any, on_invalid: str) -> Written:
        batches = checked_parts(data, self.codec, self.name)
        return Written(batches, self.codec, self.name, on_invalid)

    async def _described(self) -> dict[str, Any]:
        found: dict[str, Any] = await self._wire.run(self._calls.get("depots", self.name))
        return found


class AsyncPState:
    """A PState of a service, for tasks: its values plain. Made by :meth:`AsyncRemoteApp.pstate`."""

    def __init__(
        self, wire: AsyncWire, calls: ModuleCalls, spec: Shape, as_of: int | None = None
    ) -> None:
        self._wire = wire
        self._calls = calls
        self._as_of = as_of
        self.spec = spec
        self.name = spec.name

    async def get(self, *keys: object, default: Any = None) -> Any:
        """The value at the keys, one per map on the way; no keys: the whole of it."""
        return await self._wire.run(self._calls.value(self.name, keys, default, self._as_of))

    async def select(self, path: Path) -> list[Any]:
        """All values that the path leads to."""
        call = self._calls.select(self.name, path, one=False, as_of=self._as_of)
        found: list[Any] = await self._wire.run(call)
        return found

    async def select_one(self, path: Path) -> Any:
        """The one value that the path leads to."""
        call = self._calls.select(self.name, path, one=True, as_of=self._as_of)
        return await self._wire.run(call)

    async def after(self, *receipts: Told, timeout_seconds: float = 60.0) -> Self:
        """The PState itself, once it shows what came of what was appended."""
        await self._wire.run(self._calls.wait_shown(self.spec.topology, receipts, timeout_seconds))
        return self

    async def as_of(self, microbatch: int) -> AsyncPState:
        """The PState as it was after an earlier microbatch."""
        await self._wire.run(self._calls.readable(self.name, microbatch))
        return AsyncPState(self._wire, self._calls, self.spec, microbatch)


class AsyncTopology:
    """A topology of a service, for tasks. Made by :meth:`AsyncRemoteApp.topology`."""

    def __init__(self, wire: AsyncWire, calls: ModuleCalls, name: str) -> None:
        self._wire = wire
        self._calls = calls
        self.name = name

    async def wait(self, *receipts: Told, timeout_seconds: float = 60.0) -> int:
        """Wait until readers see what it makes of what was appended; the microbatch they see."""
        return await self._wire.run(self._calls.wait_shown(self.name, receipts, timeout_seconds))

    async def wait_processed(self, count: int, timeout_seconds: float = 60.0) -> None:
        """Wait until so many records were processed over the topology's life, and are visible."""
        wanted = {"processed": count}
        await self._wire.run(self._calls.wait_topology(self.name, wanted, timeout_seconds))

    async def wait_filled(self, timeout_seconds: float = 60.0) -> None:
        """Wait until all that is filled from the past has joined, and is readable."""
        wanted = {"filled": True}
        await self._wire.run(self._calls.wait_topology(self.name, wanted, timeout_seconds))

    async def pause(self) -> None:
        """Start no further microbatch; returns when the running one has ended."""
        await self._wire.run(self._calls.act(self.name, "pause"))

    async def resume(self) -> None:
        """Go on after a pause or a failure."""
        await self._wire.run(self._calls.act(self.name, "resume"))

    async def rollback(self, to_microbatch: int, *, keep_appended: bool = False) -> None:
        """Go back to the state as it was after an earlier microbatch, and pause."""
        data = {"to_microbatch": to_microbatch, "keep_appended": keep_appended}
        await self._wire.run(self._calls.act(self.name, "rollback", data))

    async def rollback_plan(self, to_microbatch: int) -> dict[str, Any]:
        """What :meth:`rollback` to a microbatch would do now; changes nothing."""
        call = self._calls.rollback_plan(self.name, to_microbatch)
        found: dict[str, Any] = await self._wire.run(call)
        return found

    async def checkpoint(self) -> int:
        """Write all state that changed to checkpoints, now; the commit that holds them."""
        read = member("checkpoint")
        found: int = await self._wire.run(self._calls.act(self.name, "checkpoint", read=read))
        return found

    async def status(self) -> dict[str, Any]:
        """Id, version, step, lag by depot partition, durations by step, error and warnings."""
        found: dict[str, Any] = await self._wire.run(self._calls.get("topologies", self.name))
        return found

    async def recent_microbatches(self) -> list[dict[str, Any]]:
        """The last microbatches that its process committed, oldest first."""
        found: list[dict[str, Any]] = await self._wire.run(self._calls.recent(self.name))
        return found


class AsyncOptions:
    """The options of a module, for tasks."""

    def __init__(self, wire: AsyncWire, calls: ModuleCalls) -> None:
        self._wire = wire
        self._calls = calls

    async def set(self, option: str, value: int, **where: str | None) -> None:
        """Set an option for the module, or for a ``topology``, ``depot`` or ``pstate``."""
        await self._wire.run(self._calls.set_option(option, value, where))

    async def unset(self, option: str, **where: str | None) -> None:
        """Take back what :meth:`set` set there."""
        await self._wire.run(self._calls.set_option(option, None, where))

    async def get(self, option: str, **where: str | None) -> int:
        """The value that stands for a ``topology``, or for a ``depot`` or ``pstate`` of it."""
        described = await self.describe()
        names = (where.get(each) for each in ("topology", "depot", "pstate"))
        return value_of_option(described, option, *names)

    async def describe(self) -> dict[str, Any]:
        """What is set by level, what is declared, and what stands for each topology."""
        found: dict[str, Any] = await self._wire.run(self._calls.get("options"))
        return found


class AsyncCluster:
    """The cluster of a module, for tasks."""

    def __init__(self, wire: AsyncWire, calls: ModuleCalls) -> None:
        self._wire = wire
        self._calls = calls

    async def describe(self) -> dict[str, Any]:
        """Workers, fragments with their actors, and the fragment-by-unit matrix."""
        found: dict[str, Any] = await self._wire.run(self._calls.get("cluster"))
        return found

    async def reschedule(
        self,
        changes: Mapping[int, UnitChange],
        *,
        revision: int,
        resolve: bool = False,
        dry_run: bool = False,
        timeout_seconds: float = 60.0,
    ) -> Moved:
        """Change which units run some fragments: all of the changes, or none."""
        asked = {"revision": revision, "resolve": resolve, "dry_run": dry_run}
        return await self._wire.run(self._calls.reschedule(changes, asked, timeout_seconds))

    async def set_parallelism(
        self, topology: str, policy: str, *, dry_run: bool = False, timeout_seconds: float = 60.0
    ) -> Moved:
        """Let a policy decide a topology's parallelism."""
        return await self._wire.run(
            self._calls.set_parallelism(topology, policy, dry_run=dry_run, seconds=timeout_seconds)
        )

    async def cordon(self, workers: Iterable[int]) -> dict[str, Any]:
        """Give these workers no new actors; the cluster then."""
        return await self._wire.run(self._calls.of_workers("cordon", workers))

    async def uncordon(self, workers: Iterable[int]) -> dict[str, Any]:
        """Let these workers get new actors again; the cluster then."""
        return await self._wire.run(self._calls.of_workers("uncordon", workers))


class AsyncRemoteApp:
    """A module on a service, for tasks of an event loop. Made by :func:`atoll.connect_async`.

    Attributes:
        name: The module.
        url: Where the service is.
    """

    def __init__(self, address: Address, module: str) -> None:
        """Made by :func:`atoll.connect_async`."""
        self.name = module
        self.url = address.url
        self._wire = AsyncWire(address)
        self._calls = ModuleCalls(module)
        self._producers = Producers()
        self.options = AsyncOptions(self._wire, self._calls)
        """The options that can be changed while it runs."""
        self.cluster = AsyncCluster(self._wire, self._calls)
        """Who is in the cluster, what runs where, and how to change it."""

    def __repr__(self) -> str:
        """Its name and where."""
        return f"<module {self.name!r} at {self.url}, for tasks>"

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection."""
        await self.close()

    async def depot(self, name: str | DepotDeclaration[Any]) -> AsyncRemoteDepot:
        """A depot, to append to and to read."""
        row_class = None if isinstance(name, str) else name.row_class
        described = await self._wire.run(self._calls.get("depots", part_name(name, self.name)))
        return AsyncRemoteDepot(self._wire, self._calls, described, self._producers, row_class)

    async def pstate(self, name: str | PStateDeclaration[Any]) -> AsyncPState:
        """A PState, to read as of the last commit; its values plain."""
        described = await self._wire.run(self._calls.get("pstates", part_name(name, self.name)))
        return AsyncPState(self._wire, self._calls, shape_of(described))

    def subscribe(
        self,
        pstate: str | PStateDeclaration[Any],
        path: Path | None = None,
        *,
        after: After | None = None,
        page_entries: int = PAGE_ENTRIES,
        timeout_seconds: float = 60.0,
    ) -> AsyncFollowed[ValueChange]:
        """The changes of one value: ``async for change in app.subscribe("counts")``."""
        name = part_name(pstate, self.name)
        told = changes_told(self._calls, name, path, after, page_entries, timeout_seconds)
        return AsyncFollowed(self._wire, told)

    async def query(self, name: str, /, *, timeout_seconds: float = 10.0, **arguments: Any) -> Any:
        """Ask a query of the module; all its reads see one commit of each topology."""
        return await self._wire.run(self._calls.ask(name, arguments, timeout_seconds))

    def topology(self, name: str | Microbatch) -> AsyncTopology:
        """A topology, to wait for, pause and look at."""
        return AsyncTopology(self._wire, self._calls, part_name(name, self.name))

    async def depots(self) -> list[str]:
        """The names of the depots."""
        return await self._listed("depots")

    async def pstates(self) -> list[str]:
        """The names of the PStates, but for private ones."""
        return await self._listed("pstates")

    async def topologies(self) -> list[str]:
        """The names of the topologies."""
        return await self._listed("topologies")

    async def queries(self) -> list[str]:
        """The names of the queries."""
        return await self._listed("queries")

    async def status(self) -> dict[str, Any]:
        """The status of every topology, and the size of every depot."""
        found: dict[str, Any] = await self._wire.run(self._calls.get("status"))
        return found

    async def wait(self, *receipts: Told, timeout_seconds: float = 60.0) -> dict[str, int]:
        """Wait until readers see all that comes of what was appended."""
        return await self._wire.run(self._calls.wait(receipts, timeout_seconds))

    async def wait_idle(self, *, timeout_seconds: float = 60.0) -> None:
        """Wait until no topology has anything to do."""
        await self._wire.run(self._calls.wait_idle(timeout_seconds))

    async def close(self) -> None:
        """Close the connection; the module goes on."""
        await self._wire.close()

    async def _listed(self, what: str) -> list[str]:
        found: list[str] = await self._wire.run(self._calls.get(what, read=member(what)))
        return found
