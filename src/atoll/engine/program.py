"""A topology as tasks need it: bound to schemas, codecs and places, ready to be shipped.

A :class:`Program` is made once per deployment and says everything that does not change from one
microbatch to the next; a :class:`JobSpec` says the rest. Both are pickled, the program by value
with the user's functions in it.
"""

from __future__ import annotations

import functools
from collections import abc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from atoll.errors import AtollError
from atoll.placement.mapping import Mapping
from atoll.placement.placement import NOWHERE, Placement
from atoll.storage.folders import RootFolders
from atoll.topology.times import Clock, Times

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.aggregates.base import Aggregator
    from atoll.codec.values.leaf import LeafCodec
    from atoll.depot.migration import DepotMigration
    from atoll.depot.partitioner import Partitioner
    from atoll.depot.segments.blocks import BlockRef
    from atoll.microbatch.commits.objects import Ranges
    from atoll.pstate.spec import PStateSpec
    from atoll.pstate.store.history import FileRef, Prior
    from atoll.queries.run import BoundQuery
    from atoll.schema import Node, Scalar
    from atoll.topology.operator import BatchOperator

__all__ = [
    "AggregateTerminal",
    "AppendTerminal",
    "AskTerminal",
    "ChangesTerminal",
    "FoldTerminal",
    "FoldedField",
    "JobProgram",
    "JobSpec",
    "KeyElement",
    "LookupTerminal",
    "MaterializeTerminal",
    "ProcessTerminal",
    "Program",
    "Split",
    "TaskChain",
    "Terminal",
]


@dataclass(frozen=True)
class KeyElement:
    """One element of an entry's key: a column of the rows, or a struct field's constant name."""

    column: str | None
    constant: str | None
    kind: Scalar
    skips_null: bool = False
    """Whether rows in which it is null are left out, where the kind has no null."""
    partition_by: Callable[[Any], int] | None = None
    """What says the vnode of a first element, where that is not its CRC-32."""


@dataclass(frozen=True)
class Terminal:
    """A state step as the tasks run it. ``tag`` is the operator's number in its topology."""

    tag: int
    title: str
    place: str

    @property
    def label(self) -> str:
        """What accounts call it."""
        return f"{self.title} ({self.place})"

    @property
    def agenda(self) -> tuple[str, Clock] | None:
        """The PState in which it keeps what is due later, and what time that goes by."""
        return None

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Let errors raised inside name this step, where they name none yet."""
        try:
            yield
        except AtollError as error:
            error.context.setdefault("operator", self.title)
            error.context.setdefault("declared", self.place)
            raise


@dataclass(frozen=True)
class FoldedField:
    """One aggregate of an :class:`AggregateTerminal`.

    Its state is the columns ``start`` to ``stop`` of the leaf's physical columns.
    """

    aggregator: Aggregator
    node: Node
    columns: tuple[str | None, ...]
    """The rows' columns that it takes; None is the constant true."""
    start: int
    stop: int
    kinds: tuple[pa.DataType, ...] = ()
    """The columns' types, where they say what the aggregate is of no rows."""


@dataclass(frozen=True)
class AggregateTerminal(Terminal):
    """Merge rows into entries of a PState.

    ``codec`` is None when being there is all there is to an entry: it is a set's element, or the
    rows only delete. Then a field's state says whether the entry goes.
    """

    pstate: str
    elements: tuple[KeyElement, ...]
    fields: tuple[FoldedField, ...]
    codec: LeafCodec | None
    initial: bytes | None
    """The encoded value that an absent entry counts as, or None."""
    deletes: Literal["no", "entry", "all below"] = "no"
    """Whether every row deletes its entry, or the collection that it names with all its entries."""


@dataclass(frozen=True)
class LookupTerminal(Terminal):
    """Add an entry's value to each row."""

    pstate: str
    elements: tuple[KeyElement, ...]
    codec: LeafCodec
    initial: bytes | None
    column: str
    rows: pa.Schema


@dataclass(frozen=True)
class ProcessTerminal(Terminal):
    """Call the user's function with each row and the state handles."""

    function: Callable[..., Any]
    key: KeyElement | None
    states: tuple[str, ...]
    rows: pa.Schema
    emitted: pa.Schema | None
    route: str = "key"
    """By the key; by the ``number`` in its column; or each row to ``all`` vnodes."""
    on_timer: Callable[..., Any] | None = None
    clock: Clock = ()
    timers: str | None = None
    """The PState of its timers; None: it has none."""
    hides_key: bool = False
    """Whether the key's column is in ``rows`` for the timers alone."""

    @property
    def agenda(self) -> tuple[str, Clock] | None:
        """Its timers."""
        return None if self.timers is None else (self.timers, self.clock)

    @property
    def pstates(self) -> tuple[str, ...]:
        """Every PState that it touches."""
        return self.states if self.timers is None else (*self.states, self.timers)


