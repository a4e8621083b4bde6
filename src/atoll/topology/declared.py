"""Depots and PStates as a module declares them, and the places in a PState that steps write to.

``pstate["folder"]["author"]`` is a :class:`Target`: for each map on the way the Spark SQL
expression of its key (most often a column), for each struct the name of a field. A target is
checked against the schema while it is written, so a mistake is an error on its own line.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from atoll.errors import DeclarationError
from atoll.literals import Literal, expression, shown
from atoll.schema import List, Map, Node, Scalar, Set, Struct
from atoll.topology.usercode import check_function, declared_at, placed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from atoll.depot.logs.declared import OutsideLog
    from atoll.sources.base import Source
    from atoll.topology.kept.hidden import Hidden

R = TypeVar("R", default=Any)
"""What the rows of a stream are: objects of a class, or Any where they were declared by text."""
U = TypeVar("U", default=Any)
"""The same of the rows that a step emits."""
V = TypeVar("V", default=Any)
"""What a PState was declared to hold: ``dict[str, int]``; Any where it was not by Python types."""

Schema = str | UnionType | Map | Set | List | Struct
"""A PState's schema that is no type: DDL text, ``X | None``, or ``Map(...)`` and its like."""

Columns = str
"""Columns without a class, as type checkers see them: DDL text. Arrow's schemas have no types."""

REJECTED_DDL = (
    "topology string, operator string, microbatch long, depot string, depot_partition int, "
    "record_offset long, error string, line string, row string"
)
"""The schema of dead-letter depots: where a row came from, and why it was set aside."""


@dataclass(frozen=True, eq=False, repr=False)
class DepotDeclaration(Generic[R]):
    """A partitioned log of records with a schema.

    ``partition_by`` is a field's name (records with equal values share a depot partition and
    keep their order), a function ``(record, partition_count) -> index``, or None: spread evenly.
    """

    module: str
    name: str
    schema: pa.Schema
    partition_by: str | Callable[[Mapping[str, Any], int], int] | None
    partitions: int
    records_max: int | None = None
    age_seconds_max: float | None = None
    mirrored: str = ""
    """For a mirror the depot's own name in ``module``, which is another one."""
    place: str = ""
    migrations: list[DeclaredMigration] = field(default_factory=list)
    row_class: type | None = None
    """The class whose objects its records are, when it was declared with one."""
    source: Source | None = None
    """What feeds it from outside."""
    log: OutsideLog | None = None
    """Where its records lie when others keep them."""

    @property
    def rows(self) -> pa.Schema:
        """The columns that tasks read of its records: of a log before they are decoded."""
        return self.schema if self.log is None else self.log.rows

    def __repr__(self) -> str:
        """As messages show it: ``<depot 'pairs' of module 'm'>``."""
        return f"<depot {self.name!r} of module {self.module!r}>"

    def __getstate__(self) -> dict[str, Any]:
        """What tasks need: they get the migrations of the deployment, and rows, not objects."""
        return {**self.__dict__, "migrations": [], "row_class": None, "source": None}

    def of_class(self, given: object) -> DepotDeclaration[Any]:
        """The depot with the class that it was declared with, if it was one."""
        return replace(self, row_class=given) if isinstance(given, type) else self

    def migrated(
        self,
        id: str,  # noqa: A002  # the word of the deployment
        function: Callable[[dict[str, Any]], Mapping[str, Any]],
    ) -> DepotDeclaration:
        """Say how records that were stored under an earlier schema become records of this one.

        It takes effect with the deployment that first names the id. Records that were appended
        before go through the function whenever they are read; what is stored stays as it is,
        and so do offsets and depot partitions.

        Args:
            id: Names this migration for ever; deploying it again changes nothing but, where it
                was corrected, the function.
            function: From a record as a dict to the new record as a dict. It must be pure, since
                a record may be converted any number of times.

        Raises:
            DeclarationError: When the depot is a mirror, or the id is taken.
        """
        _migrate_depot(self, id, function, declared_at(1))
        return self


