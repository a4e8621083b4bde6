"""A running topology as users hold it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from atoll.cluster.upkeep.warnings import ModuleWarnings
from atoll.cluster.waiting import Waiting
from atoll.depot.logs.followed import ends_seen
from atoll.errors import UsageError
from atoll.markup import Rows, table
from atoll.microbatch.commits.objects import Commit
from atoll.microbatch.commits.rollback import rollback_plan
from atoll.microbatch.control.earlier import earlier_microbatches
from atoll.microbatch.control.status import MICROBATCHES_TOLD
from atoll.microbatch.stepping import Stepper
from atoll.views.microbatches import MicrobatchState

if TYPE_CHECKING:
    from atoll.depot.receipt import Awaited, Receipt

_COLUMNS = ("topology", "state", "id", "committed", "version", "step", "processed")


def status_table(statuses: list[dict[str, Any]]) -> tuple[list[str], list[list[object]]]:
    """What a notebook shows of topologies' statuses: the heads, and a row for each."""
    rows = [
        [
            *(each[name] for name in _COLUMNS),
            sum(sum(lags) for lags in each["lag"].values()),
            each["records_per_second"],
            each["durations_ms"].get("total"),
            each["error"] and f"{each['error']['message']} [{each['error']['code']}]",
        ]
        for each in statuses
    ]
    return [*_COLUMNS, "lag", "records/s", "duration ms", "error"], rows


def module_tables(status: Mapping[str, Any]) -> str:
    """A module's topologies and depots, for a notebook."""
    depots: list[list[object]] = [
        [name, sum(each["end_offsets"]) - sum(each["start_offsets"]), len(each["end_offsets"])]
        for name, each in status["depots"].items()
    ]
    heads, rows = status_table(list(status["topologies"].values()))
    return table(heads, rows, f"module {status['module']}") + table(
        ["depot", "records", "partitions"], depots
    )


