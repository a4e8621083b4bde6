"""A definition made ready to run in one copy: who is linked to whom, and what each actor needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from atoll.runtime.actors.group import Grouped
from atoll.runtime.actors.interface import ActorType
from atoll.runtime.definition.structs import Actor, Definition, Update
from atoll.runtime.engine.collecting import by_time


@dataclass(frozen=True)
class ActorProgram:
    """An actor as a copy runs it.

    Attributes:
        declared: The actor.
        targets: Those that it is linked to, in the order of the links.
        timed: Whether time alone may make it do something.
        starts: Whether it wants to know when the runtime starts.
        joins: Whether others emit to it, so that its events may have to be put in order.
        batch: What asks for snapshots of it, or None.
    """

    declared: Actor
    targets: tuple[str, ...]
    timed: bool
    starts: bool
    joins: bool
    batch: Update | None

    @property
    def name(self) -> str:
        """Its name."""
        return self.declared.name

    @property
    def kind(self) -> ActorType[Any]:
        """Its type."""
        return self.declared.kind

    @property
    def stateful(self) -> bool:
        """Whether its instances keep anything."""
        return self.declared.kind.stateful

    @property
    def plain(self) -> bool:
        """Whether nothing matters but the events: they may be taken all at once."""
        actor = self.declared
        alone = actor.copies == 1 and actor.group_by is None and not actor.collect
        return alone and not actor.kind.stateful and not (actor.log.incoming or actor.log.outgoing)


@dataclass(frozen=True)
class RuntimeProgram:
    """A runtime as its copies run it.

    Attributes:
        name: What tells it from every other runtime that there ever was; part of identities.
        definition: What was declared.
        copies: How many copies there are now.
        actors: By name, in the order in which an event passes them.
        one_by_one: Whether an event goes through all actors before the next one: where an actor
            collects from another one.
    """

    name: str
    definition: Definition
    copies: int
    actors: dict[str, ActorProgram]
    one_by_one: bool

    @property
    def stateful(self) -> bool:
        """Whether any actor keeps state."""
        return any(each.stateful for each in self.actors.values())

    @property
    def timed(self) -> bool:
        """Whether any actor goes by the clock."""
        return any(each.timed for each in self.actors.values())

    @property
    def logs(self) -> bool:
        """Whether any actor's events are kept."""
        logs = [each.declared.log for each in self.actors.values()]
        return any(each.incoming or each.outgoing for each in logs)

    @property
    def effects(self) -> bool:
        """Whether any actor does something outside."""
        return any(each.kind.effect != "none" for each in self.actors.values())

    @property
    def batch(self) -> dict[str, ActorProgram]:
        """The actors with a batch mode, by name."""
        return {name: each for name, each in self.actors.items() if each.batch is not None}


def kind_of_instance(actor: ActorProgram) -> ActorType[Any]:
    """The type of what has a state of its own: of an actor with groups, the type of each group."""
    return _ungrouped(actor.declared)


def batch_update(actor: Actor) -> Update | None:
    """What asks for snapshots of an actor: a definition with both batch modes is not valid."""
    return actor.state.spark_batch or actor.state.log_batch


def program_of(name: str, definition: Definition, copies: int) -> RuntimeProgram:
    """What the copies of a runtime run."""
    by_name = {actor.name: actor for actor in definition.actors}
    actors = {
        each: _actor(
            by_name[each],
            tuple(link.target for link in definition.links if link.source == each),
            joins=any(link.target == each for link in definition.links),
        )
        for each in definition.order
    }
    one_by_one = any(actor.collect for actor in definition.actors)
    return RuntimeProgram(name, definition, copies, actors, one_by_one)


def _ungrouped(actor: Actor) -> ActorType[Any]:
    kind = actor.kind
    return kind.inner if isinstance(kind, Grouped) else kind


def _actor(actor: Actor, targets: tuple[str, ...], *, joins: bool) -> ActorProgram:
    kind = type(_ungrouped(actor))
    return ActorProgram(
        actor,
        targets,
        timed=kind.due is not ActorType.due or _collects_by_time(actor),
        starts=kind.started is not ActorType.started,
        joins=joins,
        batch=batch_update(actor),
    )


def _collects_by_time(actor: Actor) -> bool:
    update = actor.state.collect_local
    return update is not None and by_time(update)