@dataclass(frozen=True)
class FoldTerminal(Terminal):
    """Fold rows into one row per combination of the keys; any actor may own a combination.

    ``elements`` are the keys, their columns in ``emitted`` come first, and then the fields'.
    """

    elements: tuple[KeyElement, ...]
    fields: tuple[FoldedField, ...]
    codecs: tuple[LeafCodec, ...]
    """How the state of each field becomes what a reader sees."""
    emitted: pa.Schema

    @property
    def fires(self) -> bool:
        """Whether a row comes out although none came in."""
        return not self.elements


@dataclass(frozen=True)
class MaterializeTerminal(Terminal):
    """Stage the rows; any actor may."""

    rows: pa.Schema


@dataclass(frozen=True)
class AskTerminal(MaterializeTerminal):
    """Put a query's answer beside each row, and stage them; any actor may."""

    emitted: pa.Schema
    query: str
    arguments: tuple[tuple[str, str], ...]
    added: pa.Schema
    queries: abc.Mapping[str, BoundQuery]
    """It, and all that it asks."""


@dataclass(frozen=True)
class ChangesTerminal(Terminal):
    """Emit what the microbatch changed in a PState."""

    pstate: str
    kinds: tuple[Scalar, ...]
    codec: LeafCodec | None
    emitted: pa.Schema


@dataclass(frozen=True)
class AppendTerminal(Terminal):
    """Write the rows down for a depot; any actor may."""

    depot: str
    schema: pa.Schema
    partitions: int
    partitioner: Partitioner


@dataclass(frozen=True)
class TaskChain:
    """Python steps from an origin (an operator's number) to the terminals that they feed."""

    origin: int
    origin_schema: pa.Schema
    steps: tuple[BatchOperator, ...]
    terminals: tuple[int, ...]
    numbers: tuple[int, ...] = ()
    """The steps' numbers in the topology."""
    repeated: int = 0
    """How many of its first steps run over the same rows elsewhere, where they are reported."""
    reads: bool = True
    """Whether the task reads the origin's rows; else Spark brings them, from column steps."""


@dataclass(frozen=True)
class JobProgram:
    """One Spark job of the topology."""

    index: int
    chains: tuple[TaskChain, ...]
    terminals: tuple[Terminal, ...]
    reporting: frozenset[int] = frozenset()
    """The Python steps before column steps that report their rejected rows in this job."""
    fires: bool = False
    """Whether a step of it makes rows although it reads none, so that it always runs."""

    def terminal(self, tag: int) -> Terminal:
        """The terminal of that tag."""
        return next(each for each in self.terminals if each.tag == tag)

    def clocks(self) -> dict[str, Clock]:
        """For each PState in which a step keeps what is due later what time it goes by."""
        return dict(each.agenda for each in self.terminals if each.agenda is not None)

    def emitting(self) -> dict[int, pa.Schema]:
        """The schemas of the rows that its terminals emit, by tag."""
        schemas: dict[int, pa.Schema] = {}
        for each in self.terminals:
            match each:
                case LookupTerminal():
                    schemas[each.tag] = each.rows.append(_value_field(each))
                case MaterializeTerminal(rows=rows):
                    schemas[each.tag] = rows
                case _ if getattr(each, "emitted", None) is not None:
                    schemas[each.tag] = each.emitted  # type: ignore[attr-defined]
        return schemas


def _value_field(terminal: LookupTerminal) -> pa.Field:
    import pyarrow as pa

    return pa.field(terminal.column, terminal.codec.value_arrow_type)


