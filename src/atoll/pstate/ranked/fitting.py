"""Holds the steps by rank against a schema."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from atoll.errors import PathError
from atoll.path import Step
from atoll.pstate.navigate.fit_value import fit_value
from atoll.pstate.ranked.reading import Ranking
from atoll.ranked import Term, key_term, terms_of
from atoll.schema import Map, Set

if TYPE_CHECKING:
    from atoll.pstate.navigate.places import Place, Places

RANKED_STEPS = ("ranked", "rank_of", "around", "quantile", "ranked_before", "ranked_after")


def fit_ranked(step: Step, shape: Map | Set, *, outside: bool) -> Step:
    """The same step, what it carries of the schema's types.

    Raises:
        PathError: When the map or set is not ranked, or not by what the step names.
    """
    if not shape.ranked:
        word = type(shape).__name__
        raise PathError(
            f"this {word.lower()} is not ranked",
            hint=f"declare it so: {word}(..., ranked={_EXAMPLES[word]})",
        )
    if step.name in ("rank_of", "around"):
        kind = shape.key if isinstance(shape, Map) else shape.item
        key, *others = step.arguments
        return Step(step.name, (fit_value(key, kind, outside), *others))
    if step.name not in ("ranked_before", "ranked_after"):
        return step
    terms = terms_of(shape) or (key_term(shape),)
    if len(step.arguments) > len(terms):
        raise PathError(
            f"{step.name} names {len(step.arguments)} values",
            hint=f"it is ranked by {', '.join(term.name for term in terms)}",
        )
    if len(step.arguments) == 1:
        after = step.name == "ranked_after"
        return Step(step.name, (_fit_one(step.arguments[0], terms[0], outside, after),))
    pairs = zip(step.arguments, terms, strict=False)
    return Step(step.name, tuple(_fit_bound(each, term, outside) for each, term in pairs))


_EXAMPLES = {"Map": '"-value"', "Set": "True"}


def _fit_one(value: Any, term: Term, outside: bool, after: bool) -> Any:  # noqa: FBT001
    """The only bound; of one between two ints that which has the same entries on its side."""
    if term.kind.kind == "int" and isinstance(value, float) and math.isfinite(value):
        return math.floor(value) if term.falls is not after else math.ceil(value)
    return _fit_bound(value, term, outside)


def _fit_bound(value: Any, term: Term, outside: bool) -> Any:  # noqa: FBT001
    return None if value is None else fit_value(value, term.kind, outside)


def follow_ranked(places: Places, place: Place, step: Step) -> Iterator[Any]:
    """Every spot that a step by rank leads to from a ranked map or set."""
    ranking = Ranking(places, place)
    match step:
        case Step("ranked", (start, stop)):
            yield from ranking.between(start, stop)
        case Step("rank_of", (key,)):
            rank = ranking.of_key(key)
            if rank is not None:
                yield rank
        case Step("around", (key, before, after)):
            rank = ranking.of_key(key)
            if rank is not None:
                yield from ranking.between(max(rank - before, 0), rank + after + 1)
        case Step("quantile", (share,)):
            yield from ranking.quantile(share)
        case Step(name, order):
            yield from ranking.beside(order, after=name == "ranked_after")
