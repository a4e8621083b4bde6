"""What a module's cluster is made of: workers, their parallel units, fragments and who owns what.

All of it is one immutable value with a revision. Every change makes the next revision
(:mod:`atoll.placement.workers`, :mod:`atoll.placement.reschedule.plan`); nothing here decides.

* A *worker* holds parallel units; each unit belongs to one worker for ever, and ids are never
  used again.
* A *fragment* is a state step of a topology, or its *source* fragment: the tasks that read depots
  and run the steps before the first exchange. Each unit of a fragment runs one actor of it.
* Fragments that share a PState must own the same vnodes on the same units: they *follow* the one
  of them with the lowest id, their root.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeVar

import msgspec

from atoll.errors import NotFoundError
from atoll.placement.mapping import Mapping

FragmentKind = Literal["source", "hash", "singleton"]

_Thing = TypeVar("_Thing", "Worker", "Fragment")


class Worker(msgspec.Struct, frozen=True):
    """A process that runs actors.

    Attributes:
        id: Unique in the cluster.
        name: What it is known by when it comes back: its folder and ids are its own then.
        host: Where it runs.
        units: Its parallel units, lowest first.
        gone: Whether it has left, or was lost.
        cordoned: Whether it may get no new actors; those that it has stay.
        leaving: Whether it will end soon: it gets no new actors, and those that it has move.
    """

    id: int
    name: str
    host: str
    units: tuple[int, ...]
    gone: bool = False
    cordoned: bool = False
    leaving: bool = False

    @property
    def state(self) -> Literal["running", "cordoned", "leaving", "gone"]:
        """In one word."""
        if self.gone:
            return "gone"
        if self.leaving:
            return "leaving"
        return "cordoned" if self.cordoned else "running"


class Fragment(msgspec.Struct, frozen=True):
    """Steps that are scheduled together.

    Attributes:
        id: Unique in the module.
        topology: The topology that it is part of.
        name: Unique in the topology; the same after every deployment.
        kind: ``source`` has no vnodes; ``hash`` has several; ``singleton`` has one.
        root: The id of the fragment that it follows; its own when it follows none.
        pstates: The PStates that it reads or writes.
        owners: For ``hash`` and ``singleton`` the owner of vnode 0, 1, 2 and so on; for ``source``
            its units, lowest first.
        upstream: The ids of the fragments whose rows come to it: the edges of the topology.
    """

    id: int
    topology: str
    name: str
    kind: FragmentKind
    root: int
    pstates: tuple[str, ...]
    owners: tuple[int, ...]
    upstream: tuple[int, ...] = ()

    @property
    def units(self) -> tuple[int, ...]:
        """The units that run an actor of it, lowest first."""
        return tuple(sorted(set(self.owners)))

    @property
    def follows(self) -> bool:
        """Whether another fragment decides where it runs."""
        return self.root != self.id

    @property
    def mapping(self) -> Mapping:
        """Which unit owns each vnode; not for ``source``."""
        assert self.kind != "source", "a source fragment has no vnodes"
        return Mapping(self.owners)


class ClusterInfo(msgspec.Struct, frozen=True):
    """A module's cluster at one revision.

    Attributes:
        revision: Higher by one with every change.
        workers: All that ever joined and were not removed, by id.
        fragments: By id.
        policies: For each topology the policy that decides its parallelism, as text.
        next_worker: The id of the worker that joins next.
        next_unit: The id of the next parallel unit.
        next_fragment: The id of the next fragment.
    """

    revision: int = 0
    workers: tuple[Worker, ...] = ()
    fragments: tuple[Fragment, ...] = ()
    policies: dict[str, str] = {}
    next_worker: int = 0
    next_unit: int = 0
    next_fragment: int = 1

    def worker(self, worker: int) -> Worker:
        """The worker of that id.

        Raises:
            NotFoundError: When there is none.
        """
        return _found(self.workers, worker, "worker")

    def fragment(self, fragment: int) -> Fragment:
        """The fragment of that id.

        Raises:
            NotFoundError: When there is none.
        """
        return _found(self.fragments, fragment, "fragment")

    def worker_of(self, unit: int) -> Worker | None:
        """The worker that a unit belongs to; None when it was removed, or never was."""
        return next((each for each in self.workers if unit in each.units), None)

    def live_units(self) -> tuple[int, ...]:
        """The units of all workers that have not gone, lowest first."""
        return tuple(sorted(u for each in self.workers if not each.gone for u in each.units))

    def staying_units(self) -> tuple[int, ...]:
        """The same but for workers that are leaving: what policies count and may use."""
        return tuple(sorted(u for w in self.workers if not (w.gone or w.leaving) for u in w.units))

    def schedulable_units(self) -> tuple[int, ...]:
        """The units that may get new actors: of workers neither gone, leaving nor cordoned."""
        return tuple(
            sorted(u for each in self.workers if each.state == "running" for u in each.units)
        )

    def roots(self, topology: str | None = None) -> tuple[Fragment, ...]:
        """The fragments that follow no other, of one topology or of all."""
        return tuple(
            each
            for each in self.fragments
            if not each.follows and topology in (None, each.topology)
        )

    def group(self, root: int) -> tuple[Fragment, ...]:
        """A root and the fragments that follow it."""
        return tuple(each for each in self.fragments if each.root == root)

    def with_owners(self, owners: dict[int, tuple[int, ...]]) -> ClusterInfo:
        """The same with other owners, by root; followers follow. The revision stays."""
        replaced = tuple(
            msgspec.structs.replace(each, owners=owners[each.root]) if each.root in owners else each
            for each in self.fragments
        )
        return msgspec.structs.replace(self, fragments=replaced)


def _found(things: Sequence[_Thing], number: int, kind: str) -> _Thing:
    for each in things:
        if each.id == number:
            return each
    known = ", ".join(str(each.id) for each in things) or "none"
    raise NotFoundError(f"there is no {kind} {number}", hint=f"there are: {known}")
