"""Takes an aggregate apart into the places that it writes, as its target's schema is stored.

A leaf is written by one step, with one aggregate or one for each field of a struct. A Map's
entries, and the fields of a struct that is stored field by field, are places of their own. All is
checked for shape here, on the user's line; types are checked when the module is deployed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from atoll.aggregates import (
    Aggregator,
    CollectSet,
    CountDistinct,
    MapOf,
    MergeMap,
    StructOf,
    Voided,
)
from atoll.aggregates.rows.lag import Lag
from atoll.aggregates.rows.positions import last
from atoll.aggregates.totals.count_distinct import Zero
from atoll.errors import DeclarationError
from atoll.schema import Map, Node, Set, Struct
from atoll.topology.declared import Part, Target
from atoll.topology.expressions import bare_column, quoted
from atoll.topology.usercode import placed


@dataclass(frozen=True)
class Exploded:
    """A map whose entries become rows before the aggregate: ``agg.merge_map``.

    ``key`` and ``value`` name the columns that hold them then, quoted.
    """

    expression: str
    key: str
    value: str


@dataclass(frozen=True)
class Write:
    """One place to write: its aggregates by struct field (or None), and what comes before."""

    target: Target
    fields: tuple[tuple[str | None, Aggregator], ...]
    exploded: Exploded | None = None
    distinct: tuple[tuple[str | None, CountDistinct], ...] = ()
    """Those of them that are counted by steps of their own; here they only begin with 0."""

    @property
    def deletes(self) -> bool:
        """Whether its rows delete the entries."""
        return isinstance(self.fields[0][1], Voided)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The expressions of the entries' keys, as a user knows them."""
        own = None if self.exploded is None else self.exploded.key
        keys = ["key" if p.text == own else p.text for p in self.target.key_parts]
        if isinstance(self.target.node, Set) and not self.deletes:
            keys.append(self.fields[0][1].inputs[0])
        return tuple(keys)


def writes_of(target: Target, aggregator: Aggregator, place: str) -> list[Write]:
    """The places that an aggregate into a target writes.

    Raises:
        DeclarationError: When the aggregate does not have the shape of the target's schema.
    """
    node = target.node
    match aggregator:
        case StructOf():
            return _struct(target, node, aggregator, place)
        case MapOf() | MergeMap():
            if not isinstance(node, Map):
                raise DeclarationError(
                    f"{target.text} holds {node}, but agg.{aggregator} fills a Map",
                    hint="declare Map(...) there",
                    declared=place,
                )
            if isinstance(aggregator, MapOf):
                return writes_of(_entry(target, node, aggregator.key), aggregator.inner, place)
            return _merged(target, node, aggregator, place)
    _check_single(target, node, aggregator, place)
    return [_write(target, ((None, aggregator),), place)]


def _write(target: Target, fields: tuple[tuple[str | None, Aggregator], ...], place: str) -> Write:
    """A write to one leaf, distinct counts set apart."""
    with placed(place):
        for _, each in fields:
            if isinstance(each, Lag):
                raise each.misplaced()
    distinct = tuple((name, each) for name, each in fields if isinstance(each, CountDistinct))
    for name, each in distinct:
        node: Node | None = target.node
        if name is not None and isinstance(node, Struct):
            node = node.get(name)
        assert node is not None, "checked"
        with placed(place):
            each.check(node, ())
    zero = Zero.counts()
    plain = ((name, zero if isinstance(each, CountDistinct) else each) for name, each in fields)
    return Write(target, tuple(plain), distinct=distinct)


def _entry(target: Target, node: Map, key: str) -> Target:
    return replace(target, parts=(*target.parts, Part(key, node.key, skips_null=True)))


def _merged(target: Target, node: Map, aggregator: MergeMap, place: str) -> list[Write]:
    (expression,) = aggregator.inputs
    name = bare_column(expression) or "map"
    key, value = quoted(f"__key_of_{name}"), quoted(f"__value_of_{name}")
    written = writes_of(_entry(target, node, key), last(value), place)
    return [replace(each, exploded=Exploded(expression, key, value)) for each in written]


def _struct(target: Target, node: Node, aggregator: StructOf, place: str) -> list[Write]:
    if not isinstance(node, Struct):
        raise DeclarationError(
            f"{target.text} holds no struct of values, so its aggregate has no field names",
            hint=f"aggregate({target.text}, agg.count()), or declare a Struct there",
            declared=place,
        )
    unknown = [name for name, _ in aggregator.fields if node.get(name) is None]
    if unknown:
        raise DeclarationError(
            f"{target.text} has no field {unknown[0]!r}",
            hint=f"its fields are {', '.join(node.names())}",
            declared=place,
        )
    if node.leaf:
        for name, each in aggregator.fields:
            _check_field(target, name, each, place)
        return [_write(target, aggregator.fields, place)]
    return [
        write
        for name, each in aggregator.fields
        for write in writes_of(
            replace(target, parts=(*target.parts, Part(name, None))), each, place
        )
    ]


def _check_field(target: Target, name: str, aggregator: Aggregator, place: str) -> None:
    if isinstance(aggregator, StructOf | MapOf | MergeMap | CollectSet | Voided):
        hint = "aggregate into its fields one level up, or keep it apart in a Map or a Set"
        if isinstance(aggregator, CollectSet):
            hint = "use collect_list in a struct of values, or declare a Set there"
        raise DeclarationError(
            f"{target.text} is stored as one value, so agg.{aggregator} cannot write inside of "
            f"its field {name!r}",
            hint=hint,
            declared=place,
        )


def _check_single(target: Target, node: Node, aggregator: Aggregator, place: str) -> None:
    if isinstance(aggregator, Voided):
        if not target.parts:
            raise DeclarationError(
                f"{target.text} is the whole PState, which cannot be deleted",
                hint="name the entry to delete by its key",
                declared=place,
            )
        return
    element_wise = getattr(aggregator, "element_wise", False)
    if isinstance(node, Set) != element_wise:
        raise DeclarationError(
            f"{target.text} holds {node}, which agg.{aggregator} cannot fold into",
            hint="agg.collect_set goes into a Set, every other aggregate into a value",
            declared=place,
        )
    if isinstance(node, Map) or (isinstance(node, Struct) and not node.leaf):
        if isinstance(node, Map):
            hint = f'go on to its values: {target.text}["..."], or agg.map("...", agg.{aggregator})'
        else:
            fields = ", ".join(f"{name}=..." for name in node.names())
            hint = f"give each field its own aggregate: aggregate({target.text}, {fields})"
        raise DeclarationError(
            f"{target.text} is {node}, stored element by element",
            hint=hint,
            declared=place,
        )
