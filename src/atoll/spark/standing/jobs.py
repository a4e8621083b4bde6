"""Runs a job of an attempt on standing tasks.

As an ordinary Spark job would: reading tasks pack rows for the actors, then each actor takes what
was packed for it; or, where the rows are few, each actor reads them all and there is one round.
A job has the posts of all its units to itself while it runs. It ends in one of three ways: with
the manifests of all actors; with the failure that a task answered, when all tasks have answered;
or because a task was lost, the time was over or somebody cancelled it, and then the tasks that
are still at work get a moment to answer before Spark kills them. So nothing of an attempt runs
any more when it is over, unless it was cancelled.
"""

from __future__ import annotations

import itertools
import pickle
import select
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import msgspec

from atoll.beats import Beat
from atoll.engine.exchange.waybills import attempt_of
from atoll.errors import AccountsError
from atoll.microbatch.executor import AttemptError
from atoll.microbatch.outcome import ActorFailure, Manifest, first_failure
from atoll.spark.standing.messages import Part, Reply, Request, Result, Warming, Work

if TYPE_CHECKING:
    from atoll.engine.program import JobSpec, Program
    from atoll.microbatch.commits.objects import Commit
    from atoll.spark.jobs.limit import JobLimit
    from atoll.spark.shipping import Shipped
    from atoll.spark.standing.messages import Attempt
    from atoll.spark.standing.post import Post
    from atoll.spark.standing.wire import Wire


_TURN_SECONDS_MAX = 1.0
"""So long a job waits for others; then it is run as an ordinary Spark job beside them."""

_GRACE_SECONDS = 0.5
"""So long tasks of a failed attempt may go on, as long as Spark gives those of its own jobs."""

_LOOK_SECONDS = 0.1
_MESSAGE_SECONDS_MAX = 30.0
_numbers = itertools.count(1)
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Reply)


class TaskLostError(AttemptError):
    """An attempt one of whose standing tasks was lost."""

    def __init__(self, post: Post) -> None:
        super().__init__(
            ActorFailure(
                "E-WORKER-LOST",
                f"a worker of Spark's died: the standing task of {post} (process {post.pid})",
                "look at the machine's memory: with less at once a worker needs less, see "
                "depot.microbatch.max.bytes",
            )
        )


class NotReadyError(Exception):
    """Not all posts are manned, or others are using them; nothing was begun."""


