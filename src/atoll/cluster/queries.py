"""Asking a module's queries: each call in a thread of its own, at one moment of the state.

Whoever asks waits no longer than it said. A thread whose caller has gone on ends at its next look
at the time; only so many run at once, since a user's function cannot be interrupted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from atoll.errors import (
    AtollError,
    DamageError,
    NotFoundError,
    QueryError,
    QueryTimeoutError,
    UsageError,
    UserCodeError,
)
from atoll.pstate.view import PStateView
from atoll.queries.arguments import fit_arguments
from atoll.queries.run import BoundQuery, Reading
from atoll.schema import to_json
from atoll.topology.usercode import MEND_HINT
from atoll.views.mirrored import Commits, MirroredPStates
from atoll.views.readable import ReadablePState

ASK_SECONDS = 10.0
_THREADS_MAX = 16
_MEND_HINT = "ask with other arguments, or mend the function and deploy the module with it"
_GONE = (DamageError, NotFoundError)
"""What a query meets whose commit was dropped, or abandoned by a rollback, while it read."""


class Queries:
    """The queries of one module. Safe from any thread.

    Args:
        module: The module's name.
        bound: The queries, by name.
        pstates: The module's PStates.
        mirrored: The PStates of other modules that the queries read.
    """

    def __init__(
        self,
        module: str,
        bound: Mapping[str, BoundQuery],
        pstates: Mapping[str, ReadablePState],
        mirrored: MirroredPStates,
    ) -> None:
        self._module = module
        self._bound = bound
        self._pstates = pstates
        self._mirrored = mirrored
        self._threads = threading.BoundedSemaphore(_THREADS_MAX)

    def names(self) -> list[str]:
        """The names of the queries."""
        return sorted(self._bound)

    def describe(self, name: str) -> dict[str, Any]:
        """What a query takes and what it returns, as plain data.

        Raises:
            NotFoundError: When there is none of that name.
        """
        query = self._query(name)
        return {
            "name": name,
            "parameters": {each: to_json(node) for each, node in query.parameters.items()},
            "returns": {"column": query.returned.column, "rows": query.returned.rows},
        }

    def ask(
        self,
        name: str,
        arguments: Mapping[str, Any],
        timeout_seconds: float = ASK_SECONDS,
        *,
        outside: bool = False,
    ) -> Any:
        """The answer to a query.

        Raises:
            NotFoundError: When there is no query of that name.
            UsageError: When an argument is missing, unknown or of another type.
            QueryTimeoutError: When the time is over.
            QueryError: When there are several rows and one is returned.
            UserCodeError: When a function of the query raises.
        """
        query = self._query(name)
        fitted = fit_arguments(name, query.parameters, arguments, outside=outside)
        if not timeout_seconds > 0:
            raise UsageError(
                f"a query cannot answer in {timeout_seconds} s", hint="give it some time"
            )
        reading = Reading(self._bound, self._moment(), timeout_seconds)
        until = time.monotonic() + timeout_seconds
        if not self._threads.acquire(timeout=timeout_seconds):
            raise QueryTimeoutError(
                f"{_THREADS_MAX} queries run, and none ended in {timeout_seconds:g} s",
                hint="ask later, or mend the query that never ends",
                query=name,
            )
        call = _Call(self, query, fitted, reading)
        call.start()
        if not call.done.wait(max(0.0, until - time.monotonic())):
            reading.cancelled.set()
            raise QueryTimeoutError(
                f"query {name!r} did not answer in {timeout_seconds:g} s",
                hint="give it more time: timeout_seconds=60; or read less in one call",
                query=name,
            )
        if call.error is not None:
            raise call.error
        return call.answer

    def run(self, query: BoundQuery, arguments: dict[str, Any], reading: Reading) -> Any:
        """The answer, at another moment when the one that was seen is gone."""
        while True:
            try:
                return query.answer(reading.ask(query.name, arguments))
            except _GONE:
                reading.check()
                newer = reading.at(self._moment())
                if newer is reading:
                    raise
                reading = newer

    def release(self) -> None:
        """A thread has ended."""
        self._threads.release()

    def _moment(self) -> Moment:
        mirrored, commits = self._mirrored.now()
        for each in self._pstates.values():
            at = (each.spec.module, each.spec.topology)
            if at not in commits:
                commits[at] = each.history()
        return Moment({**self._pstates, **mirrored}, commits)

    def _query(self, name: str) -> BoundQuery:
        if name not in self._bound:
            raise NotFoundError(
                f"module {self._module!r} has no query {name!r}",
                hint="it has " + (", ".join(self.names()) or "none"),
            )
        return self._bound[name]


class Moment:
    """What a module reads as of one commit of each topology that writes it.

    Args:
        pstates: The module's PStates, and those of others by ``module.name``.
        histories: For each topology the log as of its commit.
    """

    def __init__(self, pstates: Mapping[str, ReadablePState], histories: Commits) -> None:
        self._pstates = pstates
        self._histories = histories

    def __call__(self, pstate: str) -> PStateView:
        """The view of a PState."""
        readable = self._pstates[pstate]
        return readable.view_of(self._histories[readable.spec.module, readable.spec.topology])

    def __eq__(self, other: object) -> bool:
        """Whether it is the same moment."""
        return isinstance(other, Moment) and other.commits() == self.commits()

    def commits(self) -> dict[tuple[str, str], tuple[int, int]]:
        """For each topology timeline and commit."""
        return {name: (each.timeline, each.commit_id) for name, each in self._histories.items()}

    __hash__ = None  # type: ignore[assignment]  # compared only


class _Call(threading.Thread):
    """One query being answered."""

    def __init__(
        self, queries: Queries, query: BoundQuery, arguments: dict[str, Any], reading: Reading
    ) -> None:
        super().__init__(name=f"atoll-query-{query.name}", daemon=True)
        self.done = threading.Event()
        self.answer: Any = None
        self.error: AtollError | None = None
        self._work = (queries, query, arguments, reading)

    def run(self) -> None:
        queries, query, arguments, reading = self._work
        try:
            self.answer = queries.run(query, arguments, reading)
        except AtollError as error:
            if isinstance(error, UserCodeError) and error.hint == MEND_HINT:
                error.hint = _MEND_HINT
            self.error = error
        except Exception as error:  # noqa: BLE001 - the caller gets to know, in its own thread
            self.error = QueryError(
                f"query {query.name!r} failed: {error}",
                hint="see the query's steps; the types that they emit must hold their values",
                query=query.name,
            )
        finally:
            queries.release()
            self.done.set()
