"""What a type of runtime actor is: a pure function of its state and an event, and little more.

A runtime actor takes events, JSON objects, one at a time. For each it may emit events to the actors
that it is linked to, change its state, and ask for effects outside (a request, a statement, a
line of a file), which it describes and never performs: they follow the commit. So everything that
a type does may be done again, elsewhere, and gives the same.

**Nothing comes from anywhere else.** The time, the identity of the event and what was collected
from siblings are in :class:`Given`. Whoever tries a microbatch again gives the same again, so a
type that needs chance (``sample``, ``generator``) derives it from the identity.

**State** is a plain value, as JSON knows them. It is never changed in place: a trigger returns the
new one. Which state functions of Coral's a type has is in ``modes``:

- ``calc-local``: the state that :meth:`ActorType.trigger` returns is kept. While it is off,
  the engine drops it: the trigger scores with the state of the last snapshot.
- ``collect-local``, ``spark-batch``, ``log-batch``: the state becomes
  :meth:`ActorType.snapshot` of a range of events. A type with ``mergeable`` also has
  :meth:`ActorType.combine`, so that parts of the range can be computed apart.

Differences to Coral's five procedures: ``trigger`` and the update of ``calc-local`` are one
function, since either may need what the other found; the three others are one, since they differ
only in where the events come from. What a ``collect`` shows is :meth:`ActorType.read`, apart from
the state: a state is what can be merged (sums of squares), a reader wants what it means (a
deviation).

**Batches.** A stateless type may have :meth:`ActorType.batch`: the same over Arrow batches (see
``runtime/batches.py`` for events as columns). It gives what ``trigger`` gives for each row; a batch
that it cannot take it answers with None, and the engine triggers row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

import msgspec

from atoll.runtime.problems import Problem

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

__all__ = [
    "ActorType",
    "BatchGiven",
    "BatchResult",
    "Effect",
    "EffectKind",
    "Event",
    "Given",
    "Mode",
    "Result",
    "State",
]

Event = dict[str, Any]
"""A JSON object. It is shared by all who receive it, so nobody changes it."""

State = Any
"""What JSON can say, ints and floats told apart; None for a stateless type."""

Mode = Literal["calc-local", "collect-local", "spark-batch", "log-batch"]
EffectKind = Literal["none", "http", "sql", "file"]
P = TypeVar("P", bound=msgspec.Struct)


class Given(msgspec.Struct, frozen=True):
    """What a trigger knows besides state and event; the same for every attempt.

    Identity and number together are this trigger's: no two of a runtime have both the same. Who
    has a text for each trigger needs no numbers; who triggers many at once gives them one identity.

    Args:
        identity: Where the event comes from: runtime, copy, instance, and the way that it took.
        number: Which of the events with this identity it is, from 0.
        at_ms: The microbatch's time, milliseconds since 1970.
        collected: By alias what was collected from siblings; one that could not be answered is
            missing, which is a failure of the trigger that needs it.
    """

    identity: str = ""
    number: int = 0
    at_ms: int = 0
    collected: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @property
    def key(self) -> str:
        """Identity and number as one text: the key of an effect."""
        return f"{self.identity}#{self.number}"


class BatchGiven(msgspec.Struct, frozen=True):
    """What a batch knows besides the events: :class:`Given` of all its rows.

    Args:
        identity: Of all rows.
        numbers: Of each row.
        at_ms: The microbatch's time, milliseconds since 1970.
    """

    identity: str
    numbers: NDArray[np.int64]
    at_ms: int = 0


class Effect(msgspec.Struct, frozen=True):
    """Something to do outside after the commit: data, not a call.

    Args:
        kind: Who performs it.
        request: What to do; the type documents the fields.
        key: The idempotency key: the same for every attempt, another for every other effect.
    """

    kind: EffectKind
    request: dict[str, Any]
    key: str


class Result(msgspec.Struct, frozen=True):
    """What a trigger or tick gave.

    Args:
        state: The state afterwards; the one that it was given, when nothing changed.
        emitted: The events for the linked actors, in order.
        effects: What to do outside after the commit, in order.
        failure: Why the event was not processed, or None; it counts as a failure of the actor,
            nothing is emitted, and the state is the one before.
    """

    state: State = None
    emitted: tuple[Event, ...] = ()
    effects: tuple[Effect, ...] = ()
    failure: str | None = None


class BatchResult(msgspec.Struct, frozen=True):
    """What a stateless type gave for a batch of events.

    Args:
        events: Those emitted.
        rows: For each of them the row of the batch that it came of; ascending.
        failures: By reason the rows that were not processed.
    """

    events: pa.RecordBatch
    rows: NDArray[np.int64]
    failures: dict[str, NDArray[np.int64]]


class ActorType(Generic[P]):
    """A type of runtime actor. One object serves all actors of the type and keeps nothing.

    The docstring of a subclass is its reference: its first line is what the type is for.
    """

    name: ClassVar[str]
    """What a definition calls it: lower case, digits and dashes."""

    params: ClassVar[type[msgspec.Struct]]
    """The fields of ``params``, with ``forbid_unknown_fields``; a docstring tells each."""

    stateful: ClassVar[bool] = False
    effect: ClassVar[EffectKind] = "none"

    fields: ClassVar[tuple[str, ...]] = ()
    """What :meth:`read_for` gives, and so what siblings may collect."""

    modes: ClassVar[frozenset[Mode]] = frozenset()
    """The state functions that it has; none for a stateless type."""

    mergeable: ClassVar[bool] = False
    """Whether it has :meth:`combine`."""

    aliases: ClassVar[frozenset[str] | None] = frozenset()
    """The aliases that its ``collect`` must have, exactly; None for any."""

    emits: ClassVar[bool] = True
    """Whether its trigger can emit at all; one that never does answers no query."""

    resettable: ClassVar[bool] = False
    """Whether ``timeout`` may put its state back."""

    entry: ClassVar[bool] = False
    """Whether events come of it by themselves (a timer, a broker), so that none are sent to it."""

    runs: ClassVar[str | None] = None
    """Why an actor of the type can be declared but not run yet, as a hint; None when it can."""

    example: ClassVar[dict[str, Any]] = {}
    """Params that are right, for the reference."""

    def check(self, params: P) -> Iterator[Problem]:
        """All that is wrong with params whose fields are each of the right type.

        Their paths begin below ``params``; their kind is ``invalid-actor``.
        """
        return iter(())

    def initial(self, params: P) -> State:
        """The state before the first event."""
        return None

    def started(self, params: P, state: State, given: Given) -> State:
        """The state when the runtime starts, for the first time or again."""
        return state

    def trigger(self, params: P, state: State, event: Event, given: Given) -> Result:
        """Take one event. Raises nothing, whatever the event."""
        raise NotImplementedError

    def keeps(self, params: P, field: str) -> bool:
        """Whether each event that a trigger emits has this field as the event had it.

        Who does not know says no: then state by that field behind the actor cannot be moved
        between copies.
        """
        return False

    def due(self, params: P, state: State) -> int | None:
        """When :meth:`tick` should be called: milliseconds since 1970, 0 for at once, or None."""
        return None

    def tick(self, params: P, state: State, given: Given) -> Result:
        """Do what is due by ``given.at_ms``; nothing when that is nothing.

        One call does a bounded amount; when more is due, :meth:`due` says so.
        """
        return Result(state)

    def read(self, params: P, state: State) -> dict[str, Any]:
        """The state as people see it: a value per field of ``fields``."""
        return {}

    def read_for(self, params: P, state: State, event: Event) -> dict[str, Any]:
        """The state as a sibling may collect it while it takes this event of its own.

        The same as :meth:`read`; of a type by a field (``group.py``), that of the event's group.
        """
        return self.read(params, state)

    def answered(self, params: P, effect: Effect, outcome: dict[str, Any]) -> tuple[Event, ...]:
        """The events that the outcome of one of its effects makes, once it was performed."""
        return ()

    def snapshot(self, params: P, events: Iterable[Event]) -> State:
        """The state as a function of a range of the event log, in its order.

        Only asked of a type that has another mode than ``calc-local``.
        """
        state = self.initial(params)
        for event in events:
            result = self.trigger(params, state, event, Given())
            state = result.state
        return state

    def combine(self, params: P, states: Sequence[State]) -> State:
        """The snapshot of a whole range, from those of its parts in order; at least one."""
        raise NotImplementedError

    def batch(self, params: P, events: pa.RecordBatch, given: BatchGiven) -> BatchResult | None:
        """What :meth:`trigger` gives for each row, or None when it must be asked row by row."""
        return None