class StandingJob:
    """One job of one attempt on the posts of its units.

    Args:
        posts: The post of each unit; several units may share one.
        program: The topology.
        shipped: The same, pickled.
        spec: What the job is to do.
        limit: How long the attempt may take.
    """

    def __init__(
        self,
        posts: Mapping[int, Post],
        program: Program,
        shipped: Shipped,
        spec: JobSpec,
        limit: JobLimit,
    ) -> None:
        self.posts = posts
        self.program = program
        self.shipped = shipped
        self.limit = limit
        self.spec = spec
        self.attempt = attempt_of(spec)
        self.pickled = pickle.dumps(spec, pickle.HIGHEST_PROTOCOL)
        self.ahead = False
        """Whether rows of it were read before the attempt."""

    def direct(self) -> list[Manifest]:
        """Actors that read for themselves.

        Raises:
            NotReadyError: When nothing could be begun.
            AttemptError: When a task was lost, the time was over or it was cancelled.
        """
        with self._turns() as round_:
            return self._manifests(round_, {}, Work.DIRECT)

    def packed(self) -> list[Manifest]:
        """Rows packed where they are read, then the actors.

        Raises:
            NotReadyError: As :meth:`direct`.
            AttemptError: As :meth:`direct`, or when a task could not read or pack.
        """
        with self._turns() as round_:
            blobs: dict[int, list[bytes]] = {}
            results = self._results(round_, Work.PACK, self._shares(), {})
            failure = first_failure(result.failure for result in results)
            if failure is not None:
                raise AttemptError(failure)
            for unit, blob in (each for result in results for each in result.blobs):
                blobs.setdefault(unit, []).append(blob)
            return self._manifests(round_, blobs, Work.ACT)

    def handed(self, blobs: Mapping[int, list[bytes]]) -> list[Manifest]:
        """The actors, given blobs that others packed, by unit.

        Raises:
            NotReadyError: As :meth:`direct`.
            AttemptError: As :meth:`direct`.
        """
        with self._turns() as round_:
            return self._manifests(round_, blobs, Work.ACT)

    def read_ahead(self, *, direct: bool) -> None:
        """Let the posts read and pack for an attempt that may come, if nobody else uses them.

        Raises:
            NotReadyError: When others use a post or wait for one.
            AttemptError: As :meth:`direct`.
        """
        asked = self._units() if direct else self._shares()
        work = Work.DIRECT_AHEAD if direct else Work.PACK_AHEAD
        with self._turns(0.0) as round_:
            self._results(round_, work, asked, {})

    # Inside ---------------------------------------------------------------------------------------

    def _units(self) -> dict[int, Post]:
        """The post of each actor."""
        return {unit: self.posts[unit] for unit in sorted(self.program.units)}

    def _shares(self) -> dict[int, Post]:
        """The post that reads each share of the splits."""
        source = self.program.placement.source
        return {
            index: self.posts[source[index % len(source)]] for index in range(len(self.spec.splits))
        }

    def _manifests(
        self, round_: _Round, blobs: Mapping[int, list[bytes]], work: Work
    ) -> list[Manifest]:
        units = self._units()
        manifests = []
        for result in self._results(round_, work, units, blobs):
            unit = result.part
            if result.manifest is None and result.failure is None:
                raise AttemptError(_mistaken(f"no word of what became of unit {unit}"))
            manifest = result.manifest or Manifest("", unit, failure=result.failure)
            if manifest.unit != unit:
                raise AttemptError(_mistaken(f"unit {manifest.unit} answered for unit {unit}"))
            manifests.append(manifest)
        return manifests

    def _results(
        self,
        round_: _Round,
        work: Work,
        parts: Mapping[int, Post],
        blobs: Mapping[int, list[bytes]],
    ) -> list[Result]:
        """What came of each part, in their order; every post is asked once for all of its own."""
        asked = _asked(work, self.shipped, self.pickled, parts, blobs)
        found: dict[int, Result] = {}
        for post, reply in round_.replies(asked).items():
            wanted = [part.number for part in asked[post].parts]
            if reply.failure is not None:
                found.update({part: Result(part, failure=reply.failure) for part in wanted})
                continue
            told = [result.part for result in reply.results]
            if told != wanted:
                raise AttemptError(_mistaken(f"parts {wanted} were answered as {told}"))
            found.update({result.part: result for result in reply.results})
        self.ahead = self.ahead or any(result.ahead for result in found.values())
        return [found[part] for part in parts]

    @contextmanager
    def _turns(self, seconds_max: float = _TURN_SECONDS_MAX) -> Iterator[_Round]:
        """The posts of all units, for this job alone."""
        with _turns(self.posts.values(), self.limit, seconds_max):
            yield _Round(self.attempt, self.limit)


class _Round:
    """Requests to posts that one job has the turns of."""

    def __init__(self, attempt: Attempt | None, limit: JobLimit) -> None:
        self.attempt = attempt
        self.limit = limit

    def replies(self, asked: Mapping[Post, Request]) -> dict[Post, Reply]:
        """Ask all posts at once; their replies."""
        found: dict[Post, Reply] = {}
        at_work: dict[int, tuple[Post, Wire]] = {}
        poll = select.poll()
        watch = self.limit.stragglers
        try:
            for post, request in asked.items():
                wire = self._ask(post, request)
                watch.heard(post, _nothing_yet(post, request), time.monotonic())
                at_work[wire.fileno()] = post, wire
                poll.register(wire.fileno(), select.POLLIN)
            while at_work:
                self.limit.check()
                for descriptor, _ in poll.poll(_LOOK_SECONDS * 1000):
                    post, wire = at_work[descriptor]
                    reply = self._reply(post, wire, asked[post])
                    if reply is None:  # asked again, or still at it
                        continue
                    found[post] = reply
                    watch.over(post)
                    poll.unregister(descriptor)
                    del at_work[descriptor]
        except BaseException:
            self._end(at_work.values())
            raise
        return found

    def _ask(self, post: Post, request: Request) -> Wire:
        """Send a request, with the program if the task has not been given it."""
        wire = post.wire
        if wire is None:
            raise TaskLostError(post)
        if request.digest in post.programs:
            request = msgspec.structs.replace(request, program=None)
        try:
            wire.send(_encoder.encode(request), self._until())
        except OSError as error:
            raise self._broken(post, wire, error) from error
        post.programs.add(request.digest)
        return wire

    def _reply(self, post: Post, wire: Wire, request: Request) -> Reply | None:
        """What came; None when it only tells what it is at, and when it wants the program.

        The request was sent once more then.
        """
        try:
            reply = _decoder.decode(wire.receive(self._until()))
        except (EOFError, OSError, msgspec.DecodeError) as error:
            raise self._broken(post, wire, error) from error
        if reply.number != request.number:
            post.drop(wire)
            said = f"request {request.number} was answered as {reply.number}"
            raise AttemptError(_mistaken(said))
        if reply.beat is not None:
            self.limit.stragglers.heard(post, reply.beat, time.monotonic())
            return None
        if reply.unknown:
            post.programs.discard(request.digest)
            self._ask(post, request)
            return None
        if reply.failure is None and reply.attempt != self.attempt:
            post.drop(wire)
            said = f"attempt {self.attempt} was answered as {reply.attempt}"
            raise AttemptError(_mistaken(said))
        return reply

    def _until(self) -> float:
        """When a message must be through: its end may hang as well as its work."""
        return min(self.limit.until, time.monotonic() + _MESSAGE_SECONDS_MAX)

    def _broken(self, post: Post, wire: Wire, error: Exception) -> AttemptError:
        """The failure of an attempt of which a connection broke.

        Where only a part of a message was through in time, nothing can follow it, and the task
        does not end by itself: it may be stopped.
        """
        if isinstance(error, TimeoutError):
            post.kill(wire, wait=not self.limit.cancelled)
        else:
            post.drop(wire)
        self.limit.check()
        return TaskLostError(post)

    def _end(self, at_work: Iterable[tuple[Post, Wire]]) -> None:
        """Let tasks answer that are still at work, whatever it is; Spark kills those that do not.

        One that is asked for more after it would answer the earlier request first.
        """
        until = time.monotonic() + _GRACE_SECONDS
        for post, wire in at_work:
            if post.wire is not wire:
                continue
            self.limit.stragglers.over(post)
            try:  # the one before may have taken all the time, when this one has answered already
                _await_reply(wire, max(until, time.monotonic() + _LOOK_SECONDS))
            except TimeoutError:
                post.kill(wire, wait=not self.limit.cancelled)
            except (EOFError, OSError, msgspec.DecodeError):
                post.drop(wire)


