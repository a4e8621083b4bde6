"""Which commits count after a rollback: the timelines of a topology.

Going back to commit ``N`` begins a new *timeline*: one numbered object that says "after ``N`` of
what was before, only my own commits count". The commits and plans of timeline ``t`` lie in folders
of their own (``commits-t``, ``plans-t``; those of timeline 0 in ``commits``, ``plans``).

Why an object of its own, and separate folders: creating one object is atomic, so a rollback has
either happened or not, whatever crashes when. Nothing is deleted to make it happen. And a
coordinator that was stopped and continues on the old timeline creates its commits where nobody
looks for them any more.

The created object *is* the rollback: whoever finds it follows it, whoever made it. Before it is
made, the old timeline is *closed*: a mark takes the id of the commit that would come next. So a
rollback stands in one order with the commits, and a coordinator that was stopped in the middle of
one, while a later one went on, cannot take back what that one committed. Whoever meets a mark
without its timeline completes the rollback.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable

import msgspec

from atoll.errors import NotFoundError
from atoll.microbatch.commits.objects import Branch, Commit
from atoll.storage.numbered import NumberedObjects
from atoll.storage.objects import ObjectStore
from atoll.storage.places import Place
from atoll.storage.roots import is_root_store, open_store

_KEPT = 1024


class Timelines(msgspec.Struct, frozen=True):
    """All timelines up to one of them; a value. The n-th branch begins timeline ``n``."""

    branches: tuple[Branch, ...] = ()

    @property
    def number(self) -> int:
        """The timeline that is followed; 0 before the first rollback."""
        return len(self.branches)

    @property
    def branch(self) -> int:
        """The last commit that the timeline followed has from earlier ones."""
        return self.branches[-1].branch if self.branches else 0

    def of(self, commit_id: int) -> int:
        """On which timeline the commit of that id lies that counts."""
        for number in range(len(self.branches), 0, -1):
            if self.branches[number - 1].branch < commit_id:
                return number
        return 0

    def branch_since(self, timeline: int) -> int | None:
        """The last commit that an earlier timeline and this one share; None for this one."""
        later = self.branches[timeline:]
        return min(each.branch for each in later) if later else None

    def upto(self, timeline: int) -> Timelines:
        """As it was when that timeline was the newest."""
        return self if timeline >= self.number else Timelines(self.branches[:timeline])

    def followed_from(self, commit: Commit) -> Commit:
        """A commit as the progress from which this timeline goes on.

        One made on an earlier timeline gets the number of this one, and the floor and horizon
        with which this one began. What it appended was appended then, so it names no rows.
        """
        if not self.branches or commit.timeline >= self.number:
            return commit
        last = self.branches[-1]
        return msgspec.structs.replace(
            commit,
            timeline=self.number,
            floor=max(commit.floor, last.floor),
            horizon=max(commit.readable_from, last.horizon),
            appends=[],
        )


def timeline_objects(store: ObjectStore, module: str, topology: str) -> NumberedObjects:
    """The timelines of a topology, from 1 on. None is ever deleted."""
    return NumberedObjects(store, f"{module}/{topology}/timelines")


def read_timelines(
    store: ObjectStore, module: str, topology: str, upto: int | None = None
) -> Timelines:
    """The timelines up to the newest, or up to the one given. One system call when there is none.

    Raises:
        DamageError: When an object is damaged.
    """
    objects = timeline_objects(store, module, topology)
    branches: list[Branch] = []
    while upto is None or len(branches) < upto:
        try:
            branches.append(_read(objects, len(branches) + 1))
        except NotFoundError:
            break
    return Timelines(tuple(branches))


def create_timeline(
    store: ObjectStore, module: str, topology: str, number: int, branch: Branch
) -> None:
    """Go back: from now on only the branch's commit and those before it count.

    Raises:
        ObjectExistsError: When the timeline exists already.
    """
    timeline_objects(store, module, topology).create(number, msgspec.msgpack.encode(branch))


def _read(objects: NumberedObjects, number: int) -> Branch:
    store = objects.store
    if not is_root_store(store):
        return _DECODER.decode(objects.read(number))
    try:
        stamp = store.stamp(objects.name(number))
    except NotFoundError as error:
        raise NotFoundError(f"there is no timeline {number}") from error
    return _branch_in(store.root, objects.prefix, number, stamp)


@functools.lru_cache(maxsize=_KEPT)
def _branch_in(
    root: Place,
    prefix: str,
    number: int,
    stamp: Hashable,  # noqa: ARG001 - tells apart roots that stood at one path in turn
) -> Branch:
    return _DECODER.decode(NumberedObjects(open_store(root), prefix).read(number))


_DECODER = msgspec.msgpack.Decoder(Branch)
