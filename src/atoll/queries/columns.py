"""The column steps that a query runs by itself, on Arrow tables: no Spark.

Columns and literals are taken as they are, other expressions computed where they are certified.
What is more is Python's: ``map``, ``where(lambda row: ...)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from atoll.columns.types import NotCertifiedError
from atoll.ddl import type_in_words
from atoll.engine.exchange.grouping import group
from atoll.errors import DeclarationError
from atoll.python_values import python_values
from atoll.queries.bare import shown
from atoll.steps.columns.computing import Computing, computing
from atoll.steps.columns.distinct import Distinct
from atoll.steps.columns.explode import Explode
from atoll.steps.columns.join import Join
from atoll.steps.columns.select import Select
from atoll.steps.columns.with_columns import WithColumns
from atoll.topology.expressions import bare_column, named
from atoll.topology.operator import ColumnOperator, Operator
from atoll.topology.usercode import NO_COLUMN

Projections = list[tuple[str, str | pa.Scalar]]
"""For each column its name, and the column or the value that it is."""

_TEXT = re.compile(r"'((?:[^'\\]|'')*)'\Z")
_WHOLE = re.compile(r"-?\d{1,18}\Z")
_INT_BITS = 31
_WORDS = {"true": True, "false": False, "null": None}
"""Made Arrow scalars when they are used: the first one imports pandas."""


def _operand(expression: str, rows: pa.Schema, step: Operator) -> str | pa.Scalar | None:
    """The column or the literal that an expression is; None when it is more."""
    text = expression.strip()
    name = bare_column(text)
    if name is not None:
        _column(rows, name, step)
        return name
    quoted = _TEXT.match(text)
    if quoted is not None:
        return pa.scalar(quoted[1].replace("''", "'"))
    if _WHOLE.match(text):
        small = int(text).bit_length() <= _INT_BITS
        return pa.scalar(int(text), pa.int32() if small else pa.int64())
    if text.lower() in _WORDS:
        return pa.scalar(_WORDS[text.lower()])
    return None


def computed_step(step: ColumnOperator, rows: pa.Schema) -> Computing:
    """A step whose expressions are more than columns and literals.

    Raises:
        DeclarationError: When one of them is not certified.
    """
    try:
        return computing(step, rows)
    except NotCertifiedError as error:
        raise DeclarationError(
            f"{step.title} computes what only Spark can, and a query runs without it: {error}",
            hint="write it in other words, or compute it in Python: map, where(lambda row: ...)",
            declared=step.place,
        ) from None


def _column(rows: pa.Schema, name: str, step: Operator) -> pa.DataType:
    if name not in rows.names or name == NO_COLUMN:
        raise DeclarationError(
            f"{step.title} uses the column {name!r}, which the rows before it do not have",
            hint=f"they have {shown(rows)}",
            declared=step.place,
        )
    return rows.field(name).type


def projections(step: Operator, rows: pa.Schema) -> Projections | None:
    """What ``select``, ``with_columns`` and ``distinct`` keep and add; None when they compute."""
    found = list(_projections(step, rows))
    return None if any(what is None for _, what in found) else found


def _projections(step: Operator, rows: pa.Schema) -> list[tuple[str, str | pa.Scalar | None]]:
    match step:
        case WithColumns(expressions=expressions):
            given = {name: _operand(text, rows, step) for name, text in expressions}
            kept = [(name, given.pop(name, name)) for name in rows.names]
            return [*kept, *given.items()]
        case Select(expressions=texts) | Distinct(expressions=texts) if texts:
            pairs = [named(text) for text in texts]
            return [(name, _operand(text, rows, step)) for text, name in pairs]
    return [(name, name) for name in rows.names]


def projected_schema(found: Projections, rows: pa.Schema) -> pa.Schema:
    """The columns that come out."""
    return pa.schema(
        [
            pa.field(name, rows.field(what).type if isinstance(what, str) else what.type)
            for name, what in found
        ]
    )


def project(found: Projections, rows: pa.Table) -> pa.Table:
    """The columns of a projection."""
    columns = [
        rows.column(what) if isinstance(what, str) else pa.repeat(what, rows.num_rows)
        for _, what in found
    ]
    return pa.Table.from_arrays(columns, schema=projected_schema(found, rows.schema))


def distinct(rows: pa.Table) -> pa.Table:
    """Each combination of values once, where it comes first."""
    if not rows.num_rows or not rows.num_columns:
        return rows.slice(0, min(rows.num_rows, 1))
    columns = [column.combine_chunks() for column in rows.columns]
    return rows.take(pa.array(np.sort(group(columns).first_rows)))


def exploded_schema(step: Explode, rows: pa.Schema) -> pa.Schema:
    """The other columns, then those of the elements.

    Raises:
        DeclarationError: When the expression is no column of arrays or maps.
    """
    name = bare_column(step.expression)
    kind = pa.null() if name is None else _column(rows, name, step)
    added: Iterable[pa.Field] = ()
    if pa.types.is_map(kind) and len(step.names) == 2:  # noqa: PLR2004 - key and value
        added = map(pa.field, step.names, (kind.key_type, kind.item_type))
    elif pa.types.is_list(kind) and len(step.names) == 1:
        added = (pa.field(step.names[0], kind.value_type),)
    else:
        raise DeclarationError(
            f"explode of {step.expression} needs a column of arrays, or of maps and two names",
            hint=f"the columns are {shown(rows)}; other values come apart with flat_map",
            declared=step.place,
        )
    return pa.schema([*(field for field in rows if field.name not in step.names), *added])


def explode(step: Explode, rows: pa.Table) -> pa.Table:
    """One row per element, in order."""
    schema = exploded_schema(step, rows.schema)
    lists = rows.column(str(bare_column(step.expression))).to_pylist()
    parents: list[int] = []
    elements: list[Any] = []
    for at, found in enumerate(lists):
        for element in found or ([None] if step.outer else ()):
            parents.append(at)
            elements.append(element)
    kept = [name for name in rows.column_names if name not in step.names]
    columns = list(taken(rows.select(kept), parents).columns)
    if len(step.names) == 1:
        columns.append(pa.array(elements, schema.field(step.names[0]).type))
    else:
        pairs = [(None, None) if each is None else each for each in elements]
        for index, name in enumerate(step.names):
            columns.append(pa.array([pair[index] for pair in pairs], schema.field(name).type))
    return pa.Table.from_arrays(columns, schema=schema)


def taken(rows: pa.Table, indices: Sequence[int | None]) -> pa.Table:
    """The rows at these positions; a row of nulls for None."""
    return rows.take(pa.array(indices, pa.int64()))


def union(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of all, columns by name."""
    schema = tables[0].schema
    return pa.concat_tables([table.select(schema.names).cast(schema) for table in tables])


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
