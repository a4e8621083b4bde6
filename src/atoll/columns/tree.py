"""A typed expression as tasks compute it: nodes that turn a batch into one array.

Spark does not compute what it need not: a branch that is not chosen, the right of an ``AND`` whose
left is false, an operand beside one that is null. An error there is no error, so a node that can
fail is computed only for the rows for which Spark would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

SURE, MAY_FAIL = False, True
"""Whether a node fails of some values, by name."""


class RowError(Exception):
    """A value that an expression cannot be computed of; ``condition`` is Spark's name for it."""

    def __init__(self, condition: str, said: str = "") -> None:
        """Which condition, and what is known of the value."""
        super().__init__(f"[{condition}] {said}".strip())
        self.condition = condition


@dataclass(eq=False)
class Rows:
    """A batch, and what was computed of it so far."""

    batch: pa.RecordBatch
    known: dict[int, pa.Array] = field(default_factory=dict)

    def only(self, mask: NDArray[np.bool_]) -> Rows:
        """Some of the rows."""
        return Rows(self.batch.filter(pa.array(mask)))


@dataclass(frozen=True, eq=False)
class Node:
    """One expression.

    Attributes:
        type: Of its values.
        fails: Whether there are values of which it cannot be computed.
    """

    type: pa.DataType
    fails: bool

    def of(self, rows: Rows) -> pa.Array:
        """Its value for each row.

        Raises:
            RowError: When there is none for one of the rows.
        """
        if id(self) not in rows.known:
            rows.known[id(self)] = self.compute(rows)
        return rows.known[id(self)]

    def compute(self, rows: Rows) -> pa.Array:
        """As :meth:`of`, anew."""
        raise NotImplementedError

    @property
    def parts(self) -> tuple[Node, ...]:
        """The nodes that it is computed of."""
        return ()

    def where(self, rows: Rows, mask: NDArray[np.bool_]) -> pa.Array:
        """Its value for some of the rows; null for the others."""
        if mask.all():
            return self.of(rows)
        values = self.of(rows.only(mask))
        return values.take(pa.array(np.cumsum(mask) - 1, mask=~mask))


@dataclass(frozen=True, eq=False)
class Column(Node):
    """A column of the rows."""

    index: int

    def compute(self, rows: Rows) -> pa.Array:
        """As it is."""
        return rows.batch.column(self.index)


@dataclass(frozen=True, eq=False)
class Literal(Node):
    """The same value in each row."""

    value: Any

    def compute(self, rows: Rows) -> pa.Array:
        """Repeated."""
        return pa.repeat(pa.scalar(self.value, self.type), rows.batch.num_rows)


@dataclass(frozen=True, eq=False)
class Folded(Literal):
    """The value of a constant expression; how a number is written says nothing of its type."""


@dataclass(frozen=True, eq=False)
class Call(Node):
    """A function that is null where one of its arguments is.

    Attributes:
        kernel: Takes the arguments' arrays, then the options.
        args: In their order.
        options: What is the same for all rows.
        backwards: Whether Spark computes the last argument first.
    """

    kernel: Callable[..., pa.Array]
    args: tuple[Node, ...]
    options: tuple[Any, ...] = ()
    backwards: bool = False

    @property
    def parts(self) -> tuple[Node, ...]:
        """The nodes that it is computed of."""
        return self.args

    def compute(self, rows: Rows) -> pa.Array:
        """An argument is computed where those before it are not null."""
        order = reversed(self.args) if self.backwards else self.args
        found: list[pa.Array] = []
        valid = np.ones(rows.batch.num_rows, np.bool_)
        for arg in order:
            values = arg.where(rows, valid) if arg.fails else arg.of(rows)
            found.append(values)
            if values.null_count:
                valid &= _mask(values.is_valid())
        arrays = found[::-1] if self.backwards else found
        return self.kernel(*arrays, *self.options)


