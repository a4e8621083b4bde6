"""The two sides of the readers' suite: one process that reads all the time, one that fails.

They meet in a file outside the root: the reader adds a byte for every read, so that whoever runs
an attempt can wait until it was read meanwhile. Everything here runs in children.
"""

from __future__ import annotations

import functools
import itertools
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import oracle
from scenario import MODULE, TOPOLOGIES, live, say

import atoll
from atoll import path
from atoll.engine.inline import InlineExecutor
from atoll.errors import DamageError, NotFoundError
from atoll.microbatch.commits.history import commit_objects
from atoll.microbatch.executor import AttemptError
from atoll.microbatch.outcome import ActorFailure
from atoll.pstate import view as views
from atoll.pstate.select import select

__all__ = ["Reader", "fail_and_die", "let_read", "read_until"]

READS_PER_ATTEMPT = 4
_CAP_SECONDS = 120.0
_UNREAD = 7


# Reading ------------------------------------------------------------------------------------------


class Reader:
    """Reads one PState of the bank after the other, each time through one view of one commit.

    Attributes:
        seen: How many reads there were of each commit.
        during: How many of them while the next commit had been planned and was not there.
        readings: How stores showed the commit that was read: from ``how_to_read``.
    """

    def __init__(self, root: str) -> None:
        self.connected = atoll.connect(root, MODULE)
        self.pstates = [self.connected.pstate(name) for name in TOPOLOGIES["bank"]]
        self.seen: Counter[int] = Counter()
        self.readings: Counter[str] = Counter()
        self.during = self.overtaken = 0
        self.newest = 0
        known = views.how_to_read

        def counted(*arguments: Any) -> Any:
            reading = known(*arguments)
            self.readings[reading] += 1
            return reading

        views.how_to_read = counted

    def read(self, index: int) -> None:
        """One read, compared with the fold of the records that its commit counts."""
        pstate = self.pstates[index % len(self.pstates)]
        view = pstate.view()
        assert view.commit_id >= self.newest, f"I5: {view.commit_id} after {self.newest}"
        self.newest = view.commit_id
        pending = self._is_pending(view.commit_id)
        try:
            found = _plain(pstate.name, select(view, pstate.spec, _PATHS.get(pstate.name, _ALL)))
        except (DamageError, NotFoundError):
            newer = pstate.view()
            assert newer.commit_id > view.commit_id, "a file is gone that the last commit needs"
            self.overtaken += 1
            return
        expected = _expected(view._history.commit)[pstate.name]
        about = f"{pstate.name} as of {view.commit_id}"
        if pstate.name == "funds":
            assert sum(found.values()) == 0, f"I5: {about} does not add up: {found}"
        assert found == expected, f"I5: {about}: {found}; {expected}"
        self.seen[view.commit_id] += 1
        self.during += pending and self._is_pending(view.commit_id)

    def _is_pending(self, commit_id: int) -> bool:
        """Whether the next microbatch has been planned and not been committed."""
        store = self.connected.store
        commits = commit_objects(store, MODULE, "bank")
        planned = store.exists(commits.name(commit_id + 1).replace("/commits/", "/plans/"))
        return planned and not commits.exists(commit_id + 1)


def read_until(root: str, stop: str, reads: str) -> None:
    """Read until a file is there, and say what was seen; an assertion ends it at once."""
    reader = _connected(root)
    with Path(reads).open("ab", buffering=0) as file:
        for index in itertools.count():
            reader.read(index)
            file.write(b".")
            if Path(stop).exists():
                break
    say("seen", reader.seen)
    say("readings", reader.readings)
    say("counts", {"during": reader.during, "overtaken": reader.overtaken})


def _connected(root: str) -> Reader:
    """As soon as the module is deployed."""
    while True:
        try:
            return Reader(root)
        except NotFoundError:
            time.sleep(0.001)


def _plain(name: str, found: Any) -> Any:
    """As the oracle says it."""
    if name == "top":
        return [each["count"] for each in (found[0] if found else None) or []]
    return {str(key): value for key, value in found}


@functools.lru_cache(maxsize=8)
def _folded(ends: tuple[tuple[str, tuple[int, ...]], ...]) -> dict[str, Any]:
    return oracle.bank(dict(ends))


def _expected(commit: Any) -> dict[str, Any]:
    ends = sorted(commit.ends().items())
    return _folded(tuple((name, tuple(each)) for name, each in ends))


_ALL = path.all()
_PATHS = {"top": path.Path()}


# Failing ------------------------------------------------------------------------------------------


def fail_and_die(root: str, rounds: int, reads: str, die_at: int) -> None:
    """Live while every third attempt is lost after its work, and die within one of them.

    Every attempt of the bank waits, its work being in the stores, until it was read meanwhile.

    Args:
        root: The root.
        rounds: How long a whole life is.
        reads: The reader's file.
        die_at: At which attempt's end to die; 0 never.
    """
    known, attempts = InlineExecutor.run, itertools.count(1)

    def run(executor: Any, plan: Any, *arguments: Any) -> Any:
        outcome = known(executor, plan, *arguments)
        if executor.program.topology != "bank":
            return outcome
        let_read(reads)
        attempt = next(attempts)
        if attempt == die_at:
            say("dying", [plan.id, attempt])
            os.kill(os.getpid(), signal.SIGKILL)
        if attempt % 3 == 0:
            say("lost", [plan.id, attempt])
            raise AttemptError(ActorFailure("E-STORAGE", "lost after its work was done"))
        return outcome

    InlineExecutor.run = run  # type: ignore[method-assign]
    live(root, rounds)


def let_read(reads: str) -> None:
    """Wait until the reader has read some more."""
    wanted = Path(reads).stat().st_size + READS_PER_ATTEMPT
    end = time.monotonic() + _CAP_SECONDS
    while Path(reads).stat().st_size < wanted:
        if time.monotonic() > end:
            say("unread", wanted)
            os._exit(_UNREAD)  # an error would be tried again and again
        time.sleep(0.0005)
