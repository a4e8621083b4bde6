"""Declares joins of streams with streams and with PStates, and checks them on their line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atoll.errors import DeclarationError
from atoll.steps.columns.join import JOINS, Join
from atoll.steps.lookup.declare import lookup
from atoll.steps.rows.present import Present
from atoll.topology.declared import PStateDeclaration, Target
from atoll.topology.expressions import bare_column
from atoll.topology.flow import Flow, after

if TYPE_CHECKING:
    from collections.abc import Sequence


def join(
    stream: Flow,
    other: Flow | Target | PStateDeclaration,
    on: str | Sequence[str] | None,
    how: str,
    column: str | None,
    place: str,
) -> Flow:
    """Add a :class:`~atoll.steps.columns.join.Join`, or look up in a PState."""
    kind = JOINS.get(how.lower()) if isinstance(how, str) else None
    if kind is None:
        raise DeclarationError(
            f"join how={how!r} is not known",
            hint="use inner, left, right, full, semi or anti",
            declared=place,
        )
    if isinstance(other, Target | PStateDeclaration):
        return _with_pstate(stream, other, on, kind, column, place)
    if not isinstance(other, Flow):
        raise DeclarationError(
            f"join takes a stream or a place in a PState, not {other!r}",
            hint='join(other, on="user_id"), or join(profiles["user_id"], column="profile")',
            declared=place,
        )
    names, conditions = columns_of(on, "join", place)
    if column is not None:
        raise DeclarationError(
            "join of two streams takes no column=",
            hint="all columns of both come out; choose with select(...)",
            declared=place,
        )
    step = Join((stream.operator, other.operator), place, names, conditions, kind)
    return after(stream.graph, step)


def columns_of(
    on: str | Sequence[str] | None, word: str, place: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns that both sides have, and the other conditions."""
    texts = (on,) if isinstance(on, str) else tuple(on or ())
    if not texts or not all(isinstance(each, str) and each.strip() for each in texts):
        raise DeclarationError(
            f"{word} needs to know which rows belong together, on={on!r} does not say",
            hint='on="user_id", on=["a", "b"], or on="left.user_id = right.id"',
            declared=place,
        )
    bare = [bare_column(each) for each in texts]
    names = tuple(name for name in bare if name is not None)
    conditions = tuple(text for text, name in zip(texts, bare, strict=True) if name is None)
    return names, conditions


def _with_pstate(
    stream: Flow,
    other: Target | PStateDeclaration,
    on: str | Sequence[str] | None,
    kind: str,
    column: str | None,
    place: str,
) -> Flow:
    target = Target(other, ()) if isinstance(other, PStateDeclaration) else other
    if on is not None:
        raise DeclarationError(
            f"join with {target.text} takes no on=: its keys say which entry belongs to a row",
            hint='write the keys\' expressions in the brackets: profiles["user_id"]',
            declared=place,
        )
    if kind not in ("inner", "left"):
        raise DeclarationError(
            f"a stream joins a PState by its rows' keys, so {kind.replace('_', ' ')} cannot be: "
            "it would read the whole PState in every microbatch",
            hint="use inner or left; or join with the PState's changes(), which are a stream",
            declared=place,
        )
    name = column or target.pstate.name
    if kind == "inner" and (target.is_element or not target.node.leaf):
        kept = name if target.is_element else f"size({name}) > 0"
        raise DeclarationError(
            f"{target.text} has {'an answer' if target.is_element else 'a collection'} for every "
            "row, be it no or empty, so an inner join keeps them all",
            hint=f'say which rows stay: lookup({target.text}, "{name}").where("{kept}")',
            declared=place,
        )
    found = lookup(stream, target, name, place)
    if kind == "left":
        return found
    step = Present((found.operator,), place, name)
    return after(stream.graph, step)
