"""A Python function per row, with state: ``stream.process(debit, key="src", states=[funds])``.

The function runs on the actor that owns the row's key and receives the row and one handle per
state. What it writes takes effect with the microbatch or not at all. It may yield rows for the
steps after it, which may use another key: that is how one record changes state at two places.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from atoll.errors import DeclarationError, PathError
from atoll.path import Path
from atoll.schema import Map, Set
from atoll.steps.exchanges.place_by import PlaceBy
from atoll.steps.exchanges.to_all import ToAll
from atoll.steps.projection import Projection
from atoll.topology.declared import PStateDeclaration
from atoll.topology.flow import Flow, after
from atoll.topology.operator import StateOperator
from atoll.topology.usercode import check_function

if TYPE_CHECKING:
    import pyarrow as pa

    from atoll.engine.step import BoundStep
    from atoll.topology.binding import Binding
    from atoll.topology.times import Clock


@dataclass(frozen=True, eq=False)
class Process(StateOperator):
    """Calls ``function(row, *handles)`` for each row, rows of one key in append order.

    ``key`` is the column of the input that holds the key; None when every state is global, and
    where ``route`` says otherwise how rows find their vnode.
    """

    writes_values: ClassVar[bool] = True

    function: Callable[..., Any]
    key: str | None
    states: tuple[PStateDeclaration, ...]
    emitted: pa.Schema | None
    computed: tuple[str, ...]
    """Columns made only to hold the key; the function does not see them."""
    route: Literal["key", "number", "all"] = "key"
    """By the key; by the number in the column ``key``; or each row to every vnode."""
    on_timer: Callable[..., Any] | None = None
    """Called when a timer is due; None: the step has no timers."""
    clock: Clock = ()
    """What time its timers go by."""
    timers: PStateDeclaration | None = None
    """Where they are kept."""

    @property
    def title(self) -> str:
        """As users write it: ``update`` is a process step of one path."""
        return str(getattr(self.function, "step_word", "process"))

    @property
    def writes(self) -> tuple[PStateDeclaration, ...]:
        """The states of its own topology: it may write any of them."""
        return self.states if self.timers is None else (*self.states, self.timers)

    @property
    def emits(self) -> bool:
        """Whether ``emits=`` was declared."""
        return self.emitted is not None

    @property
    def sees_records(self) -> bool:
        """Its function may raise."""
        return True

    @property
    def holds_back(self) -> bool:
        """What its timers by event time yield."""
        return self.on_timer is not None and self.clock != ()

    @property
    def fragment(self) -> str:
        """By its function."""
        return f"{self.title} {getattr(self.function, '__name__', 'function')}"

    def schema(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        """What ``emits=`` declared."""
        from atoll.topology.rows import given_columns

        if self.emitted is None:
            return super().schema(inputs)
        return given_columns(self.emitted, self.seen(inputs[0]))

    def seen(self, rows: pa.Schema) -> pa.Schema:
        """The columns that the function sees of the step's rows."""
        import pyarrow as pa

        return pa.schema([field for field in rows if field.name not in self.computed])

    @property
    def keyed_state(self) -> PStateDeclaration:
        """A state whose top-level key is the step's."""
        return next(each for each in self.states if not (each.is_global or each.per_vnode))

    def bind(self, binding: Binding) -> tuple[BoundStep, ...]:
        """One step."""
        from atoll.steps.process.bind import bound_process

        return (bound_process(self, binding),)


def process(  # noqa: PLR0913  # each says one thing of the step
    stream: Flow,
    function: Callable[..., Any],
    key: str | None,
    states: Sequence[PStateDeclaration],
    emitted: pa.Schema | None,
    place: str,
    timing: tuple[Callable[..., Any], str, str | None] | None = None,
) -> Flow:
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
    begin = stream if source is None else Flow(stream.graph, source.inputs[0])
    before = projection.before(begin, place, word)
    made = (column,) if isinstance(source, PlaceBy) and source.drops and column else ()
    computed = (*projection.computed, *made)
    step = Process((before,), place, function, column, states, emitted, computed, route)
    if timing is not None:
        from atoll.steps.process.declaring_timers import with_timers

        step = with_timers(stream, step, *timing)
    return after(stream.graph, step)


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
    stream: Flow, key: str | None, states: tuple[PStateDeclaration, ...]
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
    partitioned = [state for state in states if not state.is_global and not state.per_vnode]
    local = [state for state in states if state.per_vnode]
    if route == "key" and local and not partitioned:
        raise DeclarationError(
            f"{word} does not say which vnode's {local[0].name} it means",
            hint='name a state with the key, too: key="user_id", states=[users, '
            f"{local[0].name}]; or put to_all(), to_vnode(...) or partition_by(...) before it",
            declared=place,
        )
    if route == "key" and key is None and partitioned:
        raise DeclarationError(
            f"{word} needs key= to reach {partitioned[0].name}, which is partitioned",
            hint='say which value of the row is its top-level key: key="user_id"; or put '
            "to_vnode(...), partition_by(...) or to_all() right before it",
            declared=place,
        )
    keyed = {(_top_key(state), state.partition_by) for state in partitioned}
    owned = key is not None or route != "key"
    if len(keyed) > 1 or (owned and len(partitioned) + len(local) < len(states)):
        raise DeclarationError(
            f"the states {', '.join(s.name for s in states)} are not partitioned by the same type, "
            "or not by the same function",
            hint="a process step owns one key: use two steps, one after the other",
            declared=place,
        )


def update(
    stream: Flow,
    state: PStateDeclaration,
    change: Callable[[Any], Any],
    key: str | None,
    place: str,
) -> Flow:
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
