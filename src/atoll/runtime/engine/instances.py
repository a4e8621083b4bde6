"""The instances of one actor in one copy: which of them takes an event, and what it keeps of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from atoll.runtime.actors.interface import Event, Given, Result, State
from atoll.runtime.engine.collecting import by_time, first_due, hold, pass_time
from atoll.runtime.engine.memory import Kept, Memory, current, group_key, group_value
from atoll.runtime.engine.program import ActorProgram, kind_of_instance
from atoll.runtime.events import text_of

_TICKS_MAX = 10
"""So many ticks of one instance in a row; the rest in the next microbatch."""


def state_in_offer(actor: ActorProgram, key: str, offered: State) -> State:
    """What a snapshot of an actor says of one instance or group."""
    group = group_value(key)
    if group is None:
        return offered
    found = offered.get(group) if isinstance(offered, dict) else None
    return kind_of_instance(actor).initial(actor.declared.params) if found is None else found


class Instances:
    """The instances of one actor in one copy, during one call.

    Args:
        prefix: What identities of the copy's instances begin with.
        actor: The actor.
        memory: What the copy keeps.

    Attributes:
        identities: By number, what tells an instance from every other one.
        turn: How many events the copy's actor took before.
    """

    def __init__(self, prefix: str, actor: ActorProgram, memory: Memory) -> None:
        """Nothing is loaded."""
        names = range(actor.declared.copies)
        self.identities = [f"{prefix}/{actor.name}/{instance}" for instance in names]
        self.actor = actor
        self.kind = kind_of_instance(actor)
        self.params = actor.declared.params
        self.count = actor.declared.copies
        self.memory = memory
        self.touched: set[tuple[int, str]] = set()
        name = actor.name
        self.turn = memory.counted(name, "json") + memory.counted(name, "shunt")

    def next(self) -> tuple[int, int]:
        """The number of the next event, and the instance that takes it: one after the other.

        The number is how many events the copy's actor took before, so no two are the same.
        """
        number = self.turn
        self.turn += 1
        return number, number % self.count

    def trigger(self, instance: int, event: Event, given: Given) -> Result:
        """Let an instance take an event, and keep what its state functions say."""
        kind, field, group = self.kind, self.actor.declared.group_by, None
        if not self.actor.stateful:
            return self.actor.kind.trigger(self.params, None, event, given)
        if field is not None:
            group = text_of(event.get(field))
            if group is None:
                return Result()
            identity = f"{given.identity}/{group}"
            given = Given(identity, given.number, given.at_ms, given.collected)
        key = group_key(group)
        kept = self.kept(instance, key)
        result = kind.trigger(self.params, kept.state, event, given)
        modes = self.actor.declared.state
        if modes.calc_local and result.failure is None:
            kept.state = result.state
        if modes.collect_local is not None:
            hold(kept, modes.collect_local, event, given.at_ms, self._snapshot)
            self._plan(kept, given.at_ms)
        self.keep(instance, key, kept)
        return result

    def read_for(self, instance: int, event: Event) -> dict[str, Any]:
        """What the instance of that number, or its group of an event, shows to a sibling."""
        field = self.actor.declared.group_by
        group = None if field is None else text_of(event.get(field))
        if field is not None and group is None:
            return {}
        kept = self.kept(instance % self.count, group_key(group))
        return self.kind.read_for(self.params, kept.state, event)

    def reply(self, instance: int, query: Event, given: Given) -> Event | None:
        """What the instance of that number answers to a query, which changes nothing."""
        field = self.actor.declared.group_by
        group = None if field is None else text_of(query.get(field))
        if field is not None and group is None:
            return None
        if group is not None:
            given = msgspec.structs.replace(given, identity=f"{given.identity}/{group}")
        kept = self.kept(instance % self.count, group_key(group))
        result = self.kind.trigger(self.params, kept.state, query, given)
        return result.emitted[0] if result.emitted and result.failure is None else None

    # -- by the clock -----------------------------------------------------------------------------

    def started(self, now_ms: int) -> None:
        """Tell every instance that the runtime starts."""
        keys = set(self.memory.keys(self.actor.name))
        if self.actor.declared.group_by is None:
            keys |= {(instance, "") for instance in range(self.count)}
        for instance, key in sorted(keys):
            if instance < self.count and self._has_state(key):
                kept = self.kept(instance, key)
                given = Given(self.identities[instance], at_ms=now_ms)
                kept.due = None
                self._plan(kept, now_ms)
                kept.state = self.kind.started(self.params, kept.state, given)
                self.keep(instance, key, kept)

    def ticks(self, now_ms: int) -> Iterator[tuple[int, Result]]:
        """Do what is due; what each instance gave, in order."""
        for instance, key in list(self.memory.keys(self.actor.name)):
            if instance >= self.count or not self._has_state(key):
                continue
            kept = self.kept(instance, key)
            update = self.actor.declared.state.collect_local
            changed = update is not None and pass_time(kept, update, now_ms, self._snapshot)
            for _ in range(_TICKS_MAX):
                due = self.kind.due(self.params, kept.state)
                if due is None or due > now_ms:
                    break
                given = Given(f"{self.identities[instance]}{key}/tick", 0, now_ms)
                result = self.kind.tick(self.params, kept.state, given)
                kept.state, changed = result.state, True
                yield instance, result
            if changed:
                self.keep(instance, key, kept)
            self.touched.add((instance, key))

    def due(self) -> Iterator[int]:
        """When each instance that was touched has something to do next."""
        for instance, key in self.touched:
            kept = self.kept(instance, key)
            for due in (self.kind.due(self.params, kept.state), kept.due):
                if due is not None:
                    yield due

    # -- what is kept -----------------------------------------------------------------------------

    def kept(self, instance: int, key: str) -> Kept:
        """What an instance keeps: with the last snapshot, where it has not taken it yet."""
        found = self.memory.kept(self.actor.name, instance, key)
        if found is None:
            found = Kept(self.kind.initial(self.params))
        elif found.state is None:  # forgotten, but for how many events there were
            found.state = self.kind.initial(self.params)
        offer = self.memory.offer(self.actor.name) if self.actor.batch is not None else None
        return current(found, offer, lambda state: state_in_offer(self.actor, key, state))

    def keep(self, instance: int, key: str, kept: Kept) -> None:
        """Keep it."""
        self.touched.add((instance, key))
        self.memory.keep(self.actor.name, instance, key, kept)

    def seen(self, instance: int) -> int:
        """Number the next event of an instance in the event log, from 1."""
        kept = self.kept(instance, "")
        kept.seen += 1
        self.keep(instance, "", kept)
        return kept.seen

    def _plan(self, kept: Kept, now_ms: int) -> None:
        """Set when ``collect-local`` by time counts next, where it is not set."""
        update = self.actor.declared.state.collect_local
        if update is not None and kept.due is None and by_time(update):
            kept.due = first_due(update, self.memory.life().since, now_ms)

    def _has_state(self, key: str) -> bool:
        """Whether the type's state lies there, and not only what is counted of the instance."""
        return (key == "") == (self.actor.declared.group_by is None)

    def _snapshot(self, events: Iterable[Event]) -> State:
        return self.kind.snapshot(self.params, events)