@dataclass(frozen=True, eq=False, repr=False)
class TickDeclaration:
    """Records that come by the clock: one whenever so many milliseconds have passed since 1970."""

    module: str
    name: str
    every_ms: int

    def __repr__(self) -> str:
        """As messages show it: ``<tick 'minutes' of module 'm'>``."""
        return f"<tick {self.name!r} of module {self.module!r}>"

    @property
    def schema(self) -> pa.Schema:
        """``tick long, at timestamp``: the tick's number, and when it was."""
        import pyarrow as pa

        return pa.schema([("tick", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])


@dataclass(frozen=True, slots=True)
class Part:
    """One step of a target: a map's key (a Spark SQL expression) or a struct's field (a name)."""

    text: str
    key: Scalar | None
    skips_null: bool = False
    """Whether rows whose key is null add nothing, unless such keys may be; else they are errors."""
    element: bool = False
    """Whether it is an element of a set, which can only be asked for."""
    as_of: bool = False
    """Whether the entry with the greatest key that is not above it is meant."""

    @property
    def shown(self) -> str:
        """As the user wrote it."""
        return f".as_of({shown(self.text)})" if self.as_of else f"[{shown(self.text)}]"

    @property
    def is_key(self) -> bool:
        """Whether it is a map's key, or a set's element."""
        return self.key is not None


@dataclass(frozen=True, eq=False)
class DeclaredMigration:
    """What ``migrated`` was given; ``position``: of a PState, the fields on the way."""

    id: str
    function: Callable[[Any], Any]
    position: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class PStateDeclaration(Generic[V]):
    """Partitioned state with a schema, written by one topology and readable by all."""

    module: str
    topology: str
    name: str
    node: Node
    vnode_count: int
    is_global: bool
    initial: Any
    place: str = ""
    private: bool = False
    """Whether only its topology reads it."""
    partition_by: Callable[[Any], int] | None = None
    """From top-level key to number, which says the key's vnode; the key's CRC-32 when None."""
    track_size: bool = False
    """Whether the sizes of its maps and sets are kept beside them."""
    backfill: bool = field(default=False, kw_only=True)
    """Whether it is filled from the past when an update adds it to a topology that runs."""
    per_vnode: bool = field(default=False, kw_only=True)
    """Whether it has one value in each vnode, by the vnode's number."""

    def __repr__(self) -> str:
        """As messages show it: ``<PState 'counts' of topology 'mb': Map(str, int)>``."""
        return f"<PState {self.name!r} of topology {self.topology!r}: {self.node!r}>"

    mirrored: str = ""
    """For a mirror the PState's own name in ``module``, which is another one."""
    migrations: list[DeclaredMigration] = field(default_factory=list)
    declared_as: Any = field(default=None, repr=False)
    """The schema as the user wrote it."""
    hidden: Hidden | None = field(default=None, repr=False)
    """Of a PState that no user declared: what it keeps."""

    def __getitem__(self, part: str | Literal) -> Target:
        """The place in the state that a step writes or reads: ``pstate["user_id"]``."""
        return _deeper(Target(self, ()), part, declared_at(1))

    def as_of(self, time: str | Literal) -> Target:
        """The value that holds at a time, in a global state: see :meth:`Target.as_of`."""
        return _as_of(Target(self, ()), time, declared_at(1))

    def migrated(
        self,
        id: str,  # noqa: A002  # the word of the deployment
        function: Callable[[Any], Any],
        *,
        at: str | None = None,
    ) -> PStateDeclaration:
        """Say how values that were stored under an earlier schema become values of this one.

        It takes effect with the deployment that first names the id; all readers see the new
        values at once, and the stored ones are rewritten bit by bit.

        Args:
            id: Names this migration for ever; deploying it again changes nothing more.
            function: From the old value to the new one. It must be pure, since a value may be
                converted any number of times. It is not asked for null, which stays null.
            at: Which value, where the schema has several: the fields on the way, with dots.

        Raises:
            DeclarationError: When there is no such value, or the id is taken.
        """
        _add_migration(self, id, function, at, declared_at(1))
        return self


@dataclass(frozen=True, eq=False, repr=False)
class Target:
    """A place in a PState, by expressions over the rows of a stream."""

    pstate: PStateDeclaration
    parts: tuple[Part, ...]

    def __repr__(self) -> str:
        """As the user wrote it."""
        return self.text

    @property
    def node(self) -> Node:
        """The schema at this place."""
        node = self.pstate.node
        for part in self.parts:
            node = _child(node, part)
        return node

    @property
    def is_element(self) -> bool:
        """Whether it asks for an element of a set; its node is a bool, whether it is there."""
        return bool(self.parts) and self.parts[-1].element

    @property
    def is_as_of(self) -> bool:
        """Whether it asks for the value that holds at a time, of those kept by time."""
        return bool(self.parts) and self.parts[-1].as_of

    @property
    def key_parts(self) -> tuple[Part, ...]:
        """The parts that are map keys, and a set's element."""
        return tuple(part for part in self.parts if part.is_key)

    @property
    def position(self) -> tuple[str, ...]:
        """The struct fields on the way: which leaf of its PState it is."""
        return tuple(part.text for part in self.parts if not part.is_key)

    @property
    def text(self) -> str:
        """As the user wrote it: ``totals["user_id"]``."""
        return self.pstate.name + "".join(part.shown for part in self.parts)

    def __getitem__(self, part: str | Literal) -> Target:
        """One step deeper: a map's key expression or a struct's field name.

        Raises:
            DeclarationError: When the schema has nothing below this place, or no such field.
        """
        return _deeper(self, part, declared_at(1))

    def as_of(self, time: str | Literal) -> Target:
        """The value that holds at a time, where a map has values by the times from which they hold.

        ``lookup(prices["item"].as_of("at"), "price")`` reads of ``Map(str, Map(datetime, float))``
        the entry with the greatest time that is not after ``at``; null when there is none.

        Raises:
            DeclarationError: When there is no map of values by time.
        """
        return _as_of(self, time, declared_at(1))


def _add_migration(
    pstate: PStateDeclaration,
    name: str,
    function: Callable[[Any], Any],
    at: str | None,
    place: str,
) -> None:
    from atoll.pstate.spec import leaves

    check_function(function, 1, "migrated", place)
    positions = [position for position, _ in leaves(pstate.node)]
    position = tuple(at.split(".")) if at else ()
    if at is None and len(positions) == 1:
        (position,) = positions
    problem = hint = ""
    if pstate.mirrored:
        problem, hint = "it is a mirror", "migrate it in the module that owns it"
    elif not isinstance(name, str) or not name.strip():
        problem, hint = f"{name!r} is no id", 'give it a name, such as "parse-songs"'
    elif any(each.id == name for each in pstate.migrations):
        problem, hint = f"it has a migration {name!r}", "every migration has an id of its own"
    elif position not in positions:
        known = ", ".join(".".join(each) for each in positions if each)
        problem = f"it has {'no value at ' + repr(at) if at else 'no single kind of value'}"
        hint = f"name one with at=: {known}" if known else "a set's elements cannot be migrated"
    if problem:
        raise DeclarationError(
            f"PState {pstate.name!r} cannot be migrated: {problem}", hint=hint, declared=place
        )
    pstate.migrations.append(DeclaredMigration(name, function, position))


def _migrate_depot(
    depot: DepotDeclaration, name: str, function: Callable[[Any], Any], place: str
) -> None:
    check_function(function, 1, "migrated", place)
    problem = hint = ""
    if depot.log is not None:
        problem = "its records lie in a log that others keep"
        hint = "convert them in a step behind source(...)"
    elif depot.mirrored:
        problem, hint = "it is a mirror", "migrate it in the module that owns it"
    elif not isinstance(name, str) or not name.strip():
        problem, hint = f"{name!r} is no id", 'give it a name, such as "split-names"'
    elif any(each.id == name for each in depot.migrations):
        problem, hint = f"it has a migration {name!r}", "every migration has an id of its own"
    if problem:
        raise DeclarationError(
            f"depot {depot.name!r} cannot be migrated: {problem}", hint=hint, declared=place
        )
    depot.migrations.append(DeclaredMigration(name, function))


def _as_of(target: Target, time: str | Literal, place: str) -> Target:
    node, problem = target.node, ""
    if target.is_as_of or not isinstance(node, Map) or node.key.kind not in _TIMES:
        problem, hint = "holds no values by time", "declare it as Map(key, Map(datetime, value))"
    elif not node.value.leaf:
        problem = f"holds by time {node.value!r}, which is stored element by element"
        hint = "keep one value for each time"
    elif not target.key_parts and not target.pstate.is_global:
        problem = "is partitioned by the time, so that the values before it lie anywhere"
        hint = "declare it as Map(key, Map(datetime, value)), or with is_global=True"
    if problem:
        raise DeclarationError(f"{target.text} {problem}", hint=hint, declared=place)
    found = _deeper(target, time, place)
    return Target(found.pstate, (*target.parts, replace(found.parts[-1], as_of=True)))


def _deeper(target: Target, given: str | Literal, place: str) -> Target:
    node = target.node
    if given is None or (isinstance(given, str) and not given.strip()):
        raise DeclarationError(
            f"{target.text}[{given!r}]: a part is an expression, a value or a field's name",
            hint='write a column\'s name, a Spark SQL expression, or a value: 7, lit("all")',
            declared=place,
        )
    with placed(place):
        part = expression(given)
    problem = "nothing can be looked up by key here"
    match node:
        case Map(key=key):
            return Target(target.pstate, (*target.parts, Part(part, key)))
        case Set(item=item):
            return Target(target.pstate, (*target.parts, Part(part, item, element=True)))
        case Struct(leaf=True):
            problem = "this struct is stored as one value"
            hint = f"aggregate its fields by name: aggregate({target.text}, {part}=agg.sum(...))"
        case Struct() if node.get(part) is not None:
            return Target(target.pstate, (*target.parts, Part(part, None)))
        case Struct():
            problem = "the struct has no field of that name"
            hint = f"its fields are {', '.join(node.names())}"
        case _:
            what = "an element of a set" if target.is_element else str(node)
            hint = f"leave [{shown(part)}] out: the schema ends at {target.text}, which is {what}"
    raise DeclarationError(f"{target.text}[{shown(part)}]: {problem}", hint=hint, declared=place)


_TIMES = frozenset({"datetime", "date", "int"})
"""What values can be kept by, so that one holds until the next."""

_THERE = Scalar("bool")
"""What an element of a set is: there or not."""


def _child(node: Node, part: Part) -> Node:
    match node:
        case Map(value=value):
            return value  # type: ignore[no-any-return]  # Map resolves it to a node
        case Struct():
            child = node.get(part.text)
            assert child is not None, "a target is checked while it is written"
            return child
        case Set():
            return _THERE
    raise AssertionError(f"{node} has no children")
