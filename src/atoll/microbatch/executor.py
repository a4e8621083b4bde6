"""What the loop asks of whatever runs a topology's jobs."""

from __future__ import annotations

from typing import Protocol

from atoll.microbatch.commits.objects import Commit, Plan
from atoll.microbatch.control.options import Options
from atoll.microbatch.outcome import ActorFailure, Outcome
from atoll.placement.placement import Placement


class AttemptError(Exception):
    """An attempt that ended without a result, and why."""

    def __init__(self, failure: ActorFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Executor(Protocol):
    """Runs attempts. One at a time per topology; several topologies may run at once."""

    def run(
        self, plan: Plan, epoch: int, version: int, placement: Placement, timeout_seconds: float
    ) -> Outcome:
        """Run all jobs of an attempt on a placement and return what their tasks report.

        Nothing that it does is visible to readers. When it raises, tasks may still be running:
        whatever they write later is named by their own tokens and counts for nothing.

        Raises:
            AttemptError: When a task failed, an executor was lost or the time was over.
        """

    def run_carefully(
        self, plan: Plan, epoch: int, version: int, placement: Placement, timeout_seconds: float
    ) -> Outcome:
        """As :meth:`run`, of records that made an attempt fail which will always do so.

        It may take longer. Each such record is found; those of a topology with a dead-letter
        depot are set aside, else the failure names the first.

        Raises:
            AttemptError: As :meth:`run`.
        """

    def prepare(self, placement: Placement, commit: Commit) -> None:
        """Get ready to run on another placement, beside the attempts on the present one.

        For other threads. It may do nothing, and what it cannot do is done by the first attempt
        there.

        Args:
            placement: Where attempts may run soon.
            commit: The last one.
        """

    def stand_by(self, placement: Placement) -> None:
        """Attempts will run on a placement from now on; returns at once."""

    def tune(self, options: Options) -> None:
        """Run the following attempts with these options; called before each."""

    def read_ahead(self, plan: Plan) -> None:
        """Begin to read and pack what the next attempt is expected to read; returns at once.

        Called when an attempt has succeeded, before its microbatch is committed. It may do
        nothing, and changes nothing that lasts. The next attempt may use what was packed if it
        reads exactly the same, and waits until this has ended; it never fails because of it.

        Args:
            plan: What is expected: no object stands for it, and another plan may come.
        """

    def end_reading_ahead(self) -> None:
        """Return when nothing reads ahead any more; :meth:`cancel` makes that soon."""

    def cancel(self) -> None:
        """End the running attempt soon; :meth:`run` then raises. Nothing when none runs.

        Called by other threads, also again and again for the same attempt.
        """

    def forget(self, microbatch: int) -> None:
        """Drop the rows staged by attempts at a microbatch: it has committed."""
