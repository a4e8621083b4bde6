"""How many elements a vnode's maps, sets and structs have, kept beside their entries.

A counter is an entry of its own: its key is a byte that no data begins with and the prefix of what
it counts, and it is written with the entries that change it, in the same transaction. So whatever
happens to entries happens to it: undo, catching up, checkpoints, another worker. Data is read by
ranges that end before the first counter.

An element counts when there is anything under it, as for readers. What is empty has no counter. A
*mark* says that a vnode's counters are complete: a store that was written before its PState tracked
sizes has none, is counted once with the next write, and answers by counting until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from atoll.codec.keys.elements import DATA_END, decode_element
from atoll.errors import DamageError
from atoll.pstate.spec import child_of
from atoll.schema import Map, Node, Set

EVERYTHING_END = b"\xff\xff"
SIZES_COMPLETE = b"\xff"
"""The key of the mark."""

_Values = Sequence[bytes | None]
_Counter = tuple[bytes, bytes | None, bytes | None]
"""(key, stored before, stored after)."""


class _Store(Protocol):
    """What is asked of the writer that writes."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values as they are before the write."""

    def scan(self) -> Iterator[tuple[bytes, bytes]]:
        """All data as it is before the write."""


def counter_key(prefix: bytes) -> bytes:
    """The key of the counter of the collection whose entries begin with these bytes."""
    return DATA_END + prefix


def size_of(counter: bytes | None) -> int:
    """What a counter says; none at all says that there is nothing."""
    return 0 if counter is None else int.from_bytes(counter, "big")


def with_sizes(
    node: Node, store: _Store, keys: Sequence[bytes], values: _Values, olds: _Values
) -> tuple[Sequence[bytes], _Values, _Values]:
    """A write with the counters that it changes.

    Args:
        node: The PState's schema, which is stored by element.
        store: What is written, before the write.
        keys: Sorted and unique.
        values: New values; None removes.
        olds: The values before.
    """
    counters = _counters(node, store, keys, values, olds)
    if not counters:
        return keys, values, olds
    return (
        [*keys, *(key for key, _, _ in counters)],
        [*values, *(new for _, _, new in counters)],
        [*olds, *(old for _, old, _ in counters)],
    )


def _counters(
    node: Node, store: _Store, keys: Sequence[bytes], values: _Values, olds: _Values
) -> list[_Counter]:
    if store.get_many([SIZES_COMPLETE]) != [None]:
        return _changed(node, keys, values, olds, store.get_many)
    entries = list(store.scan())
    there, data = [key for key, _ in entries], [value for _, value in entries]
    nothing: _Values = [None] * len(entries)
    known = {key: new for key, _, new in _changed(node, there, data, nothing, _none)}
    changed = _changed(node, keys, values, olds, lambda wanted: [known.get(k) for k in wanted])
    known.update((key, new) for key, _, new in changed)
    kept: list[_Counter] = [(key, None, known[key]) for key in sorted(known) if known[key]]
    return [*kept, (SIZES_COMPLETE, None, b"\x01")]


def _none(keys: Sequence[bytes]) -> list[bytes | None]:
    return [None] * len(keys)


def _changed(
    node: Node,
    keys: Sequence[bytes],
    values: _Values,
    olds: _Values,
    read: Callable[[Sequence[bytes]], list[bytes | None]],
) -> list[_Counter]:
    """The counters that a write changes, sorted by key, with their stored values.

    From the innermost collections outwards: one that becomes empty, or begins to have elements, is
    one element less, or more, of what contains it.

    Raises:
        DamageError: When there would be less than nothing.
    """
    levels: list[dict[bytes, int]] = [{}]
    parents: dict[bytes, bytes] = {}
    for key, new, old in zip(keys, values, olds, strict=True):
        if (new is None) == (old is None):
            continue
        prefix, depth = b"", 0
        for end in _ends(node, key):
            prefix, parent = key[:end], prefix
            parents[prefix] = parent
            depth += 1
            if depth == len(levels):
                levels.append({})
        level = levels[depth]
        level[prefix] = level.get(prefix, 0) + (-1 if new is None else 1)
    found: list[_Counter] = []
    for depth in range(len(levels) - 1, -1, -1):
        prefixes = sorted(prefix for prefix, delta in levels[depth].items() if delta)
        stored = read([counter_key(prefix) for prefix in prefixes])
        for prefix, before in zip(prefixes, stored, strict=True):
            size = size_of(before) + levels[depth][prefix]
            if size < 0:
                raise DamageError("a vnode store counts fewer elements than it had")
            after = size.to_bytes(8, "big") if size else None
            found.append((counter_key(prefix), before, after))
            if depth and (before is None) != (after is None):
                outer, parent = levels[depth - 1], parents[prefix]
                outer[parent] = outer.get(parent, 0) + (-1 if after is None else 1)
    return sorted(found, key=lambda counter: counter[0])


def _ends(node: Node, key: bytes) -> Iterator[int]:
    """Where the prefixes of the collections end that lie below the outermost one on a key's way."""
    at = 0
    if isinstance(node, Set) or (isinstance(node, Map) and _value(node).leaf):
        return
    while True:
        element, at = decode_element(key, at)
        child = None if isinstance(node, Set) else child_of(node, element)  # type: ignore[arg-type]
        if child is None or child.leaf:
            return
        yield at
        node = child


def _value(node: Map) -> Any:
    return node.value
