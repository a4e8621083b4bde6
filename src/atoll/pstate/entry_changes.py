"""What changed below one place of a PState, told from its changed entries alone.

Nothing but those entries is read, apart from one seek for each map key below which entries came
or went: whether others are still there says whether the key itself came or went.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from atoll.codec.keys.elements import decode_element
from atoll.pstate.differences import Difference, between
from atoll.pstate.navigate.places import Builder, Place
from atoll.pstate.spec import PStateSpec
from atoll.schema import Map, Set, Struct


class EntryChange(NamedTuple):
    """One entry whose stored value differs; None where there was, or is, none."""

    key: bytes
    vnode: int
    old: bytes | None
    new: bytes | None


Exists = Callable[[int, bytes], bool]
"""Whether a vnode has any entry whose key begins with some elements."""

_Path = tuple[Any, ...]


def differences_of(
    spec: PStateSpec,
    place: Place,
    entries: Sequence[EntryChange],
    existed: Exists,
    exists: Exists,
) -> list[Difference]:
    """The differences of the value at a place.

    Args:
        spec: The PState.
        place: Where the value stands.
        entries: All entries below it whose stored value differs, sorted by key.
        existed: What was there before, among all entries.
        exists: What is there now.
    """
    return list(_Walk(spec, existed, exists).top(place, entries))


def value_of(spec: PStateSpec, place: Place, pairs: Sequence[tuple[bytes, bytes]]) -> Any:
    """The value at a place that consists of these sorted entries."""
    if place.node.leaf:
        return spec.codec(place.position).decode(pairs[0][1])
    builder = Builder(spec, place)
    for key, data in pairs:
        builder.add(key, data)
    return builder.finish()


class _Walk:
    """Goes down the schema with the entries that changed."""

    def __init__(self, spec: PStateSpec, existed: Exists, exists: Exists) -> None:
        self._spec = spec
        self._existed = existed
        self._exists = exists

    def top(self, place: Place, entries: Sequence[EntryChange]) -> Iterator[Difference]:
        """The differences at and below the place that is compared."""
        if not entries:
            return
        if place.node.leaf:
            old, new = (self._leaf(place, each) for each in entries[0][2:])
            yield from between(old, new)
        elif place.by_key and place.vnode is not None:
            yield from self._element(place, entries, ())
        else:
            yield from self._below(place, entries, ())

    def _leaf(self, place: Place, data: bytes | None) -> Any:
        if data is None:
            return None if place.prefix else self._spec.initial_value()
        return self._spec.codec(place.position).decode(data)

    def _below(
        self, place: Place, entries: Sequence[EntryChange], path: _Path
    ) -> Iterator[Difference]:
        """The differences below an element-wise place."""
        node, at = place.node, len(place.prefix)
        if isinstance(node, Set):
            for each in entries:
                here = (*path, decode_element(each.key, at)[0])
                if each.old is None and each.new is not None:
                    yield Difference(here, "added", new=True)
                elif each.new is None and each.old is not None:
                    yield Difference(here, "removed", old=True)
            return
        for prefix, found in groupby(entries, lambda e: e.key[: decode_element(e.key, at)[1]]):
            group = list(found)
            element, _ = decode_element(prefix, at)
            here = (*path, element)
            if isinstance(node, Struct):
                member = node.get(element)
                assert member is not None, "entries are written by the same schema"
                child = Place(member, (*place.position, element), prefix, group[0].vnode)
                if member.leaf:
                    old, new = (self._leaf(child, each) for each in group[0][2:])
                    yield from between(old, new, here)
                else:
                    yield from self._below(child, group, here)
            elif isinstance(node, Map):
                child = Place(node.value, place.position, prefix, group[0].vnode, by_key=True)
                yield from self._element(child, group, here)

    def _element(
        self, place: Place, entries: Sequence[EntryChange], path: _Path
    ) -> Iterator[Difference]:
        """The differences at and below the value of a map's key."""
        before = self._was(place, [each.old for each in entries], self._existed)
        after = self._was(place, [each.new for each in entries], self._exists)
        if before and after:
            if place.node.leaf:
                old, new = (self._leaf(place, each) for each in entries[0][2:])
                yield from between(old, new, path)
            else:
                yield from self._below(place, entries, path)
        elif after:
            pairs = [(each.key, each.new) for each in entries if each.new is not None]
            yield Difference(path, "added", new=value_of(self._spec, place, pairs))
        elif before:
            pairs = [(each.key, each.old) for each in entries if each.old is not None]
            yield Difference(path, "removed", old=value_of(self._spec, place, pairs))

    @staticmethod
    def _was(place: Place, values: list[bytes | None], exists: Exists) -> bool:
        if any(value is not None for value in values):
            return True
        return not place.node.leaf and exists(place.vnode or 0, place.prefix)
