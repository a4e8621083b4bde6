"""A module: the unit that is deployed, with its depots, PStates and topologies.

Declaring does nothing but check and remember. ``import atoll`` and a module's declaration start
no Spark and open no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from atoll.durations import parse_millis
from atoll.errors import DeclarationError
from atoll.names import check_name
from atoll.objects import as_row
from atoll.placement.policies.policy import POLICY_DEFAULT
from atoll.queries.declare import QueryGraph, arguments_of
from atoll.queries.parameters import Arguments
from atoll.schema import Map, Set
from atoll.stream.mirrors import log_depot, mirror_depot, mirror_pstate
from atoll.stream.pstate import PState
from atoll.stream.stream import Stream
from atoll.stream.ticks import ticking
from atoll.topology.checks import (
    check_count,
    check_key_partitioner,
    check_partitioner,
    check_per_vnode,
    checked_policy,
    new_name,
    own_vnode,
)
from atoll.topology.declared import (
    REJECTED_DDL,
    Columns,
    DepotDeclaration,
    PStateDeclaration,
    R,
    Schema,
    TickDeclaration,
    V,
)
from atoll.topology.graph import COLUMNS_WAYS, ColumnsWay, Graph
from atoll.topology.sources import Source
from atoll.topology.usercode import check_columns, declared_at, placed

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Mapping

    from atoll.depot.logs.declared import OutsideLog
    from atoll.depot.start import StartFrom
    from atoll.sources.base import Source as Feed

__all__ = ["Microbatch", "Module"]

_TAKEN = "choose another name, or use the first one"
_VNODE_COUNT_MAX = 32_768
_DEPOT_PARTITIONS_MAX = 4_096


class Module:
    """Declares depots and topologies under one name.

    Args:
        name: Letters, digits, ``-`` and ``_``; it is part of folder names and URLs.
    """

    def __init__(self, name: str) -> None:
        self.name = check_name(name, "module", declared_at(1))
        self.depots: dict[str, DepotDeclaration] = {}
        self.ticks: dict[str, TickDeclaration] = {}
        self.topologies: dict[str, Microbatch] = {}
        self.queries: dict[str, QueryGraph] = {}
        self.mirrored_depots: dict[str, DepotDeclaration] = {}
        self.mirrored_pstates: dict[str, PStateDeclaration] = {}
        self.logs: dict[str, DepotDeclaration] = {}
        """The depots whose records lie in logs that others keep."""

    def __repr__(self) -> str:
        """Its name and topologies: ``<module 'm': topologies mb>``."""
        return f"<module {self.name!r}: topologies {', '.join(self.topologies) or 'none'}>"

    def depot(  # noqa: PLR0913  # each is a keyword that users choose by itself
        self,
        name: str,
        schema: type[R] | Columns,
        *,
        partition_by: str | Callable[[Mapping[str, Any], int], int] | None = None,
        partitions: int = 4,
        is_global: bool = False,
        retain_records: int | None = None,
        retain_seconds: float | None = None,
        source: Feed | None = None,
        kafka: OutsideLog | None = None,
    ) -> DepotDeclaration[R]:
        """Declare a depot.

        Args:
            name: Unique among the module's depots.
            schema: Spark DDL: ``"user_id long NOT NULL, at timestamp"``; or a class with fields,
                whose objects can then be appended; or an Arrow schema.
            partition_by: A field (equal values stay together, in order), a function from record
                and partition count to an index, or None to spread records evenly.
            partitions: How many depot partitions; fixed for the depot's life.
            is_global: One depot partition for all records.
            retain_records: Keep at least the newest so many records of each depot partition.
            retain_seconds: Keep at least the records of the last so many seconds.
            source: What feeds it from outside while the module runs, each record exactly once:
                one of :mod:`atoll.sources`. Records can be appended all the same.
            kafka: ``atoll.Kafka(...)``: the records are those of a topic, and its partitions are
                the depot's. Nothing is appended to it here; partitions and retention are Kafka's.

        Raises:
            DeclarationError: When the schema is wrong or names no such field.
        """
        from atoll.codec.spellings import columns_of

        place = declared_at(1)
        new_name(name, "depot", self._sources(), place, _TAKEN)
        with placed(place):
            parsed = columns_of(schema)
            check_columns(parsed.names)
            check_partitioner(name, parsed.names, partition_by)
            check_count(f"depot {name!r}", "partitions", partitions, _DEPOT_PARTITIONS_MAX)
        retain = (retain_records, retain_seconds)
        if kafka is not None:
            others = (partition_by, partitions, is_global, *retain, source)
            return log_depot(self, name, kafka, (schema, parsed), others, place)
        if source is not None:
            self._check_source(name, source, place)
        count = 1 if is_global else partitions
        made = DepotDeclaration(
            self.name, name, parsed, partition_by, count, *retain, source=source
        )
        self.depots[name] = made.of_class(schema)
        return self.depots[name]

    def dead_letter_depot(self, name: str, *, partitions: int = 1) -> DepotDeclaration:
        """Declare a depot for records that a topology's functions reject, or cannot process.

        Its schema is fixed: ``topology``, ``operator``, ``microbatch``, the record's ``depot``,
        ``depot_partition`` and ``record_offset`` (null where unknown), ``error``, ``line``, and
        the ``row`` that the function was given, as JSON.

        Args:
            name: Unique among the module's depots.
            partitions: How many depot partitions; fixed for the depot's life.

        Raises:
            DeclarationError: When the name is taken or cannot be.
        """
        from atoll.ddl import parse_ddl

        place = declared_at(1)
        new_name(name, "depot", self._sources(), place, _TAKEN)
        with placed(place):
            check_count(f"depot {name!r}", "partitions", partitions, _DEPOT_PARTITIONS_MAX)
        schema = parse_ddl(REJECTED_DDL)
        self.depots[name] = DepotDeclaration(self.name, name, schema, None, partitions)
        return self.depots[name]

    def tick(self, name: str, every: str | dt.timedelta) -> TickDeclaration:
        """Declare records that come by the clock: ``tick long, at timestamp``.

        A microbatch reads the newest tick since the last one; nothing makes up for others.

        Raises:
            DeclarationError: When the name is that of a depot or tick, or the time is none.
        """
        place = declared_at(1)
        new_name(name, "tick", self._sources(), place, _TAKEN)
        with placed(place):
            every_ms = parse_millis(every, f"the time between two ticks of {name!r}")
        self.ticks[name] = TickDeclaration(self.name, name, every_ms)
        return self.ticks[name]

    def sources(self) -> dict[str, Feed]:
        """What feeds its depots from outside, by depot."""
        return {n: each.source for n, each in self.depots.items() if each.source is not None}

    def _sources(self) -> dict[str, object]:
        return {**self.depots, **self.ticks, **self.logs}

    def mirror_depot(
        self, module: str, name: str, schema: type[R] | Columns
    ) -> DepotDeclaration[R]:
        """Another module's depot, to read with ``source(...)`` at offsets of one's own.

        Args:
            module: The other module's name.
            name: The depot's name there.
            schema: Its schema, which is compared with what is deployed.

        Raises:
            DeclarationError: When the schema is wrong, or the module is this one.
        """
        return mirror_depot(self, module, name, schema, declared_at(1))

    def mirror_pstate(
        self, module: str, name: str, schema: type[V] | Schema
    ) -> PStateDeclaration[V]:
        """Another module's PState, to read with ``lookup(...)`` and ``join(...)``, and in queries.

        A microbatch reads it as of one commit, which its plan names, in every attempt.

        Args:
            module: The other module's name.
            name: The PState's name there.
            schema: Its schema, which is compared with what is deployed.

        Raises:
            DeclarationError: When the schema is wrong, or the module is this one.
        """
        return mirror_pstate(self, module, name, schema, declared_at(1))

    def microbatch(  # each is a keyword that users choose by itself
        self,
        name: str,
        *,
        vnode_count: int = 256,
        parallelism: str = "adaptive",
        options: Mapping[str, int] | None = None,
        dead_letter: DepotDeclaration | None = None,
        columns: ColumnsWay = "auto",
    ) -> Microbatch:
        """Declare a microbatch topology.

        Args:
            name: Unique among the module's topologies.
            vnode_count: Into how many vnodes its PStates are divided; fixed for their life.
            parallelism: The policy that decides on how many parallel units it runs when it is
                first deployed: ``adaptive`` (all), ``4``, ``bounded(4)``, ``ratio(0.5)``,
                ``load(1,8)``. It can be changed while it runs.
            options: Options by name, such as ``{"depot.microbatch.max.records": 1000}``.
            dead_letter: What ``dead_letter_depot`` returned: rows on which a Python function of
                the topology raises go there, or that cannot be processed for another reason (a
                null key, a cast that fails), and the others go on. Without it such a row fails
                the microbatch.
            columns: What runs ``where``, ``select`` and ``with_columns``: ``auto`` the tasks
                themselves where all expressions are certified, else Spark; ``spark`` always
                Spark; ``tasks`` refuses what only Spark can run.

        Raises:
            DeclarationError: When the name is taken, or something beside it cannot be.
        """
        place = declared_at(1)
        new_name(
            name,
            "topology",
            self.topologies,
            place,
            "choose another name, or go on with the first one",
        )
        with placed(place):
            check_count(f"topology {name!r}", "vnodes", vnode_count, _VNODE_COUNT_MAX)
        topology = Microbatch(self, name, vnode_count, dict(options or {}), place)
        topology.parallelism = checked_policy(parallelism, place)
        if columns not in COLUMNS_WAYS:
            raise DeclarationError(
                f"columns cannot be run by {columns!r}",
                hint=f"use one of {', '.join(COLUMNS_WAYS)}",
                declared=place,
            )
        topology.graph.columns = columns
        self.topologies[name] = topology
        if dead_letter is not None:
            self._check_dead_letter(dead_letter, place)
            self.topologies[name].graph.dead_letter = dead_letter
        return self.topologies[name]

    def query(self, name: str, /, **parameters: Any) -> Stream:
        """Declare a query: the stream of one row, its arguments. It ends in ``returns(...)``.

        Args:
            name: Unique among the module's queries.
            **parameters: The type of each: ``query("reach", url=str)``.

        Raises:
            DeclarationError: When the name is taken, or a parameter is of no such type.
        """
        place = declared_at(1)
        new_name(name, "query", self.queries, place, "choose another name")
        nodes, schema = arguments_of(parameters, place)
        graph = QueryGraph(self.name, name, nodes, self._readable, place)
        step = Arguments((), place, schema)
        graph.add(step)
        self.queries[name] = graph
        return Stream(graph, step)

    def _repr_html_(self) -> str:
        """The module drawn, for a notebook."""
        from atoll.markup import text
        from atoll.stream.drawing import draw

        graphs = [each.graph for each in self.topologies.values()]
        return f"<p><b>{text(self.name)}</b></p>" + draw(graphs, self.depots)

    def _check_source(self, name: str, source: object, place: str) -> None:
        from atoll.sources.base import Source as DeclaredSource

        if not isinstance(source, DeclaredSource):
            raise DeclarationError(
                f"depot {name!r} cannot be fed from {source!r}",
                hint="give one of atoll.sources, such as Files('in/*.jsonl')",
                declared=place,
            )
        if source.dead_letter is not None:
            self._check_dead_letter(source.dead_letter, place)

    def _check_dead_letter(self, depot: object, place: str) -> None:
        from atoll.ddl import parse_ddl

        own = isinstance(depot, DepotDeclaration) and self.depots.get(depot.name) is depot
        if not own or depot.schema != parse_ddl(REJECTED_DDL):  # type: ignore[attr-defined]
            raise DeclarationError(
                f"rejected records cannot go to {getattr(depot, 'name', depot)!r}",
                hint="give what module.dead_letter_depot(...) of this module returned",
                declared=place,
            )

    def _readable(self) -> dict[str, PStateDeclaration]:
        return {**self.pstates(), **self.mirrored_pstates}

    def pstates(self) -> dict[str, PStateDeclaration]:
        """All PStates of the module, by name."""
        return {
            name: pstate
            for topology in self.topologies.values()
            for name, pstate in topology.graph.pstates.items()
        }


class Microbatch:
    """A topology that runs one microbatch at a time, each exactly once."""

    def __init__(
        self, module: Module, name: str, vnode_count: int, options: dict[str, int], place: str
    ) -> None:
        """Made by ``Module.microbatch``."""
        self.module = module
        self.name = name
        self.vnode_count = vnode_count
        self.options = options
        self.place = place
        self.graph = Graph(module.name, name)
        self.graph.vnode_count = vnode_count
        self.graph.queries = module.queries
        self.graph.module_pstates = module.pstates
        self.parallelism = POLICY_DEFAULT
        """The policy with which it is first deployed."""

    def __repr__(self) -> str:
        """Its name: ``<topology 'mb' of module 'm'>``."""
        return f"<topology {self.name!r} of module {self.module.name!r}>"

    def pstate(  # noqa: PLR0913  # each is a keyword that users choose by itself
        self,
        name: str,
        schema: type[V] | Schema,
        *,
        initial: Any = None,
        is_global: bool = False,
        private: bool = False,
        partition_by: Callable[[Any], int] | None = None,
        track_size: bool = False,
        backfill: bool = False,
        per_vnode: bool = False,
    ) -> PState[V]:
        """Declare a PState that this topology writes.

        Args:
            name: Unique among the module's PStates.
            schema: ``dict[str, int]``, ``int``, ``dict[int, set[str]]``, a class with fields, or
                the same as ``Map(...)``, ``Set(...)``, ``Struct(...)`` or ``"map<string, long>"``.
            initial: The value of a scalar, list or struct that was never written.
            is_global: Keep a map or set in one vnode instead of spreading it by key.
            private: Let only this topology read it: no client, over HTTP or otherwise.
            partition_by: A function from top-level key to int; the key lies in the vnode of that
                number, modulo the vnode count. It is fixed for the PState's life. None spreads
                keys evenly.
            track_size: Keep the number of elements of every map and set beside it, so that
                ``size()`` and ``len`` need not count; each write does a little more.
            backfill: When an update adds it to a topology that is deployed, fill it from all
                that the topology has read so far, while that goes on. It is readable when it has
                caught up. Otherwise it begins empty.
            per_vnode: Keep a value per vnode, of this schema: functions of ``process`` hold
                that of their row's vnode, and readers see a map from vnode to value.

        Raises:
            DeclarationError: When the schema, or something beside it, cannot be.
        """
        from atoll.codec.spellings import node_of

        place = declared_at(1)
        check_name(name, "PState", place)
        owner = self.module.pstates().get(name)
        if owner is not None:
            raise DeclarationError(
                f"PState {name!r} is declared twice",
                hint=f"topology {owner.topology!r} owns it; choose another name",
                declared=place,
            )
        with placed(place):
            node = node_of(schema)
        if per_vnode:
            check_per_vnode(name, initial, partition_by, place, is_global=is_global)
            node, schema, partition_by = Map(int, node), Map(int, schema), own_vnode
        partitioned = isinstance(node, Map | Set) and not is_global
        if initial is not None and not node.leaf:
            raise DeclarationError(
                f"PState {name!r} cannot have an initial value",
                hint="only a scalar, list or struct has one; a map or set begins empty",
                declared=place,
            )
        if track_size and node.leaf:
            raise DeclarationError(
                f"PState {name!r} is one value, whose size is not tracked",
                hint="leave track_size= out; only maps and sets are stored by element",
                declared=place,
            )
        if partition_by is not None:
            check_key_partitioner(name, partition_by, place, partitioned=partitioned)
        declared = PState(
            self.module.name,
            self.name,
            name,
            node,
            self.vnode_count if partitioned else 1,
            not partitioned,
            as_row(initial),
            place,
            private,
            partition_by,
            track_size,
            per_vnode=per_vnode,
            backfill=backfill,
            graph=self.graph,
            declared_as=schema,
        )
        self.graph.pstates[name] = declared
        return declared

    def source(
        self, depot: DepotDeclaration[R] | TickDeclaration, *, start_from: StartFrom | None = None
    ) -> Stream[R]:
        """Read a depot; by default only what is appended from now on.

        Args:
            depot: What ``Module.depot``, ``Module.tick`` or ``Module.mirror_depot`` returned.
            start_from: ``atoll.start.beginning()``, ``after_timestamp(...)``, ``ago(...)``. It
                counts only when the topology first meets the depot.
        """
        place = declared_at(1)
        if isinstance(depot, TickDeclaration):
            return ticking(self.graph, self.module.ticks, depot, start_from, place)
        if not isinstance(depot, DepotDeclaration):
            raise DeclarationError(
                f"source reads a depot, not {depot!r}",
                hint="give what module.depot(...) returned",
                declared=place,
            )
        known = self.module.mirrored_depots if depot.mirrored else self.module.depots
        known = known if depot.log is None else self.module.logs
        if known.get(depot.name) is not depot:
            raise DeclarationError(
                f"depot {depot.name!r} belongs to module {depot.module!r}",
                hint=f"declare it in module {self.module.name!r}, or read its mirror_depot(...)",
                declared=place,
            )
        if depot is self.graph.dead_letter:
            raise DeclarationError(
                f"topology {self.name!r} would read its own rejected records from {depot.name!r}",
                hint="read them in another topology",
                declared=place,
            )
        step = Source((), place, depot, start_from)
        self.graph.add(step)
        if depot.log is None:
            return Stream(self.graph, step)
        with placed(place):
            aside = self.graph.dead_letter is not None
            decoded = depot.log.decoding(step, depot.name, depot.schema, sets_aside=aside)
        self.graph.add(decoded)
        return Stream(self.graph, decoded)

    def _repr_html_(self) -> str:
        """The topology drawn, for a notebook."""
        from atoll.markup import text
        from atoll.stream.drawing import draw

        title = f"<p>{text(self.module.name)}/<b>{text(self.name)}</b></p>"
        return title + draw([self.graph], self.graph.depots())
