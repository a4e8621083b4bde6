"""A place for one standing task: a Spark job of one task, begun anew whenever it ends.

A job for each post and not one for all of them: posts come and go with the placement, and Spark
gives up a whole job when one of its tasks has died a few times, be it over months. The driver's
end of the connection is here too, and whose turn it is to use it.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from atoll.logs import get_logger
from atoll.spark.jobs.stages import stages_of
from atoll.spark.jvm.lives import lives
from atoll.spark.standing.turn import Turn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from atoll.spark.standing.messages import Hello
    from atoll.spark.standing.task import StandingTask
    from atoll.spark.standing.wire import Wire


_log = get_logger("atoll.spark")

PostKey = tuple[str, int]
"""The host, and which of its posts it is."""

_STOOD_SECONDS = 5.0
"""A task that stood so long did not fail at once: the next one begins without delay."""

_DELAY_SECONDS = 0.1
_DELAY_SECONDS_MAX = 30.0
_KILLED_SECONDS_MAX = 10.0
_RETURN_SECONDS_MAX = 0.5
"""So long it is quicker to wait for the next task than to begin an ordinary Spark job."""

_RETIRE_SECONDS = 60.0


class Post:
    """One post.

    Args:
        key: The host and the number.
        session: Whose job it is.
        frame: Gives the frame of one row that begins the job, where it is to run.
        task: Gives the task of a generation.
        is_at: Whether the running job of a tag runs on the post's host.
    """

    def __init__(
        self,
        key: PostKey,
        session: SparkSession,
        frame: Callable[[], DataFrame],
        task: Callable[[int], StandingTask],
        is_at: Callable[[str, str], bool],
    ) -> None:
        """Nobody stands there before :meth:`begin`."""
        self.key = key
        self.session = session
        self.turn = Turn()
        self.ended = threading.Event()
        self.lost = 0
        """How many tasks ended that were not asked to."""
        self.wire: Wire | None = None
        """The connection to the task, while there is one; for whoever has the turn."""
        self.programs: set[str] = set()
        """The digests of the programs that the task was given."""
        self.pid = 0
        self._frame = frame
        self._task = task
        self._is_at = is_at
        self._name = f"atoll-post-{uuid.uuid4().hex}"
        self._returns_until = 0.0
        self._generation = 0
        self._trial = -1
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._man, name=f"atoll-post-{key[1]}", daemon=True)

    def __repr__(self) -> str:
        """Where it is."""
        host, number = self.key
        return f"post {number}" + (f" on {host}" if host else "")

    def begin(self) -> None:
        """Let Spark start a task; returns at once."""
        self._thread.start()

    def admit(self, hello: Hello, wire: Wire) -> bool:
        """Take the connection of a task, unless a later one of the post has come or is to come.

        Spark may start a task twice: the later one counts, for Spark believes the first one lost.
        """
        tag = self._tag(hello.generation)
        if not self._is_at(tag, self.key[0]):
            _log.warning("a standing task began on another host than its post's", post=str(self))
            self._cancel(tag)
            return False
        with self._changed:
            current = hello.generation == self._generation and hello.trial > self._trial
            if self.ended.is_set() or not current:
                return False
            before, self.wire = self.wire, wire
            self._trial = hello.trial
            self.pid = hello.pid
            self.programs = set()
            self._changed.notify_all()
        if before is not None:
            before.sever()
        return True

    @property
    def returning(self) -> bool:
        """Whether its task was lost so lately that the next one is about to come."""
        return not self.manned and time.monotonic() < self._returns_until

    @property
    def manned(self) -> bool:
        """Whether a task stands there, as far as is known without looking."""
        return self.wire is not None

    def is_ready(self) -> bool:
        """Whether a task stands there and waits for work; for whoever has the turn."""
        wire = self.wire
        if wire is None:
            return False
        if wire.is_quiet():
            return True
        self.drop(wire)
        return False

    def await_return(self) -> bool:
        """Whether a task stands there, once the next one had time to come for one just lost."""
        return self.manned or self.await_ready(max(0.0, self._returns_until - time.monotonic()))

    def await_ready(self, seconds_max: float) -> bool:
        """Wait until a task has come; False when none did in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.wire is not None, seconds_max)

    def drop(self, wire: Wire) -> None:
        """Forget a connection that broke; the task at its other end is gone or goes."""
        with self._changed:
            if self.wire is wire:
                self.wire = None
                self._returns_until = time.monotonic() + _RETURN_SECONDS_MAX
        wire.sever()

    def kill(self, wire: Wire, *, wait: bool) -> None:
        """Let Spark kill the task, which does not answer; another one follows.

        Args:
            wire: The connection to it.
            wait: Whether to return only when its process is gone, and with it what it held.
        """
        with self._changed:
            pid, tag = self.pid, self._tag(self._generation)
            if self.wire is not wire:  # another task is there already: this one is ended
                wire.sever()
                return
            self._returns_until = time.monotonic() + _RETURN_SECONDS_MAX
            self.wire = None  # or the next one to come would let it go before it is dead
        self._cancel(tag)
        if wait and not wire.await_end(_KILLED_SECONDS_MAX):
            _log.warning("a standing task outlives its job", post=str(self), pid=pid)
        wire.sever()

    def end(self) -> None:
        """Let the task go; nobody follows it. Returns at once."""
        with self._changed:
            self.ended.set()
            wire, self.wire = self.wire, None
            self._changed.notify_all()
        if wire is not None:
            wire.sever()
        else:
            self._cancel(self._tag(self._generation))

    def retire(self) -> None:
        """As :meth:`end`, when the job that has the turn has given it back."""
        while not self.turn.take(_RETIRE_SECONDS):
            if self.ended.is_set():
                return
        try:
            self.end()
        finally:
            self.turn.give_back()

    def await_end(self, seconds_max: float) -> bool:
        """After :meth:`end`: wait until its Spark job is over."""
        self._thread.join(seconds_max)
        return not self._thread.is_alive()

    def stages(self) -> set[int]:
        """The stages of its running Spark job."""
        return stages_of(self.session.sparkContext, self._tag(self._generation))

    # Inside ---------------------------------------------------------------------------------------

    def _tag(self, generation: int) -> str:
        return f"{self._name}-{generation}"

    def _man(self) -> None:
        """Run one job after the other, until the post or Spark ends."""
        delay = _DELAY_SECONDS
        while not self.ended.is_set():
            began = time.monotonic()
            with self._changed:
                self._generation += 1
                self._trial = -1
                generation = self._generation
            reason = self._stand(generation)
            if self.ended.is_set() or lives.is_dead(self.session):
                return
            self.lost += 1
            _log.warning("a standing task ended; another one follows", post=str(self), why=reason)
            if time.monotonic() - began > _STOOD_SECONDS:
                delay = _DELAY_SECONDS
            self.ended.wait(delay)
            delay = min(2 * delay, _DELAY_SECONDS_MAX)

    def _stand(self, generation: int) -> str:
        """Run the job of a generation; why it ended."""
        context = self.session.sparkContext
        tag = self._tag(generation)
        try:
            context.addJobTag(tag)
            context.setJobDescription(f"Atoll: standing task, {self}")
            self._frame().mapInArrow(self._task(generation), "nothing int").collect()
        except Exception as error:  # noqa: BLE001 - whatever it is, the next generation follows
            lines = str(error).strip().splitlines()
            return lines[0] if lines else type(error).__name__
        finally:
            with contextlib.suppress(Exception):  # Spark is gone, and its tags with it
                context.removeJobTag(tag)
        return "it was let go"

    def _cancel(self, tag: str) -> None:
        with contextlib.suppress(Exception):  # Spark is gone, and with it the task
            self.session.sparkContext.cancelJobsWithTag(tag)
