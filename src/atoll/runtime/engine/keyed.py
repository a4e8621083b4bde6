"""State by key: whether each group of a runtime has one copy that owns it, and which. Pure.

When the number of copies changes, a key finds another copy. The state of a group can go with it
where the group is the key: the actor is grouped by the field that chooses the copy, and no event
can reach it by the links with another value there than it came in with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from atoll.runtime.engine.intake import copy_of_vnode, key_vnode
from atoll.runtime.engine.memory import group_value
from atoll.runtime.engine.program import RuntimeProgram

Places = Mapping[int, Mapping[str, Mapping[int, Mapping[str, str]]]]
"""What is kept: by copy, actor, instance and group."""


def owner_of(group: str, copies: int) -> int:
    """The copy, from 1, that events of a group go to."""
    vnode = key_vnode(group)
    assert vnode is not None, "a text names a group"
    return copy_of_vnode(vnode, copies)


def unmovable(program: RuntimeProgram) -> str | None:
    """Why state cannot be moved between copies by its key; None when it can."""
    by = program.definition.distribution.by
    if by is None:
        return 'events go round robin: "distribution" has no "by"'
    changed = _changed(program, by)
    for name, actor in program.actors.items():
        if not actor.stateful:
            continue
        if actor.declared.group_by != by:
            return f"actor {name!r} is not grouped by {by!r}, which chooses the copy"
        if name in changed:
            return f"what comes to actor {name!r} may have another {by!r} than what came in"
    return None


def doubled(states: Places) -> tuple[str, str, list[int]] | None:
    """An actor and a group of it that lies in several copies, and in which; None for none."""
    found: dict[tuple[str, int, str], list[int]] = defaultdict(list)
    for copy, actor, instance, group, _ in _groups(states):
        found[actor, instance, group].append(copy)
    several = ((key, copies) for key, copies in sorted(found.items()) if len(copies) > 1)
    return next(((actor, group, copies) for (actor, _, group), copies in several), None)


def strays(states: Places, copies: int) -> Iterator[tuple[int, str, int, str, str]]:
    """The groups that another copy owns now.

    Yields:
        Owner, actor, instance, group, and what is kept of it; in an order of its own, always the
        same.
    """
    for copy, actor, instance, group, kept in _groups(states):
        owner = owner_of(group, copies)
        if owner != copy:
            yield owner, actor, instance, group, kept


def _groups(states: Places) -> Iterator[tuple[int, str, int, str, str]]:
    for copy in sorted(states):
        for actor in sorted(states[copy]):
            for instance in sorted(each for each in states[copy][actor] if each >= 0):
                for key, kept in sorted(states[copy][actor][instance].items()):
                    group = group_value(key)
                    if group is not None:
                        yield copy, actor, instance, group, kept


def _changed(program: RuntimeProgram, by: str) -> set[str]:
    """The actors that an event may reach with another value of the field."""
    changed: set[str] = set()
    for name, actor in program.actors.items():
        kind: Any = actor.kind
        if name in changed or not kind.keeps(actor.declared.params, by):
            changed.update(actor.targets)
    return changed
