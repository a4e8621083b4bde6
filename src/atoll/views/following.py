"""Follows one value of a PState from commit to commit: what changed, or the value again.

It keeps no queue: a follower knows the commit that it has told last, and reads what the next one
changed when it is asked. A slow one costs nothing but the commits that are kept anyway
(``pstate.history.seconds``); one that was away for longer begins again with the value.
"""

from __future__ import annotations

import heapq
import operator
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from atoll.codec.keys.elements import DATA_END, EMPTY_KEY, successor
from atoll.errors import PathError
from atoll.path import Path
from atoll.pstate.converter import Converter
from atoll.pstate.differences import Difference, between
from atoll.pstate.entry_changes import EntryChange, differences_of, value_of
from atoll.pstate.navigate.fit_path import fit_path
from atoll.pstate.navigate.places import Place, Places
from atoll.pstate.select import select
from atoll.pstate.store.changefile import read_vnode
from atoll.schema import Map, Struct
from atoll.views.value_change import Position, ValueChange

if TYPE_CHECKING:
    from atoll.microbatch.commits.history import CommitHistory
    from atoll.pstate.view import PStateView
    from atoll.views.readable import ReadablePState


_THROUGH = ("key", "must", "field")


class Following:
    """One value, commit by commit. Not safe to share between threads.

    Args:
        pstate: The PState.
        path: Leads to the one value.
        after: The position told last; None to begin with the value.
        page_entries: How many entries of a collection one page of a snapshot holds at most.

    Raises:
        PathError: When the path does not fit the schema.
    """

    def __init__(
        self, pstate: ReadablePState, path: Path, after: Position | None, page_entries: int
    ) -> None:
        self._pstate = pstate
        self._spec = pstate.spec
        self._path = path
        self._place, self._rest = _split(pstate, path)
        self._page_entries = page_entries
        self._at = after
        self._resumed = after is not None
        self._reason = ""
        self._value: Any = None
        self._pages: Iterator[ValueChange] | None = None

    def restart(self, reason: str) -> None:
        """Tell the whole value next."""
        self._at = None
        self._pages = None
        self._resumed = False
        self._reason = reason

    @property
    def position(self) -> Position | None:
        """Up to where everything is told; None while pages are outstanding."""
        return self._at if self._pages is None else None

    def advance(self, head: CommitHistory) -> ValueChange | None:
        """The next thing to tell; None when all up to the head is told.

        Raises:
            UsageError, NotFoundError, DamageError: When a commit that it takes is gone. Then
                :meth:`restart`.
        """
        if self._resumed:
            self._resume(head)
        if self._at is None:
            self._begin(head)
        if self._pages is not None:
            page = next(self._pages)
            if page.last:
                self._pages = None
            return page
        return self._next_change(head)

    # Beginning ------------------------------------------------------------------------------------

    def _resume(self, head: CommitHistory) -> None:
        """Go on from the position given, if it is one that this topology has been at."""
        at = self._at
        assert at is not None
        self._resumed = False
        if at.timeline > head.timeline or at.microbatch > head.commit_id:
            abandoned = at.timeline < head.timeline
            self.restart("rollback" if abandoned else "gap")
        elif self._rest is not None:
            shared = head.branch_since(at.timeline)
            if shared is None or shared >= at.microbatch:
                self._value = self._read(head.as_of(at.microbatch))

    def _begin(self, head: CommitHistory) -> None:
        self._at = Position(head.commit_id, head.timeline)
        self._pages = self._snapshot(head, self._reason)

    def _snapshot(self, head: CommitHistory, reason: str) -> Iterator[ValueChange]:
        place = self._place
        if self._rest is not None or place.node.leaf:
            self._value = value = self._read(head)
            yield self._page(head, reason, 0, (_whole(value),), value, last=True)
            return
        view = self._pstate.view_of(head)
        low, high = _bounds(place)
        runs = [view.scan(vnode, low, high) for vnode in self._vnodes()]
        entries = heapq.merge(*runs, key=operator.itemgetter(0))
        page, number, before = list(islice(entries, self._page_entries)), 0, b""
        while True:
            following = list(islice(entries, self._page_entries))
            there = bool(page) or not place.by_key
            value = value_of(self._spec, place, page) if there else None
            told = self._added(page, before) if number else (_whole(value),)
            yield self._page(head, reason, number, told, value, last=not following)
            if not following:
                return
            page, number, before = following, number + 1, page[-1][0]

    def _added(self, page: list[tuple[bytes, bytes]], before: bytes) -> tuple[Difference, ...]:
        """What a page adds to those before it, which ended with a key."""
        entries = [EntryChange(key, self._place.vnode or 0, None, value) for key, value in page]
        return tuple(
            differences_of(
                self._spec,
                self._place,
                entries,
                existed=lambda _vnode, prefix: before.startswith(prefix),
                exists=lambda _vnode, _prefix: True,
            )
        )

    def _page(
        self,
        head: CommitHistory,
        reason: str,
        number: int,
        differences: tuple[Difference, ...],
        value: Any,
        *,
        last: bool,
    ) -> ValueChange:
        return ValueChange(
            "resync" if reason else "snapshot",
            head.commit_id,
            head.timeline,
            differences,
            new=value,
            page=number,
            last=last,
            reason=reason,
        )

    # Going on -------------------------------------------------------------------------------------

    def _next_change(self, head: CommitHistory) -> ValueChange | None:
        while True:
            at = self._at
            assert at is not None
            if at.timeline != head.timeline:
                shared = head.branch_since(at.timeline)
                if shared is not None and shared < at.microbatch:
                    self.restart("rollback")
                    return self.advance(head)
                at = Position(at.microbatch, head.timeline)
            if at.microbatch >= head.commit_id or self._untouched(head, at.microbatch):
                self._at = Position(max(at.microbatch, head.commit_id), head.timeline)
                return None
            number = at.microbatch + 1
            now = head if number == head.commit_id else head.as_of(number)
            change = self._change(head.as_of(at.microbatch), now)
            self._at = Position(number, head.timeline)
            if change is not None:
                return change

    def _untouched(self, head: CommitHistory, since: int) -> bool:
        name = self._spec.name
        return all(head.last_touched(name, vnode) <= since for vnode in self._vnodes())

    def _change(self, before: CommitHistory, now: CommitHistory) -> ValueChange | None:
        """What one commit changed; None when it left the value as it was."""
        written = self._written(now)
        if not written:
            return None
        old: Any
        new: Any
        if self._rest is not None:
            old, new = self._value, self._read(now)
            self._value = new
            differences = list(between(old, new))
        else:
            earlier, later = self._pstate.view_of(before), self._pstate.view_of(now)
            entries = _changed(earlier, written)
            differences = differences_of(
                self._spec, self._place, entries, _exists_in(earlier), _exists_in(later)
            )
            old = self._part([(each.key, each.old) for each in entries])
            new = self._part([(each.key, each.new) for each in entries])
        if not differences:
            return None
        return ValueChange("change", now.commit_id, now.timeline, tuple(differences), old, new)

    def _written(self, now: CommitHistory) -> list[tuple[int, bytes, bytes | None]]:
        """(vnode, key, new value) of what a commit wrote below the place, by vnode and key."""
        part = now.commit.pstates.get(self._spec.name)
        low, high = _bounds(self._place)
        wanted = set(self._vnodes())
        found: dict[tuple[int, bytes], bytes | None] = {}
        for log in (log for job in part.logs for log in job) if part is not None else ():
            for vnode in wanted.intersection(log.vnodes):
                keys, values = read_vnode(now, log.file, vnode)
                start = 0 if low is None else bisect_left(keys, low)
                end = bisect_left(keys, DATA_END if high is None else high)
                convert = self._converter(now, vnode)
                for index in range(start, end):
                    key, value = keys[index], values[index]
                    found[vnode, key] = None if value is None else convert(key, value)
        return [(vnode, key, found[vnode, key]) for vnode, key in sorted(found)]

    def _converter(self, now: CommitHistory, vnode: int) -> Callable[[bytes, bytes], bytes]:
        """What makes values as a commit wrote them those of the present schema."""
        generation = now.generation(self._spec.name, vnode)
        if generation < self._spec.generation:
            return Converter(self._spec, generation)
        return lambda _, value: value

    def _part(self, pairs: list[tuple[bytes, bytes | None]]) -> Any:
        """The part of the value that these entries are; None when there are none."""
        present = [(key, value) for key, value in pairs if value is not None]
        if present:
            return value_of(self._spec, self._place, present)
        return self._spec.initial_value() if not self._place.prefix else None

    def _read(self, history: CommitHistory) -> Any:
        """The one value at the end of the path as of a commit; None when there is none."""
        found = select(self._pstate.view_of(history), self._spec, self._path)
        if len(found) > 1:
            raise PathError(
                f"the path leads to {len(found)} values; a subscription follows one",
                hint="collect them into one list: path.subselect(...)",
                pstate=self._spec.name,
                path=str(self._path),
            )
        return found[0] if found else None

    def _vnodes(self) -> range | tuple[int]:
        vnode = self._place.vnode
        return range(self._spec.vnode_count) if vnode is None else (vnode,)


