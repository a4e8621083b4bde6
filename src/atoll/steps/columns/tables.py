"""Column steps of a query over whole tables: distinct rows, unions, and joins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.ddl import type_in_words
from atoll.engine.exchange.grouping import group
from atoll.errors import DeclarationError
from atoll.python_values import python_values
from atoll.steps.columns.join import Join
from atoll.topology.querying.bare import shown
from atoll.topology.querying.step import in_batches
from atoll.topology.usercode import NO_COLUMN

if TYPE_CHECKING:
    from atoll.topology.operator import BatchOperator, Operator
    from atoll.topology.querying.step import Reading, Run


def distinct(rows: pa.Table) -> pa.Table:
    """Each combination of values once, where it comes first."""
    if not rows.num_rows or not rows.num_columns:
        return rows.slice(0, min(rows.num_rows, 1))
    columns = [column.combine_chunks() for column in rows.columns]
    return rows.take(pa.array(np.sort(group(columns).first_rows)))


def concatenated(aligned: Sequence[BatchOperator]) -> Run:
    """The rows of several inputs, each brought in line by its step."""
    branches = [in_batches(each) for each in aligned]

    def run(tables: list[pa.Table], reading: Reading) -> pa.Table:
        pairs = zip(branches, tables, strict=True)
        return pa.concat_tables([branch([table], reading) for branch, table in pairs])

    return run


def taken(rows: pa.Table, indices: Sequence[int | None]) -> pa.Table:
    """The rows at these positions; a row of nulls for None."""
    return rows.take(pa.array(indices, pa.int64()))


_ONE_SIDED = ("left_semi", "left_anti")


def joined_schema(step: Join, left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """The shared columns, then the others of the left side, then those of the right.

    Raises:
        DeclarationError: When the join is by conditions, or columns do not fit.
    """
    if step.conditions:
        raise DeclarationError(
            f"a query joins by columns of both sides, not by {step.conditions[0]!r}",
            hint='give both the same name: join(other, on="user_id")',
            declared=step.place,
        )
    for name in step.names:
        if _column(left, name, step) != _column(right, name, step):
            raise DeclarationError(
                f"join compares {name!r} of type {type_in_words(left.field(name).type)} with one "
                f"of type {type_in_words(right.field(name).type)}",
                hint="bring both to one type with map",
                declared=step.place,
            )
    fields = [left.field(name) for name in step.names]
    fields += [field for field in left if field.name not in step.names]
    if step.how not in _ONE_SIDED:
        fields += [field for field in right if field.name not in step.names]
    return pa.schema(fields)


def join(step: Join, left: pa.Table, right: pa.Table) -> pa.Table:
    """The rows that belong together; null belongs to nothing. In the order of the left side."""
    schema = joined_schema(step, left.schema, right.schema)
    found: dict[Any, list[int]] = {}
    for at, key in enumerate(_keys(step, right)):
        if None not in key:
            found.setdefault(key, []).append(at)
    matches = [found.get(key, []) if None not in key else [] for key in _keys(step, left)]
    if step.how in _ONE_SIDED:
        wanted = step.how == "left_semi"
        kept = [at for at, each in enumerate(matches) if bool(each) is wanted]
        return taken(left.select(schema.names), kept)
    pairs: list[tuple[int | None, int | None]] = []
    for at, each in enumerate(matches):
        pairs += [(at, other) for other in each]
        if not each and step.how in ("left", "full"):
            pairs.append((at, None))
    if step.how in ("right", "full"):
        met = {other for each in matches for other in each}
        pairs += [(None, other) for other in range(right.num_rows) if other not in met]
    lefts, rights = taken(left, [a for a, _ in pairs]), taken(right, [b for _, b in pairs])
    columns = [pc.coalesce(lefts.column(name), rights.column(name)) for name in step.names]
    columns += [lefts.column(n) for n in left.column_names if n not in step.names]
    columns += [rights.column(n) for n in right.column_names if n not in step.names]
    return pa.Table.from_arrays(columns, schema=schema)


def _keys(step: Join, rows: pa.Table) -> Iterable[tuple[Any, ...]]:
    return zip(*(python_values(rows.column(name)) for name in step.names), strict=True)


def _column(rows: pa.Schema, name: str, step: Operator) -> pa.DataType:
    if name not in rows.names or name == NO_COLUMN:
        raise DeclarationError(
            f"{step.title} uses the column {name!r}, which the rows before it do not have",
            hint=f"they have {shown(rows)}",
            declared=step.place,
        )
    return rows.field(name).type
