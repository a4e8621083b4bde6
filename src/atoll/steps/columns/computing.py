"""Column steps as tasks and queries run them, where all that they compute is certified."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from atoll.columns.families.casts import widened
from atoll.columns.reading import computed
from atoll.columns.tree import SURE, Column, Node, columns_of
from atoll.columns.types import NotCertifiedError, common_type, words
from atoll.ddl import type_in_words
from atoll.errors import DeclarationError
from atoll.steps.columns.distinct import Distinct
from atoll.steps.columns.explode import Explode
from atoll.steps.columns.guards import Guard, Guarded, expression_title
from atoll.steps.columns.run import Computing, Exploding, Projecting, Sieving
from atoll.steps.columns.select import Select
from atoll.steps.columns.union import Union
from atoll.steps.columns.where import Where
from atoll.steps.columns.with_columns import WithColumns
from atoll.topology.expressions import bare_column, named, shown_as
from atoll.topology.operator import ColumnOperator
from atoll.topology.usercode import NO_COLUMN

Computable = Select | WithColumns | Where | Explode
"""The column steps that tasks run where their expressions are certified."""


def computing(step: ColumnOperator, rows: pa.Schema, chosen: pa.Schema | None = None) -> Computing:
    """A column step as tasks run it.

    Args:
        step: The step.
        rows: The columns before it; of a union those of the branch.
        chosen: Those after it, where Spark or the other branches have said; else they are found.

    Raises:
        NotCertifiedError: When Spark has to run it, with the reason in words.
        DeclarationError: When it names a column that is not there.
    """
    match step:
        case Where(condition=text):
            node = computed(text, rows)
            if node.type != pa.bool_():
                raise NotCertifiedError(f"a condition of {words(node.type)}")
            guarded = _guarded(step, rows, [(text, node)])
            return Sieving(step.inputs, step.place, (node,), guarded, chosen or rows)
        case WithColumns(expressions=pairs):
            given = dict(pairs)
            by_name = {
                name: (shown_as(name, text), _node(text, step, rows)) for name, text in pairs
            }
            kept = [(n, *by_name.pop(n, _kept(n, rows))) for n in rows.names]
            added = [(n, *by_name[n]) for n in given if n in by_name]
            return _projecting(step, rows, [*kept, *added], chosen)
        case Select(expressions=texts) | Distinct(expressions=texts):
            found = list(_selected(step, texts or ("*",), rows, chosen))
            return _projecting(step, rows, found, chosen)
        case Explode():
            return _exploding(step, rows, chosen)
        case Union():
            return _aligning(step, rows, chosen or rows)
    raise NotCertifiedError(f"{step.title}, which is a step of Spark's")


_Named = tuple[str, str, Node]
"""The name of a column, how its expression is shown, and what computes it."""


def _kept(name: str, rows: pa.Schema) -> tuple[str, Column]:
    at = rows.names.index(name)
    return name, Column(rows.field(at).type, SURE, at)


def _node(text: str, step: ColumnOperator, rows: pa.Schema) -> Node:
    """What computes an expression; a bare column is taken as it is, whatever its type."""
    name = bare_column(text)
    return computed(text, rows) if name is None else _column(name, step, rows)


def _column(name: str, step: ColumnOperator, rows: pa.Schema) -> Column:
    """Letters' case means nothing, as in Spark."""
    known = [each for each in rows.names if each != NO_COLUMN]
    found = [each for each in known if each == name]
    found = found or [each for each in known if each.lower() == name.lower()]
    if len(found) != 1:
        raise DeclarationError(
            f"{step.title} uses the column {name!r}, which the rows before it do not have",
            hint=f"they have {', '.join(known) or 'none'}",
            declared=step.place,
        )
    at = rows.names.index(found[0])
    return Column(rows.field(at).type, SURE, at)


def _selected(
    step: ColumnOperator, texts: Sequence[str], rows: pa.Schema, chosen: pa.Schema | None
) -> Iterator[_Named]:
    for each in texts:
        text, name = named(each)
        if text == "*":
            yield from ((n, *_kept(n, rows)) for n in rows.names)
            continue
        if chosen is None and name == text and bare_column(text) is None:
            raise NotCertifiedError("a column without a name: write AS name")
        yield name, each, _node(text, step, rows)


def _projecting(
    step: ColumnOperator, rows: pa.Schema, found: list[_Named], chosen: pa.Schema | None
) -> Projecting:
    nodes = tuple(node for _, _, node in found)
    guarded = _guarded(step, rows, [(shown, node) for _, shown, node in found])
    if chosen is None:
        _check_names(step, [name for name, _, _ in found])
        chosen = pa.schema([pa.field(name, node.type) for name, _, node in found])
    _check_types([node.type for node in nodes], [each.shown for each in guarded.guards], chosen)
    return Projecting(step.inputs, step.place, nodes, guarded, chosen)


