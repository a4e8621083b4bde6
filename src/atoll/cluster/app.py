"""A deployed, running module: its depots, PStates and topologies."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

from atoll.cluster.backfill.filling import Filling
from atoll.cluster.backfill.planning import drop_filled
from atoll.cluster.clockwork import Drive
from atoll.cluster.commit_watch import LoopWatch
from atoll.cluster.deploy.catalog import BoundTopology
from atoll.cluster.deploy.loops import Loops, own_targets
from atoll.cluster.deploy.preparing import prepare_update
from atoll.cluster.options import ModuleOptions
from atoll.cluster.queries import ASK_SECONDS, Queries
from atoll.cluster.scaling.load_watch import LoadWatch
from atoll.cluster.scaling.rests import note_rest
from atoll.cluster.scaling.revisions import Revisions
from atoll.cluster.scaling.scaling import Scaling
from atoll.cluster.sinks.delivering import bound_sinks
from atoll.cluster.sinks.handing_over import HandingOver
from atoll.cluster.sinks.running import RunningSinks
from atoll.cluster.topologies import RunningTopology, module_tables
from atoll.cluster.upkeep.shown import ModuleShown
from atoll.cluster.upkeep.trimming import DepotTrimmer
from atoll.cluster.upkeep.warnings import ModuleWarnings
from atoll.cluster.waiting import Waiting
from atoll.cluster.waits import ModuleWaits
from atoll.depot.depot import Depot
from atoll.depot.logs.followed import logs_seen, refuse_log
from atoll.errors import AtollError, FencedError, StoppedError
from atoll.microbatch.commits.history import CommitHistory
from atoll.microbatch.control.tuning import SettingsLog
from atoll.microbatch.epochs import Epoch
from atoll.microbatch.parcels.taking import ParcelTaker
from atoll.microbatch.stepping import Observer, Stepper
from atoll.path import Path as StatePath
from atoll.sources.of_module import ModuleSources
from atoll.topology.declared import DepotDeclaration, PStateDeclaration, V
from atoll.views.filling import has_joined, when_joined
from atoll.views.names import is_hidden, not_found, part_name
from atoll.views.readable import ReadablePState, check_public
from atoll.views.subscription import PAGE_ENTRIES, After, Subscription, position_after
from atoll.views.typed import TypedPState, typed

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

    from atoll.cluster.backfill.parts import Parts
    from atoll.cluster.engines import Engine
    from atoll.depot.mirror import MirrorDepot
    from atoll.module import Microbatch
    from atoll.pstate.spec import PStateSpec
    from atoll.queries.run import BoundQuery
    from atoll.sources.base import Source
    from atoll.sources.runner import RunningSource
    from atoll.storage.roots import RootStore
    from atoll.topology.graph import Graph
    from atoll.views.mirrored import MirroredPStates

__all__ = ["App"]

_T = TypeVar("_T")


class App(ModuleWaits, HandingOver, ModuleShown):
    """Everything of one module in this process. Made by ``LocalCluster.deploy``."""

    def __init__(  # noqa: PLR0913  # the parts are injected once, by the cluster
        self,
        name: str,
        *,
        store: RootStore,
        local: Path,
        engine: Engine,
        epoch: Epoch,
        depots: Mapping[str, Depot],
        mirrors: Mapping[str, MirrorDepot],
        revisions: Revisions,
        drive: Drive,
        bound_queries: Mapping[str, BoundQuery],
        mirrored: MirroredPStates,
        sources: Mapping[str, Source],
    ) -> None:
        """Topologies are added by the cluster, then started together."""
        self.name = name
        self.store = store
        self.local = local
        self.engine = engine
        self.epoch = epoch
        self._drive = drive
        self._depots = dict(depots)
        self._mirrors = mirrors
        self._loops: dict[str, Stepper] = {}
        self._fillings: dict[str, Filling] = {}
        self.cluster = Scaling(revisions, name, epoch, self._loops, self._vnode_bytes, drive.now_ms)
        """Who is in the cluster, what runs where, and how to change it."""
        self._load_watch = LoadWatch(self.cluster, self._loops)
        self._warnings = ModuleWarnings(name, store, self._loops, self._depots, drive.now_ms)
        self._declared: dict[str, dict[str, int]] = {}
        self._graphs: dict[str, Graph] = {}
        self._pstates: dict[str, ReadablePState] = {}
        self.options = ModuleOptions(
            SettingsLog(store, name),
            epoch,
            declared=self._declared,
            topologies=self._loops,
            depots=self._depots,
            pstates=self._pstates,
            now_ms=drive.now_ms,
        )
        """The options that can be changed while it runs."""
        self.queries = Queries(name, bound_queries, self._pstates, mirrored)
        """The queries, to list and to ask by name."""
        self._waiting = Waiting(name, self._loops, self._depots, mirrors)
        self._parcels = ParcelTaker(store, name, self._depots)
        self.sources = ModuleSources(store, name, sources, self._depots, drive.now_ms)
        """What feeds depots from outside."""
        self._trim = DepotTrimmer(store, name, self._depots, self._all_loops, drive.now_ms)
        self.sinks = RunningSinks(store, name, epoch, drive.now_ms)
        self._made = Loops(
            name,
            store,
            engine,
            epoch,
            drive,
            self._depots,
            mirrors,
            self.options.effective,
            self.cluster.info,
            self._trim,
            self._note_fenced,
            self.sinks,
        )
        self._histories: dict[str, CommitHistory] = {}
        self._subscriptions: weakref.WeakSet[Subscription] = weakref.WeakSet()
        self.fenced: FencedError | None = None
        self._fence_lock = threading.Lock()
        self._ended = False
        self._successor: App | None = None
        self._when_fenced: list[Callable[[FencedError], None]] = []

    def __repr__(self) -> str:
        """Its name and topologies: ``<app of module 'm': topologies mb>``."""
        return f"<app of module {self.name!r}: topologies {', '.join(self.topologies()) or 'none'}>"

    # What users call ----------------------------------------------------------------------------

    def depot(self, name: str | DepotDeclaration[Any]) -> Depot:
        """A depot, to append to and to read, by its name or as it was declared."""
        called = refuse_log(self._mirrors, part_name(name, self.name))
        return _found(self._depots, called, "depot", self.name)

    def source(self, depot: str | DepotDeclaration[Any]) -> RunningSource:
        """What feeds a depot from outside, to pause and to look at, by the depot."""
        return self.sources.get(part_name(depot, self.name))

    @overload
    def pstate(self, name: PStateDeclaration[V]) -> TypedPState[V]: ...
    @overload
    def pstate(self, name: str) -> ReadablePState: ...
    def pstate(self, name: str | PStateDeclaration[Any]) -> ReadablePState | TypedPState[Any]:
        """A PState, to read as of the last commit.

        Args:
            name: Its name; or what declared it, to get values of the declared types.

        Raises:
            NotFoundError: When there is none of that name, or it is private.
            UsageError: When it was declared by another module, or with another schema.
        """
        if isinstance(name, PStateDeclaration):
            return typed(self.pstate(name.name), name, self.name)
        if name not in self._pstates or is_hidden(name):
            raise not_found("PState", name, self.pstates(), self.name)
        return check_public(self._pstates[name])

    def subscribe(
        self,
        pstate: str | PStateDeclaration[Any],
        path: StatePath | None = None,
        *,
        after: After | None = None,
        page_entries: int = PAGE_ENTRIES,
        timeout_seconds: float = 60.0,
    ) -> Subscription:
        """The changes of one value of a PState, commit by commit; the value itself comes first.

        Args:
            pstate: The PState.
            path: Leads to the value; the whole PState when None.
            after: The position of the last change received, to go on after it; or a receipt, or
                its token, to begin as soon as the value shows what came of that.
            page_entries: How many entries of a collection the pages of its first value hold.
            timeout_seconds: How long to wait for what a receipt tells of.

        Raises:
            NotFoundError: When there is no PState of that name, or it is private.
            PathError: When the path does not fit the schema.
            UsageError: When ``after`` is no position.
        """
        readable = self.pstate(part_name(pstate, self.name))
        readable.history()  # which says so when it is being filled
        position = position_after(readable, after, timeout_seconds)
        loop = self._loops[readable.spec.topology]
        watch = LoopWatch(loop, partial(self._history, loop))
        made = Subscription(readable, path, watch, after=position, page_entries=page_entries)
        self._subscriptions.add(made)
        return made

    def query(self, name: str, /, *, timeout_seconds: float = ASK_SECONDS, **arguments: Any) -> Any:
        """Ask a query of the module; all its reads see one commit of each topology.

        Args:
            name: The query.
            timeout_seconds: How long to wait for the answer.
            **arguments: One for each of its parameters.

        Raises:
            NotFoundError: When there is no query of that name.
            UsageError: When an argument is missing, unknown or of another type.
            QueryTimeoutError: When the time is over.
            QueryError: When the query came to several rows and returns one.
            UserCodeError: When one of its functions raises.
        """
        return self.queries.ask(name, arguments, timeout_seconds)

    def dataframe(self, name: str, *, field: str | None = None) -> DataFrame:
        """A whole PState as a Spark DataFrame: columns ``key``, ``key_2``, ... and ``value``.

        It shows the last commit at the time that Spark plans the read. Each Spark partition reads
        the vnodes that one parallel unit owns then.

        Args:
            name: The PState.
            field: Which values to read of a struct whose fields are stored apart.
        """
        self.pstate(name)
        return self.engine.dataframe(
            {"root": str(self.store.root), "module": self.name}
            | {"pstate": name, "field": field or ""}
        )

    def topology(self, name: str | Microbatch) -> RunningTopology:
        """A topology, to wait for, pause and look at, by its name or as it was declared."""
        loop = _found(self._loops, part_name(name, self.name), "topology", self.name)
        sinks = partial(self.sinks.status, loop.topology)
        return RunningTopology(loop, self._warnings, self._waiting, sinks)

    def depots(self) -> list[str]:
        """The names of the depots."""
        return sorted(self._depots)

    def pstates(self) -> list[str]:
        """The names of the PStates, but for private ones."""
        return sorted(name for name, state in self._pstates.items() if not state.spec.private)

    def topologies(self) -> list[str]:
        """The names of the topologies."""
        return sorted(self._loops)

    def status(self) -> dict[str, Any]:
        """The status of every topology, and the size of every depot."""
        return {
            "module": self.name,
            "state": "stopped" if self._ended else "running",
            "error": None,
            "epoch": self.epoch.number,
            "at_ms": self._drive.now_ms(),
            "topologies": {name: self.topology(name).status() for name in self.topologies()},
            "depots": {
                name: {
                    "start_offsets": list(depot.start_offsets()),
                    "end_offsets": list(depot.end_offsets()),
                    "parcels": self._parcels.status(name),
                    "source": self.sources.status().get(name),
                }
                for name, depot in sorted(self._depots.items())
            }
            | logs_seen(self._mirrors),
        }

    def _repr_html_(self) -> str:
        """Topologies and depots as they are now, for a notebook."""
        return module_tables(self.status())

    def on_fenced(self, listener: Callable[[FencedError], None]) -> None:
        """Be told once when another process took the module over; at once when it did before.

        The listener is called in a thread of the topologies and must not wait for them. A module
        without topologies finds out only when it appends.
        """
        with self._fence_lock:
            if self.fenced is None:
                self._when_fenced.append(listener)
                return
        listener(self.fenced)

    def pause(self, timeout_seconds: float = 60.0) -> None:
        """Pause every topology; returns when none runs a microbatch."""
        for name in self.topologies():
            self.topology(name).pause(timeout_seconds)

    def resume(self) -> None:
        """Let every topology go on."""
        for name in self.topologies():
            self.topology(name).resume()

    def close(self) -> None:
        """Stop the topologies after their running microbatch, then close the depots.

        All of them, whatever one of them raises; it is raised in the end.
        """
        self.sources.close()
        self._end(lambda loop: loop.close())
        note_rest(self.store, self.name, self.epoch)

    def kill(self) -> None:
        """End as if the process had died: what runs is cut off, and nothing is finished."""
        self.sources.kill()
        self._end(lambda loop: loop.kill())

    @property
    def failure(self) -> AtollError | None:
        """Why it does not run: it does."""
        return None

    # What the cluster calls -----------------------------------------------------------------------

    def prepare_update(self, bound: list[BoundTopology]) -> None:
        """Get ready what the next version needs, while this one goes on."""
        readable: dict[str, Depot | MirrorDepot] = {**self._depots, **self._mirrors}
        prepare_update(self.engine, bound, self._loops, readable, self.cluster.info())

    def add_topology(
        self,
        bound: BoundTopology,
        starts: Mapping[str, list[int]],
        observer: Observer | None,
        parts: Parts | None = None,
    ) -> None:
        """Prepare one topology to go on where its last commit ended.

        With parts it is two as long as some of it is filled.
        """
        graph = bound.declared.graph
        self._declared[graph.topology] = dict(bound.declared.options)
        self._graphs[graph.topology] = graph
        self._waiting.chains.appends_to[graph.topology] = own_targets(graph)
        if parts is not None and has_joined(self.store, self.name, graph.topology, parts.filling):
            parts = None
        rest = bound if parts is None else parts.rest
        self.sinks.add(graph.topology, bound_sinks(graph, bound.schemas))
        loop = self._loops[graph.topology] = self._made.loop(rest, starts, observer)
        loop.status.columns = [asdict(each) for each in rest.columns]
        for name, spec in bound.program.pstates.items():
            history: Callable[[], CommitHistory] = partial(self._followed, spec, loop)
            if parts is not None and name in parts.filling.stored:
                history = when_joined(name, history)
            wait = partial(self._waiting.wait, topology=graph.topology)
            self._pstates[name] = ReadablePState(spec, self.store, self.local, history, wait=wait)
        for name in loop.depots:
            if name in self._depots:
                self._depots[name].on_append(loop.notify_append)
        if parts is not None:
            self._fill(bound, parts, loop, starts, observer)

    def _fill(
        self,
        bound: BoundTopology,
        parts: Parts,
        loop: Stepper,
        starts: Mapping[str, list[int]],
        observer: Observer | None,
    ) -> None:
        """Prepare what is filled beside a topology."""
        self._fillings[loop.topology] = Filling(
            parts.filling,
            loop,
            partial(self._made.loop, parts.fills, starts, observer, beside=loop),
            self._made.whole(bound),
            self.store,
            partial(drop_filled, self.store, self.local, self.name, parts.filling.name),
            by_hand=not self._drive.watched,
        )

    def replaced_by(self, app: App) -> None:
        """Let what was taken of this app before show what another version commits in its place."""
        self._successor = app

    def start(self) -> None:
        """Start all topologies: none of them does anything before all can."""
        beside = [each for each in self._fillings.values() if not each.over]
        all_of_them: list[Stepper | Filling] = [*self._loops.values(), *beside]
        for each in all_of_them:
            each.get_ready()
        if self._drive.watched:
            self._load_watch.start()
            self._warnings.start()
            self._parcels.start()
            self.sources.start()
            self.sinks.start()
        for each in all_of_them:
            each.start()

    def _end(self, end: Callable[[Stepper | Filling], None]) -> None:
        self._ended = True
        with ExitStack() as ending:  # in reverse order
            for depot in self._depots.values():
                ending.callback(depot.close)
            for loop in self._loops.values():
                ending.callback(end, loop)
            for filling in self._fillings.values():
                ending.callback(end, filling)
            with self._fence_lock:  # who takes the module over from now on is no news
                self._when_fenced.clear()
            self._end_subscriptions()
            self._parcels.close()
            self.sinks.close()
            self.cluster.close()
            self._load_watch.close()
            self._warnings.close()

    def _all_loops(self) -> Mapping[str, Stepper]:
        """Those that fill among them."""
        filling = [each.filler for each in self._fillings.values() if not each.over]
        return {**self._loops, **{each.topology: each for each in filling}}

    def _note_fenced(self, reason: FencedError) -> None:
        with self._fence_lock:
            if self.fenced is not None:
                return
            self.fenced = reason
        self._end_subscriptions(reason)
        for listener in self._when_fenced:
            listener(reason)

    def _end_subscriptions(self, reason: AtollError | None = None) -> None:
        for each in list(self._subscriptions):
            each.close(reason)
        for depot in self._depots.values():
            depot.end_tails(reason)

    def _followed(self, spec: PStateSpec, loop: Stepper) -> CommitHistory:
        """The log to read a PState from: where another version runs in place of this, of that.

        Raises:
            StoppedError: When that has no such PState, or keeps other values in it.
        """
        if self._successor is None:
            return self._history(loop)
        found = self._successor._pstates.get(spec.name)  # noqa: SLF001 - of the same class
        if found is None or found.spec.to_json() != spec.to_json():
            raise StoppedError(
                f"another version of module {self.name!r} runs in place of the one that PState "
                f"{spec.name!r} was taken of, and {'has' if found is None else 'keeps'} "
                f"{'no such PState' if found is None else 'other values in it'}",
                hint="read from the app that the deployment returned",
                pstate=spec.name,
            )
        return found.history()

    def _history(self, loop: Stepper) -> CommitHistory:
        """The log as of the published commit; the same object while there is no new one."""
        published = loop.published
        known = self._histories.get(loop.topology)
        if known is None or known.commit is not published:
            known = CommitHistory(self.store, self.name, loop.topology, published)
            self._histories[loop.topology] = known
        return known


def _found(things: Mapping[str, _T], name: str, kind: str, module: str) -> _T:
    if name not in things:
        raise not_found(kind, name, things, module)
    return things[name]
