"""What an aggregate that keeps whole rows shows of each: its ``columns``.

Names and expressions make a ``List(Struct(...))``, and so do several columns of different names;
several other expressions make a ``List(tuple[...])``, one expression a list of values. Into one
of ``List(tuple[...])`` columns go as tuples, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from atoll.aggregates.base import Aggregator, expression, in_words, to_declare
from atoll.errors import DeclarationError
from atoll.schema import List, Scalar, Struct

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.schema import Node


Columns = Mapping[str, str] | Sequence[str] | str


@dataclass(frozen=True)
class Shown:
    """The expressions shown, and the shape that they are shown in.

    ``names`` are the fields of structs; without names rows are tuples, or, of one expression
    with ``alone``, values.
    """

    exprs: tuple[str, ...]
    names: tuple[str, ...]
    alone: bool

    def result_node(self, aggregator: Aggregator, types: Sequence[pa.DataType]) -> Node:
        """A list of structs, tuples or values."""
        from atoll.arrow_types import node_of

        shown = [node_of(each) for each in types]
        if names := self.names or self.own_names:
            return List(Struct(**dict(zip(names, shown, strict=True))))
        if self.alone:
            return List(shown[0])
        scalars = [each for each in shown if isinstance(each, Scalar)]
        if len(scalars) < len(shown):
            raise aggregator.refusal("shows more than scalars", "name the columns: columns={...}")
        return List(Scalar("tuple", items=tuple(scalars)))

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names that several columns have by themselves; none where one is no column."""
        names = tuple(each.strip().strip("`") for each in self.exprs)
        told = len(set(names)) == len(names) and all(map(str.isidentifier, names))
        return names if told and not self.alone else ()

    def into(self, node: Node) -> Shown:
        """The same for a list of that schema: columns keep their names in structs."""
        structs = isinstance(node, List) and isinstance(node.item, Struct)
        return replace(self, names=self.own_names) if structs and not self.names else self

    def check(self, aggregator: Aggregator, node: Node, types: Sequence[pa.DataType]) -> None:
        """Hold that a leaf is a list of what is shown."""
        from atoll.aggregates.kernels.types import accepts

        fields = self.nodes(aggregator, node)
        for text, field, arrow_type in zip(self.exprs, fields, types, strict=True):
            if not accepts(field, arrow_type):
                raise aggregator.refusal(
                    f"shows {text} of type {in_words(arrow_type)}, the PState holds {field}",
                    to_declare(arrow_type),
                )

    def nodes(self, aggregator: Aggregator, node: Node) -> tuple[Node, ...]:
        """The schemas of the values shown, in a list of that schema."""
        item = node.item if isinstance(node, List) else None
        match item:
            case Struct(fields) if self.names and {name for name, _ in fields} == set(self.names):
                return tuple(dict(fields)[name] for name in self.names)
            case Scalar("tuple", _, items) if not self.names and not self.alone:
                if len(items) == len(self.exprs):
                    return items
            case Scalar() | List() | Struct() if self.alone:
                return (item,)
        wanted = "List(type)" if self.alone else f"List(tuple[{len(self.exprs)} types])"
        if self.names:
            wanted = f"List(Struct({', '.join(f'{name}=...' for name in self.names)}))"
        raise aggregator.refusal(f"does not fit a PState of {node}", f"declare {wanted} there")

    def rows(
        self,
        columns: Sequence[pa.Array],
        nodes: Sequence[Node],
        aggregator: Aggregator,
    ) -> Iterable[Any]:
        """What is shown of each row of these columns.

        Raises:
            StateError: When a value cannot be kept exactly.
        """
        from atoll.aggregates.kernels.types import conform, fitted

        shown = []
        for column, node in zip(columns, nodes, strict=True):
            simple = isinstance(node, Scalar) and node.kind != "tuple"
            exact = fitted(column, node, aggregator, None) if simple else column
            shown.append([conform(value, node) for value in exact.to_pylist()])
        if self.alone:
            return shown[0]
        if self.names:
            return (dict(zip(self.names, row, strict=True)) for row in zip(*shown, strict=True))
        return zip(*shown, strict=True)


def shown_columns(columns: Columns, word: str) -> Shown:
    """What ``columns`` says.

    Raises:
        DeclarationError: When it names nothing, or something that is no text.
    """
    names: tuple[str, ...] = ()
    if isinstance(columns, Mapping):
        names = tuple(columns)
        exprs = tuple(columns.values())
    else:
        exprs = (columns,) if isinstance(columns, str) else tuple(columns)
    if not exprs:
        raise DeclarationError(f"agg.{word} shows no columns", hint='give columns={"id": "id"}')
    texts = tuple(expression(text, word) for text in exprs)
    return Shown(texts, names, isinstance(columns, str))


def check_count(n: object, word: str) -> None:
    """Hold that ``n`` says how many rows to keep.

    Raises:
        DeclarationError: When it does not.
    """
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise DeclarationError(f"agg.{word} of {n!r} rows", hint="keep at least one row")
