"""A ``select`` of plain columns inside a chain of Python steps: no row leaves the task for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from atoll.errors import DeclarationError
from atoll.topology.operator import BatchOperator
from atoll.topology.rows import with_origins, without_origins

if TYPE_CHECKING:
    from atoll.steps.columns.select import Select
    from atoll.topology.operator import Makes
    from atoll.topology.usercode import Rejects


@dataclass(frozen=True, eq=False)
class Pick(BatchOperator):
    """Columns by position, under the names and in the types of the select."""

    makes: ClassVar[Makes] = "one"
    runs_own_code: ClassVar[bool] = True
    places: tuple[int, ...]
    chosen: pa.Schema

    @classmethod
    def of(cls, step: Select, rows: pa.Schema, chosen: pa.Schema) -> Pick:
        """The step over rows of a schema.

        Raises:
            DeclarationError: When they do not have a column.
        """
        return cls(step.inputs, step.place, tuple(_places(step, rows)), chosen)

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:  # the select's
        """The select's."""
        return self.chosen

    def run(
        self,
        batches: Iterator[pa.RecordBatch],
        schema: pa.Schema,  # known when it was made
        rejects: Rejects | None = None,  # nothing of the user's runs here
    ) -> Iterator[pa.RecordBatch]:
        """Batch by batch, without copying."""
        for batch in batches:
            plain, origins = without_origins(batch)
            pairs = zip(self.places, self.chosen, strict=True)
            columns = [plain.column(place).cast(field.type) for place, field in pairs]
            rows = pa.RecordBatch.from_arrays(columns, schema=self.chosen)
            yield with_origins(rows, origins)


def picked_schema(step: Select, rows: pa.Schema) -> pa.Schema:
    """What a select of plain columns makes of rows of a schema.

    Raises:
        DeclarationError: When they do not have a column, or two would have one name.
    """
    assert step.picked is not None
    names = [name for _, name in step.picked]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DeclarationError(
            f"select makes more than one column {twice[0]!r}",
            hint="give each a name of its own: AS other_name",
            declared=step.place,
        )
    pairs = zip(_places(step, rows), names, strict=True)
    return pa.schema([rows.field(place).with_name(name) for place, name in pairs])


def _places(step: Select, rows: pa.Schema) -> Iterator[int]:
    """Where each column is; letters' case means nothing, as in Spark."""
    for column, _ in step.picked or ():
        found = [n for n, name in enumerate(rows.names) if name == column]
        found = found or [n for n, name in enumerate(rows.names) if name.lower() == column.lower()]
        if len(found) != 1:
            raise DeclarationError(
                f"select uses the column {column!r}, which the rows before it do not have",
                hint=f"they have {', '.join(rows.names)}",
                declared=step.place,
            )
        yield found[0]