@dataclass(frozen=True, eq=False)
class Junction(Node):
    """``AND`` or ``OR``: the right is computed where the left does not decide."""

    left: Node
    right: Node
    conjoins: bool

    @property
    def parts(self) -> tuple[Node, ...]:
        """The nodes that it is computed of."""
        return (self.left, self.right)

    def compute(self, rows: Rows) -> pa.Array:
        """In three-valued logic."""
        left = self.left.of(rows)
        if self.right.fails:
            open_ = left if self.conjoins else pc.invert(left)
            right = self.right.where(rows, _mask(open_.fill_null(fill_value=True)))
        else:
            right = self.right.of(rows)
        return (pc.and_kleene if self.conjoins else pc.or_kleene)(left, right)


@dataclass(frozen=True, eq=False)
class Case(Node):
    """The first branch whose condition is true, else the last."""

    conditions: tuple[Node, ...]
    branches: tuple[Node, ...]
    """One more than there are conditions."""

    @property
    def parts(self) -> tuple[Node, ...]:
        """The nodes that it is computed of."""
        return (*self.conditions, *self.branches)

    def compute(self, rows: Rows) -> pa.Array:
        """Conditions and branches that can fail only for the rows that come to them."""
        if not any(each.fails for each in (*self.conditions, *self.branches)):
            tests = [each.of(rows) for each in self.conditions]
            values = [each.of(rows) for each in self.branches]
            return pc.case_when(pc.make_struct(*tests), *values)
        chosen = np.full(rows.batch.num_rows, len(self.conditions))
        waiting = np.ones(rows.batch.num_rows, np.bool_)
        for number, condition in enumerate(self.conditions):
            true = _mask(condition.where(rows, waiting).fill_null(fill_value=False)) & waiting
            chosen[true] = number
            waiting &= ~true
        return _spread(rows, self.branches, chosen)


@dataclass(frozen=True, eq=False)
class Coalesce(Node):
    """The first that is not null."""

    args: tuple[Node, ...]

    @property
    def parts(self) -> tuple[Node, ...]:
        """The nodes that it is computed of."""
        return self.args

    def compute(self, rows: Rows) -> pa.Array:
        """Each only where those before it are null, if it can fail."""
        found = self.args[0].of(rows)
        for arg in self.args[1:]:
            missing = found.is_null()
            more = arg.where(rows, _mask(missing)) if arg.fails else arg.of(rows)
            found = pc.if_else(missing, more, found)
        return found


def _spread(rows: Rows, branches: Sequence[Node], chosen: NDArray[np.int64]) -> pa.Array:
    """Of each row the value of the branch chosen for it."""
    places, pieces = [], []
    for number, branch in enumerate(branches):
        mask = chosen == number
        places.append(np.flatnonzero(mask))
        pieces.append(branch.of(rows.only(mask)))
    back = np.argsort(np.concatenate(places), kind="stable")
    return pa.concat_arrays(pieces).take(pa.array(back))


def _mask(values: pa.Array) -> NDArray[np.bool_]:
    return np.array(values.to_numpy(zero_copy_only=False), np.bool_)


def columns_of(node: Node) -> list[int]:
    """Which columns of the rows it is computed of, each once, in the order of the text."""
    if isinstance(node, Column):
        return [node.index]
    return list(dict.fromkeys(at for each in node.parts for at in columns_of(each)))


def alike(one: Node, other: Node) -> bool:
    """Whether two nodes are written alike."""
    match one, other:
        case (Column(index=index), Column(index=another)):
            return index == another
        case (Literal(value=value), Literal(value=another)):
            return bool(value == another)
    shaped = type(one) is type(other) and len(one.parts) == len(other.parts) > 0
    return shaped and all(map(alike, one.parts, other.parts))


def is_constant(node: Node) -> bool:
    """Whether it is the same for all rows."""
    return not columns_of(node)


def any_fails(nodes: Iterable[Node]) -> bool:
    """Whether one of them can fail."""
    return any(each.fails for each in nodes)