def _await_reply(wire: Wire, until: float) -> None:
    """Let a task answer, however often it says before what it is at."""
    while _decoder.decode(wire.receive(until)).beat is not None:
        pass


def _nothing_yet(post: Post, request: Request) -> Beat:
    """What a task is at before it says anything: should it never do so, it was stopped."""
    step = "no word since it was asked: it is stopped, or lets no other thread run"
    return Beat(f"standing task of {post}, part", request.parts[0].number, -1, step)


def warm(
    posts: Mapping[int, Post],
    shipped: Shipped,
    commit: Commit,
    limit: JobLimit,
    shares: int = 1,
) -> None:
    """Let each unit's post bring the stores of the unit up to date, and open them.

    A share of them at a time: in between, attempts have their turns.

    Raises:
        NotReadyError: When others use a post for long, or nobody stands there.
        AttemptError: When a task failed or was lost, or the time was over.
    """
    for share in range(shares):
        told = msgspec.msgpack.encode(Warming(commit.id, commit.timeline, (share, shares)))
        asked = _asked(Work.WARM, shipped, told, posts, {})
        with _turns(asked, limit):
            replies = _Round(None, limit).replies(asked)
        for reply in replies.values():
            if reply.failure is not None:
                raise AttemptError(reply.failure)


def _asked(
    work: Work,
    shipped: Shipped,
    spec: bytes,
    parts: Mapping[int, Post],
    blobs: Mapping[int, list[bytes]],
) -> dict[Post, Request]:
    """One request to each post, for all parts that are its own."""
    mine: dict[Post, list[Part]] = {}
    for part, post in parts.items():
        mine.setdefault(post, []).append(Part(part, blobs.get(part, [])))
    return {
        post: Request(next(_numbers), work, shipped.digest, shipped.data, spec, each)
        for post, each in mine.items()
    }


@contextmanager
def _turns(
    posts: Iterable[Post], limit: JobLimit, seconds_max: float = _TURN_SECONDS_MAX
) -> Iterator[None]:
    """Have some posts to oneself.

    Raises:
        NotReadyError: When others use them for longer than this waits, or one is not manned.
        AttemptError: When the attempt is over.
    """
    mine = sorted(set(posts), key=lambda each: each.key)
    until = time.monotonic() + seconds_max
    with ExitStack() as turns:
        for post in mine:  # all take them in the same order, so nobody waits in a circle
            limit.check()
            if not post.turn.take(until - time.monotonic()):
                raise NotReadyError
            turns.callback(post.turn.give_back)
        if not all(post.is_ready() or (post.await_return() and post.is_ready()) for post in mine):
            raise NotReadyError
        yield


def _mistaken(said: str) -> ActorFailure:
    return ActorFailure(
        AccountsError.code,
        f"what a standing task answered is not what it was asked: {said}",
        "the attempt is made again; report it with the log if it comes back",
    )
