"""What a map or set is ranked by: terms over an entry's key and its value. Pure.

``Map(str, float, ranked="-value")``, ``Map(int, Struct(price=int, at=dt.datetime),
ranked=["-price", "at"])``, ``Set(int, ranked=True)``. A term is ``key``, ``value`` where that is a
scalar, or the name of a field of the value; a minus turns it round. Where all terms are equal the
key decides, least first, so that every entry has one rank. An entry whose first term is null has
none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from atoll.errors import DeclarationError

if TYPE_CHECKING:
    from atoll.schema import Map, Node, Scalar, Set

_KEY = "key"
_VALUE = "value"


class Term(NamedTuple):
    """One term of an order of entries.

    Attributes:
        name: ``key``, ``value``, or a field of the value.
        kind: What its values are.
        falls: Whether it counts the other way round.
        of_key: Whether it is the key itself.
    """

    name: str
    kind: Scalar
    falls: bool
    of_key: bool


def ranks_of(given: Any, node: Map | Set) -> tuple[str, ...]:
    """The terms that a user wrote, checked against what is ranked.

    Raises:
        DeclarationError: When they are no order of its entries.
    """
    if given in ((), None, False):
        return ()
    terms = (_KEY,) if given is True else (given,) if isinstance(given, str) else given
    if not isinstance(terms, Sequence) or not all(isinstance(each, str) for each in terms):
        raise DeclarationError(
            f"ranked={given!r} is no order", hint='write ranked="-value", or ranked=["-a", "b"]'
        )
    value = getattr(node, "value", None)
    if value is not None and not value.leaf:
        raise DeclarationError(
            f"the entries of a Map of {type(value).__name__} have no values to be ranked by",
            hint='rank the innermost map or set: Map(str, Map(int, float, ranked="-value"))',
        )
    kinds = term_kinds(node)
    names = [each.removeprefix("-") for each in terms]
    unknown = next((name for name in names if name not in kinds), None)
    if unknown is not None or len(set(names)) < len(names):
        wrong = f"has no {unknown!r}" if unknown is not None else "names a term twice"
        raise DeclarationError(
            f"ranked={given!r} {wrong}", hint=f"the terms here are {', '.join(kinds)}"
        )
    return tuple(terms)


def term_kinds(node: Map | Set) -> dict[str, Scalar]:
    """What entries may be ranked by, by name."""
    from atoll.schema import Scalar

    value: Node | None = getattr(node, "value", None)
    own = {_VALUE: value} if isinstance(value, Scalar) else {}
    return {_KEY: _key(node), **own, **_fields(node)}


def _fields(node: Map | Set) -> dict[str, Scalar]:
    """The fields of the values that are scalars; one that is called key is meant by that."""
    from atoll.schema import Scalar, Struct

    value: Node | None = getattr(node, "value", None)
    fields = value.fields if isinstance(value, Struct) else ()
    return {name: each for name, each in fields if isinstance(each, Scalar)}


def _key(node: Map | Set) -> Scalar:
    kind: Scalar = getattr(node, "key", None) or getattr(node, "item")  # noqa: B009 - one of both
    return kind


def terms_of(node: Map | Set) -> tuple[Term, ...]:
    """The terms before the key, which always decides last."""
    kinds, fields = term_kinds(node), _fields(node)
    terms = []
    for text in node.ranked:
        name = text.removeprefix("-")
        of_key = name == _KEY and name not in fields
        terms.append(Term(name, kinds[name], text != name, of_key))
    if terms and terms[-1].of_key and not terms[-1].falls:
        del terms[-1]
    return tuple(terms)


def key_term(node: Map | Set) -> Term:
    """The key, as it decides last."""
    return Term(_KEY, _key(node), falls=False, of_key=True)


def ranked_text(ranked: tuple[str, ...]) -> str:
    """As it is written behind the types."""
    if not ranked:
        return ""
    return f", ranked={ranked[0]!r}" if len(ranked) == 1 else f", ranked={list(ranked)!r}"
