"""What other threads ask of a topology, and how they wait until it is so.

A request is an event in a queue, which the topology's loop takes between two commands; who asked
waits for the coordinator's state to say what came of it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from atoll.errors import (
    FencedError,
    StateError,
    StoppedError,
    TopologyFailedError,
    UsageError,
    WaitTimeoutError,
)
from atoll.microbatch import events as ev
from atoll.microbatch.commits.objects import Commit, Reach
from atoll.microbatch.control.options import Options
from atoll.microbatch.control.pausing import Paused
from atoll.microbatch.control.status import Status
from atoll.microbatch.coordinator import decide
from atoll.microbatch.outcome import ActorFailure
from atoll.microbatch.plans.fitting import Sizes
from atoll.placement.placement import Placement


class Requests:
    """The side of a topology's loop that others call. Safe from any thread.

    Args:
        status: Where the loop keeps the coordinator's state.
        published: The commit that readers see.
    """

    def __init__(self, status: Status, published: Commit) -> None:
        self.topology = status.topology
        self.status = status
        self.published = published
        self._asked = 0
        self._tickets = 0
        self._said = 0
        self._one_at_a_time = threading.Lock()
        self._saying = threading.Lock()
        self._changed = threading.Condition()
        self._requests: deque[ev.Event] = deque()
        self._appended = False
        self._begun = False
        self._closing = False
        self._ended = False

    @property
    def recovering(self) -> bool:
        """Whether it still delivers what the life before it may owe, and runs nothing yet."""
        state = self.status.state
        return state.step == ev.Step.PUBLISH and state.commit is None

    @property
    def closed(self) -> bool:
        """Whether somebody has ended it: it does nothing any more."""
        return self._closing

    @property
    def undisturbed(self) -> bool:
        """Whether it runs, and nothing has failed since its last commit."""
        state = self.status.state
        return state.condition == ev.Condition.RUNNING and state.failure is None

    def notify_append(self) -> None:
        """Records were appended in this process: look now."""
        with self._changed:
            self._appended = True
            self._changed.notify_all()

    def pause(self, timeout_seconds: float = 60.0) -> None:
        """Start no further microbatch; returns when the running one has ended.

        It holds until :meth:`resume`, in later lives too: it is kept before it is taken.

        Raises:
            WaitTimeoutError: When the running one takes longer; the pause still holds after it.
            StorageError: When it cannot be kept; nothing is paused then.
            FencedError: When another life of the coordinator owns the module.
            StateError: When somebody let it go on before the running one had ended.
        """
        self._refuse_fenced(self.status.state)
        ticket = self._say(lambda ticket: ev.Pause(self._keep_pause(), ticket))

        def done(state: ev.State) -> bool:
            self._refuse_fenced(state)
            if state.said.rested >= ticket or self._ended:
                return True
            if state.said.taken > ticket and state.condition == ev.Condition.RUNNING:
                raise StateError(
                    f"topology {self.topology!r} was resumed before its pause began",
                    hint="somebody else let it go on; pause it again when it is to rest",
                )
            return False

        self._wait(done, timeout_seconds, "a pause")

    def resume(self) -> None:
        """Go on, also after the topology failed; it may fail again before this returns.

        Raises:
            StorageError: When it cannot be kept that it goes on; it stays as it is then.
            FencedError: When another life of the coordinator owns the module.
            WaitTimeoutError: When a microbatch runs on for a minute; it goes on after it.
        """
        self._refuse_fenced(self.status.state)
        if self._ended:
            self._refuse_stopped(self.status.state)
        ticket = self._say(self._resumption)

        def done(state: ev.State) -> bool:
            self._refuse_fenced(state)
            return state.said.taken >= ticket

        self._wait(done, 60.0, "going on")

    def set_options(self, options: Options) -> None:
        """Go on with other options from the next microbatch on; does not wait for it."""
        self._request(ev.SetOptions(options))

    def checkpoint(
        self, timeout_seconds: float = 60.0, *, lost: Mapping[str, Sequence[int]] | None = None
    ) -> int:
        """Write all that changed since its last checkpoint to one, and wait until it counts.

        Args:
            timeout_seconds: How long to wait.
            lost: By PState the vnodes to write though they did not change, since files are lost.

        Returns:
            The commit that the checkpoints belong to: the last one when all were up to date.

        Raises:
            UsageError: When the topology is paused.
            TopologyFailedError: When the topology stopped as failed.
            FencedError: When another life of the coordinator took over.
            WaitTimeoutError: When the time is over; the request still holds.
        """
        asked = self.ask_checkpoint(lost)

        def done(state: ev.State) -> bool:
            if state.asked.answered >= asked:
                return True
            self._refuse_stopped(state)
            if state.condition == ev.Condition.PAUSED:
                raise UsageError(
                    f"topology {self.topology!r} is paused, so it writes no checkpoint",
                    hint="resume it; the checkpoint is written then",
                )
            return False

        self._wait(done, timeout_seconds, "a checkpoint")
        return self.status.state.asked.commit

    def ask_checkpoint(self, lost: Mapping[str, Sequence[int]] | None = None) -> int:
        """The same without waiting: which request it is, to be found among those answered."""
        with self._changed:
            self._asked += 1
            asked = self._asked
        self._request(ev.AskCheckpoint(lost or {}))
        return asked

    def rollback(
        self, to: int, *, keep_appended: bool = False, timeout_seconds: float = 60.0
    ) -> None:
        """Go back to the state after an earlier microbatch; the topology is paused then.

        Raises:
            UsageError: When it is too long ago, or rows were appended to depots since.
            StateError: When it was refused for another reason; nothing has changed then, or the
                rollback is found and followed later.
            TopologyFailedError: When a defect has ended the topology's thread.
            FencedError: When another life of the coordinator owns the module.
            WaitTimeoutError: When the running microbatch takes longer; it happens after it.
        """
        with self._saying:  # who lets it go on meanwhile means what comes after
            failure = self._answered(
                lambda ticket: ev.RollBack(ticket, to, keep_appended),
                _went_back,
                timeout_seconds,
                "the rollback",
            )
        if failure is not None:
            kind = UsageError if failure.code == UsageError.code else StateError
            raise kind(failure.message, hint=failure.hint, **failure.context)

    def place(self, to: Placement, timeout_seconds: float = 60.0, *, trial: bool = True) -> None:
        """Run on another placement, and wait until a microbatch has committed there.

        One without records is made when none wait. A topology that is paused or failed takes the
        placement at once, and so does every one when it is not a trial: there is no way back.

        Raises:
            StateError: When the first attempt there failed: the old placement stands.
            TopologyFailedError: When a defect has ended the topology's thread.
            FencedError: When another life of the coordinator owns the module.
            WaitTimeoutError: When it takes longer: the request is taken back.
        """
        before = self.status.state.placement
        try:
            failure = self._answered(
                lambda ticket: ev.MoveTo(ticket, to, trial),
                _placed,
                timeout_seconds,
                "its new placement",
            )
        except WaitTimeoutError:
            if not trial:
                raise
            with self._one_at_a_time:
                self._tickets += 1
                self._request(ev.MoveTo(self._tickets, before))
            raise
        if failure is not None:
            raise StateError(
                f"the first attempt on the new placement failed: {failure.message}",
                hint=failure.hint,
                **failure.context,
            )

    def move_to(self, to: Placement) -> None:
        """Run on another placement from the next attempt on; does not wait for it."""
        with self._one_at_a_time:
            self._tickets += 1
            self._request(ev.MoveTo(self._tickets, to, trial=False))

    def wait_processed(self, count: int, timeout_seconds: float = 60.0) -> None:
        """Wait until so many records were processed over the topology's life, and are visible.

        Raises:
            TopologyFailedError: When the topology stopped as failed before.
            FencedError: When another life of the coordinator took over before.
            StoppedError: When the module is closed before.
            WaitTimeoutError: When the time is over.
        """

        def done(state: ev.State) -> bool:
            if self.published.processed >= count:
                return True
            self._refuse_stopped(state)
            return False

        self._wait(done, timeout_seconds, f"{count} processed records")

    def wait_reached(
        self, ends: Mapping[str, Mapping[int, int]], timeout_seconds: float = 60.0
    ) -> Commit:
        """Wait until readers see a commit that has processed depots up to some offsets.

        Args:
            ends: By depot, of those that the topology reads, and depot partition the offset after
                the last record to wait for.
            timeout_seconds: How long to wait.

        Returns:
            The commit.

        Raises:
            TopologyFailedError: When the topology stopped as failed before.
            FencedError: When another life of the coordinator took over before.
            StoppedError: When the module is closed before.
            WaitTimeoutError: When the time is over.
        """

        def done(state: ev.State) -> bool:
            if _reached(self.published.ends(), ends):
                return True
            self._refuse_stopped(state)
            return False

        self._wait(done, timeout_seconds, "the records waited for")
        return self.published

    def wait_passed(
        self, ends: Mapping[str, Mapping[int, int]], timeout_seconds: float = 60.0
    ) -> tuple[int, Reach]:
        """As :meth:`wait_reached`; the commit's id, and how far it and all before it appended.

        What the life before this one may owe is delivered then, too.

        Raises:
            As :meth:`wait_reached`.
        """

        def done(state: ev.State) -> bool:
            delivered = self._begun and not self.recovering
            if delivered and _reached(self.published.ends(), ends):
                return True
            self._refuse_stopped(state)
            return False

        self._wait(done, timeout_seconds, "the records waited for")
        with self._changed:
            return self.published.id, self.status.state.delivered

    def wait_resting(self, now_ms: Callable[[], int], timeout_seconds: float = 60.0) -> None:
        """Wait until nothing runs and nothing is due by itself: no timer, window or tick.

        Args:
            now_ms: What the clock shows.
            timeout_seconds: How long to wait.

        Raises:
            As :meth:`wait_reached`.
        """

        def done(state: ev.State) -> bool:
            self._refuse_stopped(state)
            return self.rests(now_ms())

        self._wait(done, timeout_seconds, "a rest")

    def rests(self, now_ms: int) -> bool:
        """Whether nothing runs, and without further records nothing would."""
        state = self.status.state
        if state.step != ev.Step.IDLE or self._requests or not self._begun:
            return False
        if state.condition != ev.Condition.RUNNING:
            return True
        ends = {name: list(at) for name, at in state.last.ends().items() if name not in state.ticks}
        nothing: Sizes = {name: [[] for _ in at] for name, at in ends.items()}
        return isinstance(decide(state, ev.Wake(ends, ends, now_ms, nothing))[1], ev.Wait)

    def wait_published(
        self, known: Commit, over: Callable[[], bool], timeout_seconds: float | None
    ) -> None:
        """Return when readers see another commit, when it is over, or when the time is.

        Args:
            known: The commit that the caller knows.
            over: Whether the caller waits no more; looked at after every :meth:`wake`.
            timeout_seconds: How long to wait; None for ever.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self.published is not known or over(), timeout=timeout_seconds
            )

    def wake(self) -> None:
        """Let everybody who waits look again."""
        with self._changed:
            self._changed.notify_all()

    def _keep_pause(self) -> Paused | None:
        """Let the pause outlive this process; says what is kept."""
        raise NotImplementedError

    def _keep_resumption(self) -> None:
        """Let it outlive this process that the topology goes on."""
        raise NotImplementedError

    # Waiting --------------------------------------------------------------------------------------

    def _answered(
        self,
        asking: Callable[[int], ev.Event],
        answer_of: Callable[[ev.State], ev.Answer],
        timeout_seconds: float,
        what: str,
    ) -> ActorFailure | None:
        """Ask under a ticket of its own, and wait for the answer to it."""
        if self._ended:
            self._refuse_stopped(self.status.state)
        with self._one_at_a_time:
            self._tickets += 1
            ticket = self._tickets
            self._request(asking(ticket))

            def done(state: ev.State) -> bool:
                self._refuse_fenced(state)
                return answer_of(state).ticket == ticket

            self._wait(done, timeout_seconds, what)
            return answer_of(self.status.state).failure

    def _resumption(self, ticket: int) -> ev.Event:
        self._keep_resumption()
        return ev.Resume(ticket)

    def _say(self, saying: Callable[[int], ev.Event]) -> int:
        """Ask it to rest or to go on, in the order in which that is kept; the request's ticket."""
        with self._saying:
            event = saying(self._said + 1)
            self._said += 1
            self._request(event)
            return self._said

    def _request(self, event: ev.Event) -> None:
        with self._changed:
            self._requests.append(event)
            self._changed.notify_all()

    def _wait(self, done: Callable[[ev.State], bool], timeout_seconds: float, what: str) -> None:
        until = time.monotonic() + timeout_seconds
        with self._changed:
            while not done(self.status.state):
                left = until - time.monotonic()
                if self._closing:
                    raise StoppedError(
                        f"topology {self.topology!r} was closed while waiting for {what}",
                        hint="wait again once the module runs again: what was accepted is kept, "
                        "and a receipt holds there, too",
                    )
                if self._ended:
                    self._refuse_stopped(self.status.state)
                if left <= 0:
                    raise self._not_reached(what, f"in {timeout_seconds:.3g} s")
                self._changed.wait(left)

    def _not_reached(self, what: str, when: str) -> WaitTimeoutError:
        state = self.status.state
        message = f"topology {self.topology!r} did not come to {what} {when}"
        hint = "look at the topology's status for its lag and error"
        if state.condition == ev.Condition.PAUSED:
            hint = "the topology is paused: resume it"
        elif state.failure is not None:
            message += f", and its last attempt failed: {state.failure.message}"
            hint = state.failure.hint or hint
        return WaitTimeoutError(
            message,
            hint=hint,
            processed=self.published.processed,
            step=state.step.name.lower(),
        )

    def _refuse_stopped(self, state: ev.State) -> None:
        self._refuse_fenced(state)
        if state.condition == ev.Condition.FAILED and state.failure is not None:
            raise TopologyFailedError(
                f"topology {self.topology!r} failed: {state.failure.message}",
                hint=state.failure.hint,
                **state.failure.context,
            )

    def _refuse_fenced(self, state: ev.State) -> None:
        if state.condition == ev.Condition.FENCED and state.failure is not None:
            raise FencedError(
                state.failure.message, hint=state.failure.hint, **state.failure.context
            )


def _reached(done: Mapping[str, list[int]], ends: Mapping[str, Mapping[int, int]]) -> bool:
    """Whether what is done is at or behind all the ends; what was never read ends at 0."""
    return all(
        dict(enumerate(done.get(depot, ()))).get(partition, 0) >= end
        for depot, wanted in ends.items()
        for partition, end in wanted.items()
    )


def _went_back(state: ev.State) -> ev.Answer:
    return state.answer


def _placed(state: ev.State) -> ev.Answer:
    return state.placed
