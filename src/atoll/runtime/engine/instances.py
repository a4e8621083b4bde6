"""The instances of one actor in one copy: which of them takes an event, and what it keeps of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from atoll.runtime.actors.interface import Event, Given, Result, State
from atoll.runtime.definition.structs import Collect
from atoll.runtime.engine.collecting import hold, pass_time
from atoll.runtime.engine.memory import Kept, Memory, current, group_key, group_value
from atoll.runtime.engine.program import ActorProgram, kind_of_instance
from atoll.runtime.events import text_of

__all__ = ["Instances", "state_in_offer"]

_TICKS_MAX = 1_000
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
        actor: The actor.
        memory: What the copy keeps.
    """

    def __init__(self, actor: ActorProgram, memory: Memory) -> None:
        """Nothing is loaded."""
        self.actor = actor
        self.kind = kind_of_instance(actor)
        self.params = actor.declared.params
        self.count = actor.declared.copies
        self.memory = memory
        self.touched: set[tuple[int, str]] = set()
        name = actor.name
        self._turn = memory.counted(name, "json") + memory.counted(name, "shunt")

    def next(self) -> int:
        """The instance that takes the next event: one after the other."""
        instance = self._turn % self.count
        self._turn += 1
        return instance

    def trigger(self, instance: int, event: Event, at: int, given: Given) -> Result:
        """Let an instance take an event, and keep what its state functions say."""
        kind = self.kind
        if not self.actor.stateful:
            return kind.trigger(self.params, None, event, given)
        field = self.actor.declared.group_by
        group = None
        if field is not None:
            group = text_of(event.get(field))
            if group is None:
                return Result()
            given = msgspec.structs.replace(given, identity=f"{given.identity}/{group}")
        key = group_key(group)
        kept = self.kept(instance, key)
        result = kind.trigger(self.params, kept.state, event, given)
        if result.failure is not None:
            return result
        modes = self.actor.declared.state
        if modes.calc_local:
            kept.state = result.state
        if modes.collect_local is not None:
            hold(kept, modes.collect_local, event, at, self._snapshot)
        self.keep(instance, key, kept)
        return result

    def collected(self, wanted: Collect, instance: int, event: Event, given: Given) -> Any:
        """What a sibling sees of the instance that answers it: a field, or the reply to an event.

        Raises:
            LookupError: When there is nothing to see.
        """
        field = self.actor.declared.group_by
        asked = event if wanted.data is None else {**event, **wanted.data}
        key = group_key(None if field is None else text_of(asked.get(field)))
        kept = self.kept(instance % self.count, key)
        if wanted.data is None:
            return self.kind.read(self.params, kept.state)[wanted.field or ""]
        result = self.kind.trigger(self.params, kept.state, wanted.data, given)
        if result.failure is not None or not result.emitted:
            raise LookupError(result.failure or "it answers nothing")
        return result.emitted[0]

    def read(self, instance: int, event: Event) -> dict[str, Any]:
        """The fields of the instance, or of its group that the event belongs to."""
        field = self.actor.declared.group_by
        key = group_key(None if field is None else text_of(event.get(field)))
        return self.kind.read(self.params, self.kept(instance, key).state)

    # -- by the clock -----------------------------------------------------------------------------

    def started(self, given: Given) -> None:
        """Tell every instance that the runtime starts."""
        keys = set(self.memory.keys(self.actor.name))
        if self.actor.declared.group_by is None:
            keys |= {(instance, "") for instance in range(self.count)}
        for instance, key in sorted(keys):
            if instance < self.count and self._has_state(key):
                kept = self.kept(instance, key)
                kept.state = self.kind.started(self.params, kept.state, given)
                self.keep(instance, key, kept)

    def ticks(self, given_of: Any, now_ms: int) -> Iterator[tuple[int, Result]]:
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
                result = self.kind.tick(self.params, kept.state, given_of())
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

    def _has_state(self, key: str) -> bool:
        """Whether the type's state lies there, and not only what is counted of the instance."""
        return (key == "") == (self.actor.declared.group_by is None)

    def _snapshot(self, events: Iterable[Event]) -> State:
        return self.kind.snapshot(self.params, events)