def _split(pstate: ReadablePState, path: Path) -> tuple[Place, Path | None]:
    """The stored place that a path leads through by key, and the steps that are left if any."""
    places = Places(pstate.view(), pstate.spec)
    steps = fit_path(path, pstate.spec.node).steps
    place, count = places.root(), 0
    for step in steps:
        if step.name not in _THROUGH or place.node.leaf or not isinstance(place.node, Map | Struct):
            break
        place, count = places.child(place, step.arguments[0]), count + 1
    return place, Path(steps[count:]) if steps[count:] else None


def _bounds(place: Place) -> tuple[bytes | None, bytes | None]:
    """The keys at and below a place."""
    if place.node.leaf:
        key = place.prefix or EMPTY_KEY
        return key, key + b"\x00"
    return (place.prefix, successor(place.prefix)) if place.prefix else (None, None)


def _changed(
    before: PStateView, written: list[tuple[int, bytes, bytes | None]]
) -> list[EntryChange]:
    """What was written and differs from what was there, by key."""
    changed = []
    for vnode, group in groupby(written, operator.itemgetter(0)):
        entries = list(group)
        olds = before.get_overwritten(vnode, [key for _, key, _ in entries])
        changed += [
            EntryChange(key, vnode, old, new)
            for (_, key, new), old in zip(entries, olds, strict=True)
            if old != new
        ]
    return sorted(changed)


def _exists_in(view: PStateView) -> Any:
    def exists(vnode: int, prefix: bytes) -> bool:
        return any(True for _ in view.scan(vnode, prefix, successor(prefix), limit=1))

    return exists


def _whole(value: Any) -> Difference:
    return Difference((), "changed", None, value)
