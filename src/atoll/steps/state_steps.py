"""Declares the steps that touch state, and checks them where they are declared.

Keys and aggregates name Spark SQL expressions. Those that are more than a column are computed by
one projection before the step, under names of their own, so that the step itself sees columns.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from atoll.aggregates.base import Aggregator
from atoll.aggregates.struct_of import StructOf
from atoll.aggregates.totals.count import EVERY_ROW
from atoll.errors import DeclarationError, PathError
from atoll.path import Path
from atoll.schema import Map, Set, Struct
from atoll.steps.aggregate.declare import Aggregate, AggregateField
from atoll.steps.aggregate.live_sessions import check_sessions
from atoll.steps.aggregate.meanings import written
from atoll.steps.aggregate.writes import Exploded, Write, writes_of
from atoll.steps.columns.projection import Projection
from atoll.steps.columns.transform import Transform
from atoll.steps.distinct_count import builders as distinct_counts
from atoll.steps.exchanges.place_by import PlaceBy
from atoll.steps.exchanges.to_all import ToAll
from atoll.steps.lookup.declare import Lookup
from atoll.steps.process.declare import Process
from atoll.steps.process.declaring_timers import with_timers
from atoll.steps.rows.explode_map import ExplodeMap
from atoll.steps.windows.window import Window
from atoll.topology.declared import PStateDeclaration, Target
from atoll.topology.expressions import bare_column
from atoll.topology.operator import Operator
from atoll.topology.usercode import check_function

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from atoll.stream.stream import Aggregated, Stream

__all__ = ["Projection", "aggregate", "lookup", "process", "update"]


def aggregate(
    stream: Stream,
    into: Target | PStateDeclaration,
    aggregator: Aggregator | None,
    fields: Mapping[str, Aggregator],
    place: str,
    *,
    by_session: bool = False,
) -> Aggregated:
    """Add an :class:`~atoll.steps.aggregate.declare.Aggregate` and return what it wrote."""
    from atoll.stream.stream import Aggregated

    target = _own_target(stream, into, "aggregate", place)
    if (aggregator is None) == (not fields):
        raise DeclarationError(
            "aggregate takes one aggregate, or one per field of a struct by keyword",
            hint=f"for example aggregate({target.text}, agg.count())",
            declared=place,
        )
    for each in fields.values() if aggregator is None else (aggregator,):
        if not isinstance(each, Aggregator):
            raise DeclarationError(
                f"aggregate takes aggregates, not {each!r}",
                hint=f"for example aggregate({target.text}, agg.count())",
                declared=place,
            )
    writes = writes_of(target, aggregator or StructOf.of(fields), place)
    if by_session:
        check_sessions(target, writes, place)
    for exploded, shared in groupby(writes, key=lambda each: each.exploded):
        rows, together = _exploded(stream, exploded, place), list(shared)
        projection = Projection.of(text for write in together for text in _expressions(write))
        before = projection.before(rows, place, "aggregate")
        for write in together:
            _add_aggregate(rows, write, projection, before, place, by_session=by_session)
            distinct_counts.count_distinct(rows, write, projection, before, place)
            stream.graph.written += written(write, _gap(stream) if by_session else None)
    if len(writes) > 1:
        return Aggregated(target, ())
    return Aggregated(writes[0].target, writes[0].key_names)


def _gap(stream: Stream) -> int:
    windows = stream.operator
    assert isinstance(windows, Window), "sessions are windows"
    return windows.size_ms


def _own_target(stream: Stream, given: object, step: str, place: str) -> Target:
    """The place in a PState of the stream's topology that was given: a target, or a whole PState.

    Raises:
        DeclarationError: When it is neither, or another topology's.
    """
    stream.graph.check_own(given.pstate if isinstance(given, Target) else given, step, place)
    return given if isinstance(given, Target) else Target(given, ())  # type: ignore[arg-type]


def _target_to_read(stream: Stream, given: object, step: str, place: str) -> Target:
    """The same, where a mirror of another module's PState may stand too.

    Raises:
        DeclarationError: As :func:`_own_target`.
    """
    pstate = given.pstate if isinstance(given, Target) else given
    stream.graph.check_readable(pstate, step, place)
    return given if isinstance(given, Target) else Target(pstate, ())  # type: ignore[arg-type]


def _exploded(stream: Stream, exploded: Exploded | None, place: str) -> Stream:
    """The stream whose rows are the entries of the map that is taken apart."""
    if exploded is None:
        return stream
    projection = Projection()
    column = projection.column(exploded.expression)
    before = projection.before(stream, place, "aggregate")
    key, value = (str(bare_column(name)) for name in (exploded.key, exploded.value))
    return _after(stream, ExplodeMap((before,), place, column, key, value))


def _expressions(write: Write) -> Iterator[str]:
    """What the steps of a write need as columns."""
    yield from _key_texts(write)
    yield from (text for _, each in write.fields for text in each.inputs if text != EVERY_ROW)
    yield from distinct_counts.expressions(write)


def _key_texts(write: Write) -> Iterator[str]:
    yield from (part.text for part in write.target.key_parts)
    if isinstance(write.target.node, Set) and not write.deletes:
        yield from (each.inputs[0] for _, each in write.fields)


def _add_aggregate(
    stream: Stream,
    write: Write,
    projection: Projection,
    before: Operator,
    place: str,
    *,
    by_session: bool,
) -> None:
    declared = tuple(
        AggregateField(
            name,
            each,
            tuple(None if text == EVERY_ROW else projection.column(text) for text in each.inputs),
        )
        for name, each in write.fields
    )
    keys = tuple(map(projection.column, _key_texts(write)))
    step = Aggregate((before,), place, write.target, keys, declared, write.deletes, by_session)
    stream.graph.add(step)


def lookup(stream: Stream, source: Target | PStateDeclaration, column: str, place: str) -> Stream:
    """Add a :class:`~atoll.steps.lookup.declare.Lookup`."""
    target = _target_to_read(stream, source, "lookup", place)
    if not target.node.leaf:
        raise DeclarationError(
            f"{target.text} is stored element by element and cannot be looked up as one value",
            hint=_readable_below(stream, target),
            declared=place,
        )
    projection = Projection()
    keys = tuple(projection.column(part.text) for part in target.key_parts)
    before = projection.before(stream, place, "lookup")
    found = _after(stream, Lookup((before,), place, target, keys, column))
    return _without(found, projection, place)


def _readable_below(stream: Stream, target: Target) -> str:
    """How to read what lies below a place that holds more than one value."""
    node, place = target.node, target.text
    while isinstance(node, Map) or (isinstance(node, Struct) and not node.leaf):
        if isinstance(node, Map):
            place, node = place + '["..."]', node.value
            continue
        name = next((name for name, each in node.fields if each.leaf), None)
        if name is None:
            break
        place, node = f'{place}["{name}"]', dict(node.fields)[name]
    if node.leaf:
        return f"look up one of its values: {place}"
    name = target.pstate.name
    if stream.graph.word == "query":
        return (
            f"read its elements as rows: select_from({name}, lambda row: path.key(row.k).all(), "
            'emits="element ...")'
        )
    return f'read it in Python: process(function, key="...", states=[{name}], emits="...")'


def process(  # noqa: PLR0913  # each says one thing of the step
    stream: Stream,
    function: Callable[..., Any],
    key: str | None,
    states: Sequence[PStateDeclaration],
    emitted: pa.Schema | None,
    place: str,
    timing: tuple[Callable[..., Any], str, str | None] | None = None,
) -> Stream:
    """Add a :class:`~atoll.steps.process.declare.Process`.

    ``timing`` is what runs when a timer is due, what time timers go by, and their name.
    """
    if isinstance(states, PStateDeclaration | str) or not isinstance(states, Sequence):
        raise DeclarationError(
            f"states= is a list of PStates, not {getattr(states, 'name', states)!r}",
            hint="write states=[...] with what pstate(...) of this topology returned",
            declared=place,
        )
    states = tuple(states)
    if not states:
        raise DeclarationError(
            "process without states",
            hint="use map or flat_map for a step without state",
            declared=place,
        )
    word = getattr(function, "step_word", "process")
    if word == "process":
        _check_signature(function, states, timing is not None, place)
    for state in states:
        stream.graph.check_own(state, word, place)
    route, source = _route(stream, key, states)
    _check_keys(states, key, route, word, place)
    projection = Projection()
    text = source.expression if isinstance(source, PlaceBy) else key
    column = None if text is None else projection.column(text)
    begin = stream if source is None else type(stream)(stream.graph, source.inputs[0])
    before = projection.before(begin, place, word)
    made = (column,) if isinstance(source, PlaceBy) and source.drops and column else ()
    computed = (*projection.computed, *made)
    step = Process((before,), place, function, column, states, emitted, computed, route)
    if timing is not None:
        step = with_timers(stream, step, *timing)
    return _after(stream, step)


def _check_signature(
    function: Callable[..., Any],
    states: Sequence[PStateDeclaration],
    timed: bool,  # noqa: FBT001  # whether the step has timers
    place: str,
) -> None:
    names = [getattr(state, "name", "state") for state in states]
    taken = ", ".join(["row", *names, *(["timers"] if timed else [])])
    hint = f"write it as function({taken})"
    if not timed:
        hint += "; for timers, which come last, give on_timer="
    check_function(function, 1 + len(names) + timed, "process", place, hint)


def _route(
    stream: Stream, key: str | None, states: tuple[PStateDeclaration, ...]
) -> tuple[Literal["key", "number", "all"], ToAll | PlaceBy | None]:
    """How rows find their vnode: without a key, as the exchange right before the step says."""
    if key is None and not all(state.is_global for state in states):
        match stream.operator:
            case ToAll() as source:
                return "all", source
            case PlaceBy() as source:
                return "number", source
    return "key", None


def _check_keys(
    states: tuple[PStateDeclaration, ...], key: str | None, route: str, word: str, place: str
) -> None:
    """Hold that a row reaches the same vnode of all states."""
    partitioned = [state for state in states if not state.is_global]
    if route == "key" and key is None and partitioned:
        raise DeclarationError(
            f"{word} needs key= to reach {partitioned[0].name}, which is partitioned",
            hint='say which value of the row is its top-level key: key="user_id"; or put '
            "to_vnode(...), partition_by(...) or to_all() right before it",
            declared=place,
        )
    keyed = {(_top_key(state), state.partition_by) for state in partitioned}
    owned = key is not None or route != "key"
    if len(keyed) > 1 or (owned and len(partitioned) < len(states)):
        raise DeclarationError(
            f"the states {', '.join(s.name for s in states)} are not partitioned by the same type, "
            "or not by the same function",
            hint="a process step owns one key: use two steps, one after the other",
            declared=place,
        )


def update(
    stream: Stream,
    state: PStateDeclaration,
    change: Callable[[Any], Any],
    key: str | None,
    place: str,
) -> Stream:
    """Add a :class:`~atoll.steps.process.declare.Process` that follows one path per row."""
    check_function(change, 1, "update", place)
    return process(stream, _following(change), key, (state,), None, place)


def _following(change: Callable[[Any], Any]) -> Callable[[Any, Any], None]:
    """The function of a process step that changes its state along the path that a row asks for.

    It keeps the name and the module of the user's, which is shipped with it.
    """

    @functools.wraps(change)
    def follow(row: Any, state: Any) -> None:
        wanted = change(row)
        if wanted is None:
            return
        if not isinstance(wanted, Path):
            raise PathError(
                f"update was given a {type(wanted).__name__}, not a path",
                hint="return path.key(row.user).set(value), or None to change nothing",
            )
        state.transform(wanted)

    follow.step_word = "update"  # type: ignore[attr-defined]  # for messages
    return follow


def _top_key(state: PStateDeclaration) -> Any:
    match state.node:
        case Map(key=key):
            return key
        case Set(item=item):
            return item
    return None


def _without(stream: Stream, projection: Projection, place: str) -> Stream:
    """Drop the computed columns again, where the rows go on."""
    if not projection.computed:
        return stream
    names = tuple(projection.computed)

    def drop(frame: Any) -> Any:
        return frame.drop(*names)

    drop.step_word = "lookup"  # type: ignore[attr-defined]  # for messages
    drop.keeps_origins = True  # type: ignore[attr-defined]  # Atoll's own, it names its columns
    return _after(stream, Transform((stream.operator,), place, drop))


def _after(stream: Stream, step: Operator) -> Stream:
    stream.graph.add(step)
    return type(stream)(stream.graph, step)
