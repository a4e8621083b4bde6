"""State by key on its way to the copies that own it, when there are others than before.

The groups travel as records of the intake: each copy lets go what is no longer its own, and takes
what the records behind say. All of it is one append, stored once, behind every event that the
copies before were to process and before every event for those after. So each event finds its
group's state, wherever the process ends in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from atoll.errors import ConflictError
from atoll.runtime.engine.keyed import Places, doubled, strays, unmovable
from atoll.runtime.engine.program import RuntimeProgram
from atoll.runtime.service.registry import Registered

BYTES_MAX = 64 << 20
"""So much state is moved at most: it is in memory and in one append."""

_PARCEL_BYTES, _PARCEL_GROUPS = 256 << 10, 1_000
_CHOICES = ["keep", "drop"]
_HINT = 'say "state": "keep" or "state": "drop" instead'


def unsaid(runtime: Registered, program: RuntimeProgram, copies: int) -> ConflictError:
    """What is asked of whoever changes the copies of a runtime with state, and does not say."""
    by_key = program.definition.distribution.by is not None
    what = "the state of copies that go" if copies < runtime.copies else "state by key"
    because = "; events find another copy by their key then" if by_key else ""
    choices = _CHOICES if unmovable(program) else [*_CHOICES, "move"]
    move = ', or "state": "move" (each key takes its state to the copy that owns it)'
    return ConflictError(
        f"runtime {runtime.name!r} has state, and it is not said what becomes of {what}{because}",
        hint='say "state": "keep" (it stays with its copy, to be used when there are as many '
        'copies again) or "state": "drop" (the state of copies that go is deleted)'
        f"{move if 'move' in choices else ''}; atoll runtime scale has an option for it",
        choices=choices,
        copies=runtime.copies,
        wanted=copies,
    )


def check_movable(runtime: Registered, program: RuntimeProgram) -> None:
    """Refuse to move state that has no copy to go to.

    Raises:
        ConflictError: With the reason.
    """
    reason = unmovable(program)
    if reason is not None:
        raise ConflictError(
            f"the state of runtime {runtime.name!r} cannot be moved by key: {reason}",
            hint=_HINT,
            choices=_CHOICES,
        )


def check_moves(states: Places, copies: int) -> None:
    """Refuse to move what lies in two places, or is too much.

    Args:
        states: What its copies keep.
        copies: How many there are from now on.

    Raises:
        ConflictError: With the reason.
    """
    found = doubled(states)
    if found is not None:
        actor, group, places = found
        raise ConflictError(
            f"group {group!r} of actor {actor!r} has state in the copies "
            f"{' and '.join(map(str, places))}, which cannot be made one",
            hint=_HINT,
            choices=_CHOICES,
        )
    size = sum(len(group) + len(kept) for *_, group, kept in strays(states, copies))
    if size > BYTES_MAX:
        raise ConflictError(
            f"{size >> 20} MiB of state would move, which is more than {BYTES_MAX >> 20}",
            hint=_HINT,
            choices=_CHOICES,
        )


def parcels(states: Places, copies: int) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """The groups that go to another copy, some at a time: the copy, the actor, a record's body."""
    waiting: dict[tuple[int, str, int], dict[str, str]] = {}
    sizes: dict[tuple[int, str, int], int] = {}
    for owner, actor, instance, group, kept in strays(states, copies):
        place = owner, actor, instance
        groups = waiting.setdefault(place, {})
        groups[group] = kept
        sizes[place] = sizes.get(place, 0) + len(group) + len(kept)
        if sizes[place] >= _PARCEL_BYTES or len(groups) >= _PARCEL_GROUPS:
            yield owner, actor, {"instance": instance, "groups": waiting.pop(place)}
            del sizes[place]
    for (owner, actor, instance), groups in waiting.items():
        yield owner, actor, {"instance": instance, "groups": groups}
