"""The changes of rows as rows that come and rows that go.

A stream of changes has keys, ``old`` and ``new``. A join follows the rows that they speak of: one
that goes lies under the key that it had, one that comes under its own, perhaps on another actor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from atoll.errors import DeclarationError
from atoll.schema import Map, Set
from atoll.steps.changes.declare import Changes
from atoll.steps.materialize.declare import Materialize
from atoll.topology.operator import BatchOperator, Operator, StateOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.topology.usercode import Rejects

TIMES = "__times"
"""How often a row came (1), or went (-1)."""
OLD, NEW = "old", "new"


@dataclass(frozen=True, eq=False)
class Changing:
    """What rows changes speak of.

    Attributes:
        keys: The columns that tell the rows apart.
        value: What to call a value that has no fields; None: the values are the rows' columns.
        member: Whether ``old`` and ``new`` only say whether the keys were and are there.
        inside: Whether the values hold the keys, too.
    """

    keys: tuple[str, ...]
    value: str | None = None
    member: bool = False
    inside: bool = False


def changing(operator: Operator) -> Changing | None:
    """What changes the rows right behind an operator are; None: they are no changes."""
    while isinstance(operator, Materialize):
        (operator,) = operator.inputs
    if isinstance(operator, Changes):
        node = operator.pstate.node
        while isinstance(node, Map):
            node = node.value
        return Changing(operator.key_names, operator.pstate.name, member=isinstance(node, Set))
    found: Changing | None = getattr(operator, "changing", None)
    return found


def behind_changes(operator: Operator) -> bool:
    """Whether rows behind an operator were changes, before steps of a task or of Spark's."""
    waiting = [operator]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Signed):  # what the changes are of, whatever its columns are called
            continue
        if changing(each) is not None:
            return True
        if isinstance(each, Materialize) or not isinstance(each, StateOperator):
            waiting.extend(each.inputs)
    return False


@dataclass(frozen=True, eq=False)
class Signed(BatchOperator):
    """Each change as the row that goes, if there was one, and the row that comes."""

    runs_own_code: ClassVar[bool] = True
    drawn: ClassVar[bool] = False

    keys: tuple[str, ...]
    value: str | None
    member: bool
    inside: bool

    @property
    def title(self) -> str:
        """As users write it."""
        return "incremental_join"

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """The keys and the values' fields, and how often a row came.

        Raises:
            DeclarationError: When two columns would have one name.
        """
        import pyarrow as pa

        rows = inputs[0]
        fields = [] if self.inside else [rows.field(name) for name in self.keys]
        kind = rows.field(NEW).type
        if pa.types.is_struct(kind):
            fields += list(kind)
        elif not self.member:
            fields.append(pa.field(self.value, kind))
        fields.append(pa.field(TIMES, pa.int64()))
        names = [field.name for field in fields]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DeclarationError(
                f"changes joined by incremental_join have a key {twice!r}, and a value {twice!r}",
                hint=f'name the key otherwise: changes("{twice}_key")',
                declared=self.place,
            )
        return pa.schema([pa.field(each.name, each.type) for each in fields])

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,
        rejects: Rejects | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Of each batch the rows that go, then those that come."""
        from atoll.topology.rows import with_origins, without_origins

        emitted = self.schema([schema])
        for batch in batches:
            plain, origins = without_origins(batch)
            for column, times in ((OLD, -1), (NEW, 1)):
                there = self._there(plain.column(column))
                made = self._rows(plain.filter(there), column, times, emitted)
                if made.num_rows:
                    yield with_origins(made, None if origins is None else origins.filter(there))

    def _there(self, values: pa.Array) -> pa.Array:
        return values if self.member else values.is_valid()

    def _rows(
        self, batch: pa.RecordBatch, column: str, times: int, emitted: pa.Schema
    ) -> pa.RecordBatch:
        import pyarrow as pa

        columns = [] if self.inside else [batch.column(name) for name in self.keys]
        values = batch.column(column)
        if pa.types.is_struct(values.type):
            columns += values.flatten()
        elif not self.member:
            columns.append(values)
        columns.append(pa.repeat(pa.scalar(times, pa.int64()), batch.num_rows))
        return pa.RecordBatch.from_arrays(columns, schema=emitted)
