"""A definition, run by hand in one process: events in, what each actor emitted and keeps out.

It is what a runtime means, written as plainly as that can be said, for dry runs and as the measure
that everything faster is held against. It shares the types of actors with the engine and nothing
else.

**Order.** One event that comes in is done with before the next one. It passes through the actors in
the order of the definition (``Definition.order``); each actor takes all that this event sent to it,
in the order of the actors that sent it, and of their emissions. So what an actor collects from a
sibling that stands before it is the sibling's state after the same event.

**Instances.** Each of a copy's instances of an actor has a state of its own; its events go to them
in turn, the first to the first. A group has its own list of ``collect-local``, as its own state.
An instance collects from the sibling's instance with its own number, modulo how many there are.

**Snapshots.** ``collect-local`` is computed here, event by event. A snapshot of ``spark-batch`` or
``log-batch`` depends on when a microbatch ends, so it is put in with :meth:`Interpreter.offer`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from atoll.runtime.actors.group import Grouped
from atoll.runtime.actors.interface import Effect, Event, Given, Result, State
from atoll.runtime.definition.structs import (
    Actor,
    Definition,
    Duration,
    EventCount,
    Sliding,
    Update,
)


class _Instance:
    """One instance of an actor: its state, and the list of ``collect-local``."""

    def __init__(self, actor: Actor, name: str) -> None:
        self.actor = actor
        self.name = name
        self.state: State = actor.kind.initial(actor.params)
        self.kept: dict[str | None, list[tuple[int, Event]]] = {}
        self.next_at: int | None = None


class Interpreter:
    """Runs one copy of a definition.

    Args:
        definition: What to run.
        copy: Which copy it is, from 1; part of the identity of its events.
    """

    def __init__(self, definition: Definition, copy: int = 1) -> None:
        """Nothing has come in; timers do not run before :meth:`start`."""
        self._definition = definition
        self._actors = {actor.name: actor for actor in definition.actors}
        self._prefix = f"{definition.name}.{copy}"
        self._instances = {
            name: [_Instance(actor, f"{self._prefix}/{name}/{at}") for at in range(actor.copies)]
            for name, actor in self._actors.items()
        }
        self._taken: Counter[str] = Counter()
        self._now_ms = 0
        self.emitted: dict[str, list[Event]] = {name: [] for name in self._actors}
        self.effects: dict[str, list[Effect]] = {name: [] for name in self._actors}
        self.failures: dict[str, list[str]] = {name: [] for name in self._actors}

    def start(self, at_ms: int = 0) -> None:
        """Start: timers run from now on."""
        self._now_ms = at_ms
        for each in self._every_instance():
            given = Given(each.name, at_ms=at_ms)
            each.state = each.actor.kind.started(each.actor.params, each.state, given)
            period = _period_ms(each.actor.state.collect_local)
            each.next_at = at_ms + period if period else None

    def send(self, name: str, event: Event, at_ms: int | None = None) -> None:
        """An event for an actor, and all that follows from it."""
        self.advance(self._now_ms if at_ms is None else at_ms)
        self._pass_on({name: [event]})

    def shunt(self, name: str, event: Event, at_ms: int | None = None) -> Result:
        """What an actor makes of an event, which is not emitted; its state changes."""
        self.advance(self._now_ms if at_ms is None else at_ms)
        return self._take(self._actors[name], event)

    def answer(self, name: str, effect: Effect, outcome: dict[str, Any]) -> None:
        """What came of an effect: the events that the actor makes of it are passed on."""
        actor = self._actors[name]
        self._emit(actor, actor.kind.answered(actor.params, effect, outcome), {})

    def advance(self, at_ms: int) -> None:
        """Time passes: everything due by then happens, each at its own time and in its order."""
        while True:
            due = [
                (time, at)
                for at, each in enumerate(self._every_instance())
                if (time := self._due(each)) is not None and time <= at_ms
            ]
            if not due:
                break
            time, at = min(due)
            self._now_ms = max(self._now_ms, time)
            self._tick(self._every_instance()[at])
        self._now_ms = max(self._now_ms, at_ms)

    def offer(self, name: str, state: State) -> None:
        """A snapshot: every instance of the actor goes on from it."""
        for each in self._instances[name]:
            each.state = state

    def states(self, name: str) -> list[State]:
        """The state of each instance of an actor."""
        return [each.state for each in self._instances[name]]

    def read(self, name: str, instance: int = 0) -> dict[str, Any]:
        """What an instance shows of its state."""
        each = self._instances[name][instance]
        return each.actor.kind.read(each.actor.params, each.state)

    def _every_instance(self) -> list[_Instance]:
        return [each for name in self._definition.order for each in self._instances[name]]

    def _pass_on(self, waiting: dict[str, list[Event]]) -> None:
        """Everything that follows from one event, actor by actor."""
        for name in self._definition.order:
            for event in waiting.pop(name, []):
                result = self._take(self._actors[name], event)
                self._send(self._actors[name], result.emitted, waiting)

    def _emit(
        self, actor: Actor, events: tuple[Event, ...], waiting: dict[str, list[Event]]
    ) -> None:
        self._send(actor, events, waiting)
        self._pass_on(waiting)

    def _send(
        self, actor: Actor, events: tuple[Event, ...], waiting: dict[str, list[Event]]
    ) -> None:
        self.emitted[actor.name] += events
        for link in self._definition.links:
            if link.source == actor.name:
                waiting.setdefault(link.target, []).extend(events)

    def _take(self, actor: Actor, event: Event) -> Result:
        """One event, taken by the instance whose turn it is."""
        number = self._taken[actor.name]
        self._taken[actor.name] += 1
        at = number % actor.copies
        each = self._instances[actor.name][at]
        collected = self._collected(actor, at, event)
        given = Given(each.name, number, self._now_ms, collected)
        result = actor.kind.trigger(actor.params, each.state, event, given)
        self._note(each, result)
        self._collect_local(each, event)
        return result

    def _note(self, each: _Instance, result: Result) -> None:
        if result.failure is not None:
            self.failures[each.actor.name].append(result.failure)
        self.effects[each.actor.name] += result.effects
        if each.actor.state.calc_local and result.failure is None:
            each.state = result.state

    def _collected(self, actor: Actor, at: int, event: Event) -> dict[str, Any]:
        found = {}
        for each in actor.collect:
            sibling = self._actors[each.source]
            state = self._instances[each.source][at % sibling.copies].state
            if each.data is None:
                shown = sibling.kind.read_for(sibling.params, state, event)
                if each.field in shown:
                    found[each.alias] = shown[each.field]
                continue
            inner = self._collected(sibling, at % sibling.copies, each.data)
            given = Given(f"{self._prefix}/{actor.name}/{each.alias}", 0, self._now_ms, inner)
            result = sibling.kind.trigger(sibling.params, state, each.data, given)
            if result.emitted and result.failure is None:
                found[each.alias] = result.emitted[0]
        return found

    def _collect_local(self, each: _Instance, event: Event) -> None:
        update = each.actor.state.collect_local
        if update is None:
            return
        kind, group = each.actor.kind, None
        if isinstance(kind, Grouped):
            group = kind.group_of(event)
            if group is None:
                return
        kept = each.kept.setdefault(group, [])
        kept.append((self._now_ms, event))
        match update:
            case EventCount(events) if len(kept) == events:
                self._compute(each, group)
                kept.clear()
            case Sliding(size, slide, "events") if len(kept) == size:
                self._compute(each, group)
                del kept[:slide]

    def _compute(self, each: _Instance, group: str | None) -> None:
        events = [event for _, event in each.kept[group]]
        state = each.actor.kind.snapshot(each.actor.params, events)
        each.state = state if group is None else {**each.state, **state}

    def _due(self, each: _Instance) -> int | None:
        times = [each.next_at, each.actor.kind.due(each.actor.params, each.state)]
        return min((time for time in times if time is not None), default=None)

    def _tick(self, each: _Instance) -> None:
        """What is due at this instance: the list of ``collect-local`` first, else its timer."""
        update = each.actor.state.collect_local
        if each.next_at is not None and each.next_at <= self._now_ms:
            since = 0 if isinstance(update, Duration) else each.next_at - _size_ms(update)
            if not isinstance(each.actor.kind, Grouped):
                each.kept.setdefault(None, [])
            for group, kept in each.kept.items():
                kept[:] = [pair for pair in kept if pair[0] >= since]
                self._compute(each, group)
                if isinstance(update, Duration):
                    kept.clear()
            each.next_at += _period_ms(update)
            return
        given = Given(f"{each.name}/tick", 0, self._now_ms)
        result = each.actor.kind.tick(each.actor.params, each.state, given)
        self._note(each, result)
        self._emit(each.actor, result.emitted, {})


def _period_ms(update: Update | None) -> int:
    """After how long the list is computed again; 0 for a list that is no matter of time."""
    match update:
        case Duration(ms):
            return ms
        case Sliding(_, slide, "ms"):
            return slide
    return 0


def _size_ms(update: Update | None) -> int:
    return update.size if isinstance(update, Sliding) else 0
