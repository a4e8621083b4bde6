"""The type ``lookup``: see the class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from atoll.runtime.actors.interface import (
    ActorType,
    BatchGiven,
    BatchResult,
    Event,
    Given,
    Result,
    State,
)
from atoll.runtime.batches import chosen, column_of, to_batch
from atoll.runtime.by_identity import ByIdentity
from atoll.runtime.events import FieldName, text_of
from atoll.runtime.problems import Problem
from atoll.runtime.templates import check_template, fill


class LookupParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of a lookup.

    Args:
        key: The field that is looked up.
        lookup: The table: an object per text.
        function: ``enrich`` emits the event with the fields of the object found, ``filter`` the
            event when one is found, ``check`` the object found.
        match: ``exact``, or ``startswith``: the longest text of the table that the field begins
            with.
        default: A template for what is not found: what ``enrich`` adds, and what ``filter`` and
            ``check`` emit instead of nothing.
    """

    key: FieldName
    lookup: Annotated[dict[str, dict[str, Any]], msgspec.Meta(max_length=10_000)]
    function: Literal["enrich", "filter", "check"]
    match: Literal["exact", "startswith"] = "exact"
    default: dict[str, Any] | None = None


class Lookup(ActorType[LookupParams]):
    """Looks a field up in a table that stands in the definition.

    An event without the field is a failure. Where event and object have a field of the same name,
    the object's wins.
    """

    name = "lookup"
    params = LookupParams
    example: ClassVar[dict[str, Any]] = {
        "key": "city",
        "function": "enrich",
        "lookup": {"amsterdam": {"country": "netherlands"}, "ghent": {"country": "belgium"}},
        "default": {"country": "unknown"},
    }

    def check(self, params: LookupParams) -> Iterator[Problem]:
        """Every expression of the default can be read."""
        yield from check_template(params.default, "/default")

    def keeps(self, params: LookupParams, field: str) -> bool:
        """What the table does not add, unless its object stands for the event."""
        if params.function == "filter":
            return params.default is None
        added = (*params.lookup.values(), params.default or {})
        return params.function == "enrich" and all(field not in each for each in added)

    def trigger(self, params: LookupParams, state: State, event: Event, given: Given) -> Result:
        """The event, the object, or nothing."""
        text = text_of(event.get(params.key))
        if text is None:
            return Result(state, failure=_failure(params))
        found = _entry(params, text)
        if found is None:
            return Result(state, _not_found(params, event))
        match params.function:
            case "enrich":
                return Result(state, ({**event, **found},))
            case "filter":
                return Result(state, (event,))
        return Result(state, (found,))

    def batch(
        self, params: LookupParams, events: pa.RecordBatch, given: BatchGiven
    ) -> BatchResult | None:
        """Each distinct text once; a table or events of several types are left to ``trigger``."""
        column = column_of(events, params.key)
        if column is None or not pt.is_string(column.type) or params.default is not None:
            return None
        entries, valid = _entries(params, column)
        failures = {_failure(params): np.flatnonzero(~valid)}
        hit = valid & (entries >= 0)
        if params.function == "filter":
            return chosen(events, hit, failures)
        table = _table(params).columns
        if table is None or any(field.metadata for field in table.schema):
            return None
        index = pa.array(entries, mask=~hit)
        if params.function == "check":
            return chosen(table.take(index), hit, failures)
        enriched = _enriched(events, table.take(index))
        return None if enriched is None else chosen(enriched, valid, failures)


class _Table(NamedTuple):
    """What is made of a table once: its objects as columns, and its texts."""

    columns: pa.RecordBatch | None
    numbers: dict[str, int]
    prefixes: dict[int, set[str]]


def _made(params: LookupParams) -> _Table:
    prefixes: dict[int, set[str]] = {}
    for text in sorted(params.lookup, key=len, reverse=True):
        prefixes.setdefault(len(text), set()).add(text)
    numbers = {text: at for at, text in enumerate(params.lookup)}
    return _Table(to_batch(list(params.lookup.values())), numbers, prefixes)


_table = ByIdentity(_made)


def _longest(prefixes: dict[int, set[str]], text: str) -> str | None:
    """The longest text of the table that this one begins with: one look per length."""
    for length, texts in prefixes.items():
        if text[:length] in texts:
            return text[:length]
    return None


def _entry(params: LookupParams, text: str) -> dict[str, Any] | None:
    if params.match == "exact":
        return params.lookup.get(text)
    found = _longest(_table(params).prefixes, text)
    return None if found is None else params.lookup[found]


def _not_found(params: LookupParams, event: Event) -> tuple[Event, ...]:
    default = None if params.default is None else fill(params.default, event)
    if params.function == "enrich":
        return ({**event, **(default or {})},)
    return () if default is None else (default,)


def _entries(params: LookupParams, column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Per row the number of the table's entry, -1 for none; and where there is a text."""
    encoded = column.dictionary_encode()
    numbers, prefixes = _table(params).numbers, _table(params).prefixes
    texts = encoded.dictionary.to_pylist()
    if params.match == "exact":
        by_text = [numbers.get(text, -1) for text in texts]
    else:
        hits = [_longest(prefixes, text) for text in texts]
        by_text = [-1 if hit is None else numbers[hit] for hit in hits]
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    places = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)
    return np.append(np.array(by_text, np.int64), -1)[places], valid


def _enriched(events: pa.RecordBatch, found: pa.RecordBatch) -> pa.RecordBatch | None:
    """The events with the columns found, where these have something; None where types differ."""
    joined = {
        field.name: (field, column)
        for field, column in zip(events.schema, events.columns, strict=True)
    }
    for field, column in zip(found.schema, found.columns, strict=True):
        if field.name not in joined:
            joined[field.name] = (field, column)
            continue
        own, mine = joined[field.name]
        if mine.type != column.type or own.metadata or pt.is_nested(mine.type):
            return None
        joined[field.name] = (field, pc.coalesce(column, mine))
    schema = pa.schema([field for field, _ in joined.values()])
    return pa.RecordBatch.from_arrays([column for _, column in joined.values()], schema=schema)


def _failure(params: LookupParams) -> str:
    return f"field {params.key!r} is missing or names nothing"
