"""An executor that fails when a test says so."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from atoll.microbatch.executor import AttemptError
from atoll.microbatch.outcome import ActorFailure, Outcome

if TYPE_CHECKING:
    from atoll.microbatch.commits.objects import Commit, Plan
    from atoll.microbatch.control.options import Options
    from atoll.microbatch.executor import Executor
    from atoll.placement.placement import Placement


INJECTED = ActorFailure("E-INJECTED", "the attempt was made to fail by the test")


@dataclass(frozen=True)
class _Injected:
    failure: ActorFailure
    after_work: bool


class FailingExecutor:
    """Another executor, some of whose attempts fail.

    Args:
        executor: Runs the attempts.
    """

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self._injected: deque[_Injected] = deque()

    def fail_next(self, failure: ActorFailure, times: int, *, after_work: bool) -> None:
        """Let that many of the next attempts fail, after those asked for before.

        Args:
            failure: How.
            times: How many attempts.
            after_work: Let all tasks do their work first, so that it must be undone.
        """
        self._injected.extend([_Injected(failure, after_work)] * times)

    def run(
        self, plan: Plan, epoch: int, version: int, placement: Placement, timeout_seconds: float
    ) -> Outcome:
        """Run an attempt, or fail it.

        Raises:
            AttemptError: The one asked for, or the executor's own.
        """
        if not self._injected:
            return self.executor.run(plan, epoch, version, placement, timeout_seconds)
        injected = self._injected.popleft()
        if injected.after_work:
            self.executor.run(plan, epoch, version, placement, timeout_seconds)
        raise AttemptError(injected.failure)

    def run_carefully(
        self, plan: Plan, epoch: int, version: int, placement: Placement, timeout_seconds: float
    ) -> Outcome:
        """Run an attempt that looks for bad records, as the executor does.

        Raises:
            AttemptError: The executor's own.
        """
        return self.executor.run_carefully(plan, epoch, version, placement, timeout_seconds)

    def prepare(self, placement: Placement, commit: Commit) -> None:
        """As the executor does."""
        self.executor.prepare(placement, commit)

    def stand_by(self, placement: Placement) -> None:
        """As the executor does."""
        self.executor.stand_by(placement)

    def tune(self, options: Options) -> None:
        """As the executor does."""
        self.executor.tune(options)

    def read_ahead(self, plan: Plan) -> None:
        """As the executor does, and wait for it: nothing runs between two steps."""
        self.executor.read_ahead(plan)
        self.executor.end_reading_ahead()

    def end_reading_ahead(self) -> None:
        """As the executor does."""
        self.executor.end_reading_ahead()

    def cancel(self) -> None:
        """As the executor does."""
        self.executor.cancel()

    def forget(self, microbatch: int) -> None:
        """As the executor does."""
        self.executor.forget(microbatch)
