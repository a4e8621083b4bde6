"""What a query answers with, held against what the step that asks it declares in ``emits=``.

An answer of ``rows="all"`` gives one row per row of it, and drops the rows that get none; any
other gives exactly one row. Either way a row gets values of columns, so they can be compared when
the module is deployed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import pyarrow as pa

from atoll.ddl import columns_in_words, type_in_words
from atoll.errors import DeclarationError
from atoll.steps.append_to.fitting import widens
from atoll.topology.querying.bare import known_columns, shown

if TYPE_CHECKING:
    from atoll.queries.declare import QueryGraph, Returned


@runtime_checkable
class Asks(Protocol):
    """A step that asks a query, as whoever binds it sees it."""

    @property
    def query(self) -> str:
        """The query that it asks."""

    @property
    def arguments(self) -> tuple[tuple[str, str], ...]:
        """For each parameter of the query the column that gives it."""

    @property
    def added(self) -> pa.Schema:
        """The columns that the answer fills."""

    @property
    def title(self) -> str:
        """The step's word."""

    @property
    def place(self) -> str:
        """Where it was declared."""


def answered_columns(graph: QueryGraph, returned: Returned, rows: pa.Schema) -> pa.Schema:
    """The columns of a query's answer, given those of the rows that it returns.

    Raises:
        DeclarationError: When it returns a column that the rows do not have.
    """
    known = known_columns(rows)
    if returned.column is None:
        return known
    if returned.column not in known.names:
        raise DeclarationError(
            f"query {graph.name!r} returns the column {returned.column!r}, which its rows do not "
            "have",
            hint=f"they have {shown(rows)}",
            declared=returned.place,
        )
    return pa.schema([known.field(returned.column)])


def check_answer(step: Asks, returned: Returned, answer: pa.Schema) -> None:
    """Hold that the columns of a step's ``emits=`` can be filled from the answer.

    One that returns a column fills the one column of ``emits=``, whatever it is called; one that
    returns whole rows fills those of ``emits=`` by name.

    Raises:
        DeclarationError: When one is missing, or cannot hold the answer's values.
    """
    single = returned.column is not None
    if single and len(step.added) != 1:
        raise _misfit(step, returned, answer)
    for field in step.added:
        at = 0 if single else answer.get_field_index(field.name)
        if at < 0 or not widens(answer.field(at).type, field.type):
            raise _misfit(step, returned, answer)


def _misfit(step: Asks, returned: Returned, answer: pa.Schema) -> DeclarationError:
    where = "each row of its answer" if returned.rows == "all" else "its answer"
    given = columns_in_words(answer) or "no columns"
    return DeclarationError(
        f'query {step.query!r} has {given} in {where}, and emits="{columns_in_words(step.added)}" '
        "declares something else",
        hint=_hint(step, returned, answer),
        declared=step.place,
    )


def _hint(step: Asks, returned: Returned, answer: pa.Schema) -> str:
    if not len(answer):
        return f"return columns from the query, at {returned.place}, or leave the step out"
    fits = answer
    if returned.column is not None and len(step.added) == 1:
        fits = pa.schema([pa.field(step.added.names[0], answer.field(0).type)])
    text = f'write emits="{columns_in_words(fits)}"'
    if returned.rows == "all":
        text += ", which gives a row per row of the answer; for all of them in one row end the "
        text += f"query with {_gathered(answer)}"
    return text


def _gathered(answer: pa.Schema) -> str:
    """What a query ends with that answers with one list."""
    column, first = answer.names[0], ""
    if len(answer) > 1:
        column = "found"
        shape = f"found {type_in_words(pa.struct(list(answer)))}"
        first = f'.map(lambda row: {{"found": row.asdict()}}, emits="{shape}")'
    return f'{first}.agg(found=agg.collect_list("{column}")).returns("found")'