class RunningTopology:
    """Wait for, pause, resume and look at one topology."""

    def __init__(
        self,
        loop: Stepper,
        warnings: ModuleWarnings,
        waiting: Waiting,
        sinks: Callable[[], dict[str, dict[str, Any]]] = dict,
    ) -> None:
        self._loop = loop
        self._sinks = sinks
        self._warnings = warnings
        self._waiting = waiting
        self.name = loop.topology

    def __repr__(self) -> str:
        """Its name: ``<topology 'mb'>``."""
        return f"<topology {self.name!r}>"

    def wait(self, *receipts: Receipt | Awaited | str, timeout_seconds: float = 60.0) -> int:
        """Wait until readers see what this topology makes of what was appended.

        Also when the records come to it through others that append to the depots that it reads.

        Args:
            *receipts: What ``append`` returned, or the tokens of it.
            timeout_seconds: How long to wait for all of it.

        Returns:
            The microbatch that readers see.

        Raises:
            ReceiptError: When the topology never sees the records, or they were trimmed before.
            TopologyFailedError: When it stopped as failed, or one on the way to it.
            StoppedError: When the module is stopped meanwhile.
            WaitTimeoutError: When it takes longer.
            FencedError: When another process took the module over.
        """
        self._waiting.wait(receipts, timeout_seconds, self.name)
        return self._loop.published.id

    def wait_processed(self, count: int, timeout_seconds: float = 60.0) -> None:
        """Wait until so many records were processed over the topology's life, and are visible.

        The count goes on over restarts. Records of all its depots count. To wait for what one has
        appended use :meth:`wait`.

        Raises:
            WaitTimeoutError: When it takes longer.
            TopologyFailedError: When the topology stopped as failed.
            FencedError: When another process took the module over.
        """
        self._loop.wait_processed(count, timeout_seconds)

    def pause(self, timeout_seconds: float = 60.0) -> None:
        """Start no further microbatch; returns when the running one has ended.

        What is filled beside it rests too.
        """
        self._loop.pause(timeout_seconds)
        if self._loop.beside is not None:
            self._loop.beside.pause(timeout_seconds)

    def resume(self) -> None:
        """Go on after a pause or a failure."""
        self._loop.resume()
        if self._loop.beside is not None:
            self._loop.beside.resume()

    def wait_filled(self, timeout_seconds: float = 60.0) -> None:
        """Wait until all that is filled from the past has joined, and is readable.

        Raises:
            TopologyFailedError: When the topology, or what fills, has failed.
            StoppedError: When the module is stopped meanwhile.
            FencedError: When another process took the module over.
            WaitTimeoutError: When it takes longer; it goes on.
        """
        self._loop.wait_alone(timeout_seconds)

    def rollback(
        self, to_microbatch: int, *, keep_appended: bool = False, timeout_seconds: float = 60.0
    ) -> None:
        """Go back to the state as it was after an earlier microbatch; returns when readers see it.

        The running microbatch ends first. Then all later ones are abandoned, the topology is
        paused, and once resumed it reads their records again. It can go back as far as the options
        ``pstate.history.microbatches`` and ``pstate.history.seconds`` say; to the last microbatch
        itself, which drops a microbatch that keeps failing before it committed.

        Args:
            to_microbatch: The last microbatch that stays.
            keep_appended: Go back even if abandoned microbatches appended rows to depots: those
                stay there, and the new microbatches append again.
            timeout_seconds: How long to wait for the running microbatch.

        Raises:
            UsageError: When it is too long ago, or rows were appended since and
                ``keep_appended`` is not set; nothing has changed then.
            StateError: When it could not be done; look at the status, and try again.
            TopologyFailedError: When a defect has ended the topology's thread.
            WaitTimeoutError: When the running microbatch takes longer; it happens after it.
            FencedError: When another process took the module over.
        """
        if self._loop.beside is not None:
            filling = ", ".join(self._loop.beside.describe()["pstates"])
            raise UsageError(
                f"topology {self.name!r} cannot go back while {filling} is being filled",
                hint="wait until it has joined (wait_filled), or deploy the module without it and "
                "remove it",
            )
        self._loop.rollback(
            to_microbatch, keep_appended=keep_appended, timeout_seconds=timeout_seconds
        )

    def rollback_plan(self, to_microbatch: int) -> dict[str, Any]:
        """What :meth:`rollback` to a microbatch would do now; changes nothing.

        So many ``microbatches`` would be abandoned and so many ``records`` read again; the rows
        that they ``appended``, by depot, would stay. ``possible`` are the first and the last
        microbatch to go back to, and ``refused`` is why this one is not, else None.
        """
        mine = self._loop.actions
        return rollback_plan(
            mine.store, mine.module, mine.topology, self._loop.status.state, to_microbatch
        )

    def checkpoint(self, timeout_seconds: float = 60.0) -> int:
        """Write all state that changed since its last checkpoint to one, now.

        It is written with the next microbatch, or with one without records when none wait. State
        of which a file that recovery needs is lost is written too, from the workers' local stores:
        nothing needs the file then.

        Returns:
            The commit that holds it: the last one when all checkpoints were up to date.

        Raises:
            UsageError: When the topology is paused.
            WaitTimeoutError: When it takes longer; it is still written.
            TopologyFailedError: When the topology stopped as failed.
            FencedError: When another process took the module over.
        """
        lost = self._warnings.check(self.name)
        commit = self._loop.checkpoint(timeout_seconds, lost=lost)
        if lost:
            self._warnings.check(self.name)
        return commit

    @property
    def published(self) -> Commit:
        """The commit that readers see."""
        return self._loop.published

    def wait_published(
        self, known: Commit, over: Callable[[], bool], timeout_seconds: float | None = None
    ) -> None:
        """Return when readers see another commit, when it is over, or when the time is.

        Args:
            known: The commit that the caller knows.
            over: Whether the caller waits no more; looked at after every :meth:`wake`.
            timeout_seconds: How long to wait; None for ever.
        """
        self._loop.wait_published(known, over, timeout_seconds)

    def wake(self) -> None:
        """Let everybody who waits for commits look again."""
        self._loop.wake()

    def status(self) -> dict[str, Any]:
        """Id, version, step, lag by depot partition, durations by step, error and warnings."""
        ends = {name: list(ends_seen(depot)) for name, depot in self._loop.depots.items()}
        warnings = self._warnings.of(self.name)
        now_ms = self._loop.actions.now_ms()
        beside, room = self._loop.beside, self._loop.actions.room
        status = {
            **self._loop.status.as_dict(self._loop.published, ends, now_ms, warnings),
            "filling": None if beside is None else beside.describe(),
            "parcels": {} if room is None else room.status(),
            "sinks": self._sinks(),
        }
        if self._loop.closed and status["state"] in ("running", "paused"):
            return {**status, "state": "stopped"}
        return status

    @property
    def microbatch_state(self) -> MicrobatchState:
        """What it is at, to be read as a PState is: id, version, phase, ranges, since when."""
        return MicrobatchState(self._loop.microbatch_state)

    def recent_microbatches(self) -> list[dict[str, Any]]:
        """The last microbatches, oldest first: 256 at most.

        Of each its id, the version of the attempt that counts, when it was committed, how many
        records it read and which (``ranges``: by depot and depot partition the first offset and
        the one behind the last), the ``failed_attempts`` before that with their reasons, the
        ``operators`` with their rows and milliseconds, the ``skew`` of the units, and milliseconds
        by step; those of the last step, and the total with them, a moment after readers see it.

        Of those that were committed before this life of the topology the root tells, as long as it
        keeps their commits; what only that life knew (from ``failed_attempts`` on) is None.
        """
        published = self._loop.published
        told = self._loop.status.recent()
        first = min((each["id"] for each in told), default=published.id + 1)
        ids = range(max(first - (MICROBATCHES_TOLD - len(told)), 1), first)
        actions = self._loop.actions
        place = (actions.store, actions.module, actions.topology, published.timeline)
        return Rows([*earlier_microbatches(*place, ids), *told])

    def _repr_html_(self) -> str:
        """The status, for a notebook."""
        return table(*status_table([self.status()]), caption=f"topology {self.name}")
