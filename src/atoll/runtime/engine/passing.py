"""Passes events through the actors of one copy. Pure but for the memory that it is given.

Events come in *waves*: a run of events that may go through the actors together. Each has its
place in the wave, its origin, and what an actor emits stands at the origin of the event that it
came of.
So an actor that hears of several others gets their events in the order of origins, and of one
origin in the order of the actors: as if one event had gone all the way before the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, overload

import numpy as np

from atoll.runtime.actors.interface import BatchGiven, Effect, Event, Given, Result
from atoll.runtime.engine.columns import Columns
from atoll.runtime.engine.instances import Instances
from atoll.runtime.engine.leaving import Leaving
from atoll.runtime.engine.memory import Failure, Memory
from atoll.runtime.engine.program import ActorProgram, RuntimeProgram


class Origin(NamedTuple):
    """Where an event of a wave came from.

    Attributes:
        at: When it came in, epoch milliseconds.
        shunt: The shunt's id, for one that is answered and emits nothing.
    """

    at: int
    shunt: str = ""


class Arrivals(Sequence[Origin]):
    """Origins of which only the times are known; each is made when it is asked for.

    Args:
        times: When each came in, epoch milliseconds.
    """

    def __init__(self, times: Sequence[int]) -> None:
        """None is made."""
        self._times = times

    @overload
    def __getitem__(self, place: int) -> Origin: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Origin]: ...
    def __getitem__(self, place: int | slice) -> Origin | Sequence[Origin]:
        """The origin of a place."""
        if isinstance(place, slice):
            return Arrivals(self._times[place])
        return Origin(self._times[place])

    def __len__(self) -> int:
        """How many there are."""
        return len(self._times)


@dataclass(slots=True)
class Wave:
    """Events on their way: by actor the place of each event's origin, and the event."""

    origins: Sequence[Origin] = ()
    waiting: dict[str, list[tuple[int, Event]]] = field(default_factory=dict)
    columns: dict[str, list[Columns]] = field(default_factory=dict)

    def take(self, actor: str) -> list[tuple[int, Event]] | Columns:
        """What waits at an actor, in the order in which it was emitted; it waits no more."""
        columns, events = self.columns.pop(actor, []), self.waiting.pop(actor, [])
        if len(columns) == 1 and not events:
            return columns[0]
        for each in columns:
            events = events + each.events()
        return events

    def add(self, origin: Origin, actors: Iterable[str], event: Event) -> None:
        """An event that comes in, for these actors."""
        if not isinstance(self.origins, list):
            self.origins = list(self.origins)
        place = len(self.origins)
        self.origins.append(origin)
        for actor in actors:
            self.waiting.setdefault(actor, []).append((place, event))