@dataclass(frozen=True)
class Program:
    """Everything about a topology that stays the same from one microbatch to the next."""

    module: str
    topology: str
    places: RootFolders
    pstates: dict[str, PStateSpec]
    jobs: tuple[JobProgram, ...]
    depots: dict[int, tuple[str, pa.Schema]]
    """For each source operator its depot's name and schema."""
    placement: Placement = NOWHERE
    """Which unit owns each vnode of each PState."""
    tracked: frozenset[int] = frozenset()
    """The operators whose rows say which record they came from: a user's function may see them."""
    mirrors: dict[str, PStateSpec] = field(default_factory=dict)
    """The PStates that it reads and another topology writes; those of other modules by
    ``module.name``."""
    depot_migrations: dict[str, tuple[DepotMigration, ...]] = field(default_factory=dict)
    """What older records of its depots go through, by the depot's name."""
    dead_letter: str | None = None
    """The depot for rows on which a user's function raises; None: they fail the attempt."""

    @property
    def root(self) -> Path:
        """The folder of all that lasts."""
        return self.places.root

    @property
    def local(self) -> Path:
        """The folder of the vnode stores, on the host that asks."""
        return self.places.local

    @functools.cached_property
    def units(self) -> tuple[int, ...]:
        """The units that run its actors; Spark's partition ``i`` of actors is unit ``units[i]``."""
        return self.placement.units

    def tracking(self, operators: abc.Iterable[int]) -> Program:
        """The same program, of which the rows of these operators say which record they are of."""
        return replace(self, tracked=frozenset(operators))

    def placed(self, placement: Placement) -> Program:
        """The same program on a placement."""
        return replace(self, placement=placement)

    def clocks(self) -> dict[str, Clock]:
        """For each PState of a timed step what time it goes by."""
        return {name: clock for job in self.jobs for name, clock in job.clocks().items()}

    def mapping(self, pstate: str) -> Mapping:
        """Which unit takes the rows for each vnode of a PState; of a mirror any may."""
        mirror = self.mirrors.get(pstate)
        if mirror is None:
            return self.placement.mappings[pstate]
        return _even(mirror.vnode_count, self.units)

    def owned(self, pstate: str, unit: int) -> tuple[int, ...]:
        """The vnodes of a PState that a unit owns.

        One that no step of the topology touches any more is part of no fragment; it is divided
        evenly among the units.
        """
        mapping = self.placement.mappings.get(pstate)
        if mapping is None:
            mapping = _even(self.pstates[pstate].vnode_count, self.units)
        return mapping.vnodes(unit)

    def tracks(self, terminal: Terminal) -> bool:
        """Whether a state step wants to know which records its rows came from."""
        return isinstance(terminal, ProcessTerminal) or terminal.tag in self.tracked


def _even(vnode_count: int, units: tuple[int, ...]) -> Mapping:
    """A mapping that nobody keeps: the same whenever it is asked for."""
    return Mapping.even(vnode_count, units[:vnode_count])


@dataclass(frozen=True)
class Split:
    """A run of rows of one origin, to be read in order by one task."""

    origin: int
    blocks: tuple[BlockRef, ...] = ()
    files: tuple[FileRef, ...] = ()
    first: int = 0
    """The number of its first row among the microbatch's records; not for files."""
    rows_max: int | None = None
    """How many rows to hand on at once at most; blocks only."""
    tick: tuple[int, int] | None = None
    """A tick's number and its time in milliseconds, instead of blocks and files."""


@dataclass(frozen=True)
class JobSpec:
    """One job of one attempt."""

    epoch: int
    id: int
    version: int
    job: int
    committed: int
    """The commit that this microbatch follows."""
    splits: tuple[tuple[Split, ...], ...]
    """For each reading task its splits; the tasks' order is the rows' order."""
    priors: dict[str, tuple[Prior, ...]] = field(default_factory=dict)
    """For each PState what earlier jobs of this attempt wrote."""
    prior_vnodes: dict[str, frozenset[int]] = field(default_factory=dict)
    """For each PState the vnodes that earlier jobs of this attempt changed."""
    checkpoint_vnodes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    timeline: int = 0
    """The timeline that the microbatch belongs to."""
    ranges: Ranges = field(default_factory=dict)
    """What the microbatch reads, to say where a row came from."""
    flush_entries_max: dict[str, int] = field(default_factory=dict)
    """For each PState how many entries that a function wrote may wait for the store."""
    combine_rows_max: int | None = None
    """How many rows a task collects before it folds them."""
    times: Times = field(default_factory=Times)
    """What time it is: fixed by the plan."""
    due: dict[str, frozenset[int]] = field(default_factory=dict)
    """For each private PState of a timed step the vnodes in which something is due."""
    migrate_vnodes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """For each PState the vnodes to rewrite although no row comes for them."""
    migrated_vnodes: dict[str, frozenset[int]] = field(default_factory=dict)
    """For each PState the vnodes that earlier jobs of this attempt rewrote."""
    mirrors: dict[str, int] = field(default_factory=dict)
    """For each other topology (``module/topology``) the commit as of which it is read."""
    careful: bool = False
    """Whether to find the rows that cannot be processed, which an attempt before met."""