def _check_names(step: ColumnOperator, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DeclarationError(
            f"{step.title} makes more than one column {twice[0]!r}",
            hint="give each a name of its own: AS other_name",
            declared=step.place,
        )


def _check_types(kinds: Sequence[pa.DataType], shown: Sequence[str], chosen: pa.Schema) -> None:
    """Hold that Spark makes of the step what is computed here."""
    if len(kinds) != len(chosen):
        raise NotCertifiedError("a step of which Spark makes other columns")
    for kind, text, field in zip(kinds, shown, chosen, strict=True):
        if kind != field.type and not pa.types.is_nested(kind):
            found = f"{words(field.type)}, not {words(kind)}"
            raise NotCertifiedError(f"{text}, which Spark makes {found}")


def _guarded(step: ColumnOperator, rows: pa.Schema, found: Sequence[tuple[str, Node]]) -> Guarded:
    guards = tuple(
        Guard(shown, tuple(rows.names[at] for at in columns_of(node))) for shown, node in found
    )
    return Guarded(expression_title(step), step.place, guards)


# Elements -------------------------------------------------------------------------------------

_ENTRY = 2
"""So many names has the entry of a map."""


def _exploding(step: Explode, rows: pa.Schema, chosen: pa.Schema | None) -> Exploding:
    node = _node(step.expression, step, rows)
    kept = tuple(at for at, name in enumerate(rows.names) if name not in step.names)
    names = [rows.names[at] for at in kept]
    kinds = [rows.field(at).type for at in kept] + _element_types(step, node.type, rows)
    if chosen is None:
        chosen = pa.schema(list(zip([*names, *step.names], kinds, strict=True)))
    _check_types(kinds, [*names, *step.names], chosen)
    guarded = _guarded(step, rows, [(step.expression, node)])
    return Exploding(step.inputs, step.place, (node,), guarded, chosen, kept, step.outer)


def _element_types(step: Explode, kind: pa.DataType, rows: pa.Schema) -> list[pa.DataType]:
    if pa.types.is_map(kind) and len(step.names) == _ENTRY:
        return [kind.key_type, kind.item_type]
    if pa.types.is_list(kind) and len(step.names) == 1:
        return [kind.value_type]
    known = ", ".join(name for name in rows.names if name != NO_COLUMN) or "none"
    raise DeclarationError(
        f"explode of {step.expression} needs an array, or a map and two names; it is of type "
        f"{type_in_words(kind)}",
        hint=f"the columns are {known}; other values come apart with flat_map",
        declared=step.place,
    )


# Unions ---------------------------------------------------------------------------------------


def united(step: Union, inputs: Sequence[pa.Schema]) -> pa.Schema:
    """The columns of a union: those of the first stream, in types that hold the values of all.

    Raises:
        DeclarationError: When the streams have other columns, or types that do not go together.
    """
    first = inputs[0]
    names = {name.lower() for name in first.names}
    if any({name.lower() for name in other.names} != names for other in inputs[1:]):
        raise _apart(step, "streams with different columns")
    fields = []
    for field in first:
        branches = [_branch(field.name, step, each) for each in inputs]
        fields.append(field.with_type(_type_of_all(step, field.name, branches)))
    return pa.schema(fields)


def _branch(name: str, step: Union, rows: pa.Schema) -> Column:
    """A column of a branch, and what stands in for none."""
    return _kept(name, rows)[1] if name in rows.names else _column(name, step, rows)


def _type_of_all(step: Union, name: str, branches: Sequence[Node]) -> pa.DataType:
    if all(each.type == branches[0].type for each in branches):
        return branches[0].type
    try:
        return common_type(branches, "a union")
    except NotCertifiedError as error:
        raise _apart(step, f"streams whose column {name!r} differs: {error}") from None


def _aligning(step: Union, rows: pa.Schema, chosen: pa.Schema) -> Projecting:
    """The columns of a branch by name, in the order and types of the union."""
    nodes = []
    for field in chosen:
        column = _branch(field.name, step, rows)
        same = column.type == field.type or pa.types.is_nested(field.type)
        try:
            nodes.append(column if same else widened(column, field.type))
        except NotCertifiedError as error:
            raise _apart(step, f"streams whose column {field.name!r} differs: {error}") from None
    guarded = _guarded(step, rows, list(zip(chosen.names, nodes, strict=True)))
    return Projecting(step.inputs, step.place, tuple(nodes), guarded, chosen)


def _apart(step: Union, what: str) -> DeclarationError:
    return DeclarationError(
        f"union of {what}",
        hint="bring the columns in line before: select, or map",
        declared=step.place,
    )