class Passing:
    """The actors of one copy during one call.

    Args:
        program: The runtime.
        copy: The copy's number, from 1.
        memory: What it keeps.
        leaving: What leaves it.
    """

    def __init__(
        self, program: RuntimeProgram, copy: int, memory: Memory, leaving: Leaving
    ) -> None:
        """Nothing has passed."""
        self.program = program
        self.copy = copy
        self.memory = memory
        self.leaving = leaving
        self.instances = {
            name: Instances(f"{program.name}.{copy}", actor, memory)
            for name, actor in program.actors.items()
        }

    def pass_wave(self, wave: Wave) -> None:
        """Let every event of a wave go all the way."""
        if self.program.one_by_one and len(wave.origins) > 1:
            for each in _apart(wave):
                self.pass_wave(each)
            return
        for name, actor in self.program.actors.items():
            events = wave.take(name)
            if isinstance(events, Columns):
                if not actor.plain or not self._take_columns(actor, events, wave):
                    self._take(actor, events.events(), wave)
            elif events:
                if actor.joins:
                    events.sort(key=_place)
                self._take(actor, events, wave)

    def emit(self, actor: ActorProgram, place: int, emitted: Iterable[Event], wave: Wave) -> None:
        """Let what an actor emits wait at those that it is linked to."""
        for event in emitted:
            for target in actor.targets:
                wave.waiting.setdefault(target, []).append((place, event))

    # Inside ---------------------------------------------------------------------------------------

    def _take(self, actor: ActorProgram, events: list[tuple[int, Event]], wave: Wave) -> None:
        """One actor takes its events of a wave."""
        instances, name, origins = self.instances[actor.name], actor.name, wave.origins
        asked = failed = shunted = emitted = 0
        outbox = [wave.waiting.setdefault(target, []) for target in actor.targets]
        for place, event in events:
            origin = origins[place]
            number, instance = instances.next()
            result = self._triggered(actor, instance, event, origin.at, number)
            if result.failure is not None:
                failed += 1
                self.memory.fail(name, Failure(result.failure, origin.at))
            for effect in result.effects if result.failure is None else ():
                asked += 1
                self.leaving.effect(name, instance, origin.at, effect)
            if origin.shunt:
                shunted += 1
                self._answer(instances, instance, origin, event, result)
            elif result.failure is None:
                for each in result.emitted:
                    emitted += 1
                    self._log_out(actor, instance, origin.at, each)
                    for box in outbox:
                        box.append((place, each))
        counts = {"json": len(events) - shunted, "shunt": shunted, "failure": failed}
        for statistic, count in {**counts, "emitted": emitted, "effects": asked}.items():
            self.memory.count(name, statistic, count)

    def _take_columns(self, actor: ActorProgram, events: Columns, wave: Wave) -> bool:
        """One actor takes its events of a wave all at once; whether it can."""
        instances, name = self.instances[actor.name], actor.name
        count = len(events.places)
        numbers = np.arange(count, dtype=np.int64) + instances.turn
        at = wave.origins[int(events.places[0])].at if count else 0
        given = BatchGiven(instances.identities[0], numbers, at)
        try:
            result = actor.kind.batch(actor.declared.params, events.batch, given)
        except Exception:  # noqa: BLE001 - one by one it is found which event it was
            return False
        if result is None or not result.events.num_columns:
            return False
        instances.turn += count
        failed = 0
        for reason, rows in result.failures.items():
            failed += len(rows)
            last = int(events.places[int(rows[-1])])
            self.memory.fail(name, Failure(reason, wave.origins[last].at))
        places = events.places[result.rows]
        for target in actor.targets:
            wave.columns.setdefault(target, []).append(Columns(places, result.events))
        counts = {"json": count, "failure": failed, "emitted": len(places)}
        for statistic, more in counts.items():
            self.memory.count(name, statistic, more)
        return True

    def _triggered(
        self, actor: ActorProgram, instance: int, event: Event, at: int, number: int
    ) -> Result:
        instances = self.instances[actor.name]
        collected = self._collected(actor, instance, event, at) if actor.declared.collect else {}
        given = Given(instances.identities[instance], number, at, collected)
        if actor.declared.log.incoming:
            seen = instances.seen(instance)
            self.leaving.log("incoming", actor.name, instance, seen, at, event)
            if actor.batch is not None:
                self.leaving.counted(actor.name, instance, seen, at)
        try:
            return instances.trigger(instance, event, given)
        except Exception as error:  # noqa: BLE001 - a type's defect fails one event, never the runtime
            return Result(failure=f"{type(error).__name__}: {error}"[:500])

    def _collected(
        self, actor: ActorProgram, instance: int, event: Event, at: int
    ) -> dict[str, Any]:
        """What siblings answer; an alias that none answers is missing."""
        found = {}
        for wanted in actor.declared.collect:
            sibling = self.instances[wanted.source]
            if wanted.data is None:
                shown = sibling.read_for(instance, event)
                if wanted.field in shown:
                    found[wanted.alias] = shown[wanted.field]
                continue
            inner = self._collected(sibling.actor, instance, wanted.data, at)
            identity = f"{self.program.name}.{self.copy}/{actor.name}/{wanted.alias}"
            reply = sibling.reply(instance, wanted.data, Given(identity, 0, at, inner))
            if reply is not None:
                found[wanted.alias] = reply
        return found

    def _answer(
        self, instances: Instances, instance: int, origin: Origin, event: Event, result: Result
    ) -> None:
        """What the caller of a shunt gets."""
        effects = [{"kind": e.kind, "key": e.key} for e in result.effects]
        answer = {
            "success": result.failure is None,
            "reason": result.failure,
            "emitted": [] if result.failure is not None else list(result.emitted),
            "effects": effects,
            "state": instances.read_for(instance, event),
            "copy": self.copy,
            "instance": instance,
        }
        self.memory.answer(origin.shunt, answer, origin.at)

    def _log_out(self, actor: ActorProgram, instance: int, at: int, event: Event) -> None:
        if actor.declared.log.outgoing:
            self.leaving.log("outgoing", actor.name, instance, 0, at, event)

    def asked(self, actor: ActorProgram, instance: int, at: int, effects: Iterable[Effect]) -> None:
        """Effects that came of no event."""
        for effect in effects:
            self.leaving.effect(actor.name, instance, at, effect)


def _place(waiting: tuple[int, Event]) -> int:
    return waiting[0]


def _apart(wave: Wave) -> Iterable[Wave]:
    """A wave per origin, in order."""
    waves = [Wave([origin]) for origin in wave.origins]  # one by one there are no columns
    for actor, events in wave.waiting.items():
        for place, event in events:
            waves[place].waiting.setdefault(actor, []).append((0, event))
    return waves
