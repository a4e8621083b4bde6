"""A definition that was read and found right: what everything after the reading works with.

These are the normal forms. What a definition may leave out stands here with its usual value, short
forms are long, and of names that mean the same only one is left.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from atoll.runtime.actors.interface import ActorType


class EventCount(msgspec.Struct, frozen=True, tag="event-count"):
    """The state is computed anew whenever this many more events have come."""

    events: int


class Duration(msgspec.Struct, frozen=True, tag="duration"):
    """The state is computed anew whenever this much time has passed."""

    duration_ms: int


class Sliding(msgspec.Struct, frozen=True, tag="sliding-window"):
    """The state is computed of the last ``size``, whenever ``slide`` more have come or passed.

    ``1 <= slide < size``: a window that slides by its size is an :class:`EventCount` or a
    :class:`Duration`.
    """

    size: int
    slide: int
    units: Literal["events", "ms"]


Update = EventCount | Duration | Sliding


class StateModes(msgspec.Struct, frozen=True):
    """Which state functions are on; None is off."""

    calc_local: bool = False
    collect_local: Update | None = None
    spark_batch: Update | None = None
    log_batch: Update | None = None


class Collect(msgspec.Struct, frozen=True):
    """A value of a sibling's: its field, or its answer to an event.

    Exactly one of ``field`` and ``data`` is given. The field of a sibling with ``group_by`` is that
    of the group which the collecting actor's own event belongs to.
    """

    alias: str
    source: str
    field: str | None = None
    data: dict[str, Any] | None = None


class EventLog(msgspec.Struct, frozen=True):
    """Which events of an actor are kept."""

    incoming: bool = False
    outgoing: bool = False


class Timeout(msgspec.Struct, frozen=True):
    """The state goes back to the initial one after this time, again and again or once."""

    duration_ms: int
    mode: Literal["continue", "exit"]


class Actor(msgspec.Struct, frozen=True):
    """A runtime actor of a definition.

    Args:
        kind: Its type; one with ``group`` or ``timeout`` in the definition is wrapped already, so
            only what stores groups apart has to look at ``group_by``.
        params: What ``kind`` takes: an object of its ``params``.
    """

    name: str
    kind: ActorType[Any]
    params: Any
    group_by: str | None = None
    collect: tuple[Collect, ...] = ()
    copies: int = 1
    log: EventLog = EventLog()
    state: StateModes = StateModes()
    timeout: Timeout | None = None


class Link(msgspec.Struct, frozen=True):
    """Events that ``source`` emits go to ``target``; both are names of actors."""

    source: str
    target: str


class Distribution(msgspec.Struct, frozen=True):
    """How many copies the runtime has, and the field by which an event finds its copy.

    Without ``by`` events go round robin.
    """

    copies: int = 1
    by: str | None = None


class Definition(msgspec.Struct, frozen=True):
    """A runtime as declared.

    Args:
        given: What was sent, for whoever asks for it.
        order: The actors' names in the order in which one event passes through them: along the
            links, and as in the definition where those leave it open.
    """

    name: str
    actors: tuple[Actor, ...]
    links: tuple[Link, ...]
    order: tuple[str, ...]
    given: dict[str, Any]
    owner: str | None = None
    projectid: str | None = None
    distribution: Distribution = Distribution()
