"""What one microbatch changed in a PState: the whole of it before and after, compared.

It reads both states through the same views as everybody, so it is no second reading of the logs,
and it works for every schema. It takes as long as the PState is large: for tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from atoll.schema import Map, Node, Set, Struct

if TYPE_CHECKING:
    from atoll.views.readable import ReadablePState


_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Change:
    """One entry that a microbatch added, changed or removed.

    Attributes:
        path: The keys of maps, names of fields and elements of sets on the way to the entry.
        before: The value that it had; None when it was added. An element of a set is True.
        after: The value that it has; None when it was removed.
        kind: Which of the three.
    """

    path: tuple[Any, ...]
    before: Any
    after: Any
    kind: Literal["added", "changed", "removed"] = "changed"


def changes_between(before: ReadablePState, after: ReadablePState) -> list[Change]:
    """The entries that differ, those of the later state in its order, then those removed.

    Args:
        before: The PState at the earlier commit.
        after: The PState at the later one.
    """
    node = after.spec.node
    old = dict(_entries(node, before.get()))
    new = dict(_entries(node, after.get()))
    changes = [
        _change(path, old.get(path, _ABSENT), value)
        for path, value in new.items()
        if path not in old or old[path] != value
    ]
    gone = [_change(path, value, _ABSENT) for path, value in old.items() if path not in new]
    return changes + gone


def _change(path: tuple[Any, ...], before: Any, after: Any) -> Change:
    if before is _ABSENT:
        return Change(path, None, after, "added")
    if after is _ABSENT:
        return Change(path, before, None, "removed")
    return Change(path, before, after)


def _entries(node: Node, value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """Each stored entry with its path."""
    if value is None and not path:
        return  # never written
    if node.leaf:
        yield path, value
        return
    match node:
        case Map():
            for key, item in (value or {}).items():
                yield from _entries(node.value, item, (*path, key))
        case Set():
            for element in value or ():
                yield (*path, element), True
        case Struct():
            for name, field in node.fields:
                item = (value or {}).get(name)
                if item is not None:
                    yield from _entries(field, item, (*path, name))
